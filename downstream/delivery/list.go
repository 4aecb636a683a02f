package delivery

import (
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// lister delivers a list of a full-state type: everything that the client's subscriptions hold,
// each name once (RES-2, RES-4), and what was removed after the number upTo and may not go yet
// (ADS-1). Followers and names advance as if the changes had been sent.
type lister struct {
	delivery *delivery
	upTo     uint64
	names    map[string]bool
	// What the parts of other stores tell, by key: it is not for "*" to tell (byName). What
	// they do not know yet "*" goes on listing, since a list that lacks something deletes it.
	// Nil if there are no other parts.
	keys map[string]bool
}

// of returns the keys that a list holds so far; nil if the lists have one part.
func (k listKeys) of(typeURL string) map[string]bool {
	if k != nil && k[typeURL] == nil {
		k[typeURL] = make(map[string]bool)
	}
	return k[typeURL]
}

// list delivers a list, without what was removed up to a number.
func (p *delivery) list(w *typeSub, st step, upTo uint64) {
	if p.writer.left == 0 {
		p.writer.full = true
		return
	}
	l := lister{delivery: p, upTo: upTo}
	removed, sum := w.retained(upTo)
	alone := st.places == 1 && len(removed) == 0
	p.writer.typeSub, p.writer.table, p.writer.cur, p.writer.names = w, nil, nil, nil
	must := w.list.relist || !w.list.listed || w.errorsDue(upTo)
	if !(alone && w.current() && !w.list.relist && !w.errorsDue(upTo)) { // ACK-5
		p.writer.left--
		p.writer.cur = &Batch{
			TypeURL: w.typeURL, Rank: w.rank, Removal: !st.adds, Renewal: !w.found.news,
			SystemVersion: w.version().with(sum), Store: w.place.store,
		}
		p.writer.cur.flight.repeats, p.writer.cur.flight.offered = !w.found.changed, w.found.offered
		p.writer.out = append(p.writer.out, p.writer.cur)
		p.writer.merged(w, 0)
		if w.subs.screen != nil {
			p.writer.cur.extras().screened = screenedList{is: true, must: must}
		}
		if alone && w.subs.wildcardOnly() && !w.hasTTLs() && w.subs.screen == nil {
			w.put(p.writer.cur, outgoing{body: w.subs.wildcard.Collection().List(w.place.form.Wrapped)})
		} else {
			l.names, l.keys = make(map[string]bool), p.keys.of(w.typeURL)
			l.all(w)
			for _, n := range removed {
				l.add(n.Resource, n.Name, 0)
			}
		}
		l.errors(w)
	}
	l.listed(w)
	if b := p.writer.cur; b != nil && b.flight.offered && w.again != nil && w.again.list != nil {
		b.content.Cover(w.again.list.content) // it may not have changed since
	}
	p.writer.typeSub, p.writer.cur = nil, nil
}

// retained returns the resources that the client holds and that were removed after a number, and
// what they add to the version of a list. It must differ from that of the list without them.
func (w *typeSub) retained(after uint64) (all []Named, sum digest.Sum) {
	add := func(key string, r *wire.Resource, name string) {
		all, sum = append(all, Named{r, name}), sum.Plus(digest.Of("removed", key, string(r.Raw())))
	}
	for _, sub := range w.changed.names {
		if !sub.ended && sub.staysListed(after) {
			add(sub.entry.Key(), sub.retained, sub.spelling)
		}
	}
	for f := range w.subs.cursors() {
		for e := f.Collection().RemovedAfter(max(f.Removed(), after)); e != nil; e = e.Next() {
			if e.Retained() != nil && f.mayHave(e) && !w.subs.byName(f, e.Key()) && !f.drops(e) {
				add(e.Key(), e.Retained(), f.name.of(e))
			}
		}
	}
	return all, sum
}

func (l *lister) all(w *typeSub) {
	for _, sub := range w.subs.names.sorted() {
		switch e := sub.entry; {
		case e.Resource() == nil:
			if l.keys != nil && !e.Open() {
				l.keys[e.Key()] = true // it is known not to be there, whatever "*" brings
			}
		case e.Marks().Alias:
			l.entry(e, e.ServedName())
		default:
			l.entry(e, sub.spelling)
		}
	}
	for f := range w.subs.cursors() {
		l.members(&w.subs, f)
	}
}

// members adds the members that the client is not sent by name.
func (l *lister) members(subs *subscribed, f *follower) {
	for e := f.Collection().First(); e != nil; e = e.Next() {
		switch {
		case e.Resource() == nil, subs.byName(f, e.Key()) && !subs.parts.named(e.Key(), subs):
		case f.name.wildcard && l.keys[e.Key()]: // RES-4
		default:
			l.entry(e, f.name.of(e))
		}
	}
}

func (l *lister) entry(e *cache.Entry, name string) {
	if l.keys != nil {
		l.keys[e.Key()] = true
	}
	l.add(e.Resource(), name, l.delivery.writer.remaining(e))
}

func (l *lister) add(r *wire.Resource, name string, ttl time.Duration) {
	wr := &l.delivery.writer
	to := wr.typeSub.place.format
	name, _ = to.measure(r, name)
	if !l.names[name] {
		l.names[name] = wr.typeSub.put(wr.cur, outgoing{format: to, resource: r, name: name, ttl: ttl})
	}
}

// errors puts the errors into the list. The error of a removal after upTo waits: the list still
// has the resource (ADS-1).
func (l *lister) errors(w *typeSub) {
	for _, sub := range w.changed.names {
		if err := sub.errorOf(); err != nil && !sub.ended && !sub.staysListed(l.upTo) {
			l.delivery.writer.putError(err, sub.spelling)
		}
	}
	for _, sub := range w.changed.errors.sorted() {
		l.delivery.writer.putError(sub.entry.Err(), sub.spelling)
		w.changed.errors.drop(sub)
	}
	for f := range w.subs.cursors() {
		for x := f.Collection().ErrorsAfter(f.errorSent); x != nil && f.mayTell(x, l.upTo); x = x.Next() {
			if w.subs.tellsError(f, x) {
				l.delivery.writer.putError(x.Err(), f.name.ofError(x, f.Collection()))
			}
			f.errorSent = x.Number()
		}
	}
}

// listed records that the client has a list of everything, except removals after upTo.
func (l *lister) listed(w *typeSub) {
	for f := range w.subs.cursors() {
		l.levelled(w, f)
	}
	w.changed.drain(func(sub *nameSub) bool {
		if sub.staysListed(l.upTo) {
			return false
		}
		l.delivery.writer.record(sub.entry, sub.pushed)
		l.news(sub.exists() && !sub.holds)
		sub.toldAbsent = !sub.exists() && (sub.toldAbsent || sub.entry.Exists() || sub.entry.State() == cache.Absent)
		sub.holds, sub.retained = sub.exists(), nil
		sub.delivered()
		return true
	})
	w.held.versions, w.answers = nil, nil
	w.progress.led = true
	w.list.sent()
	w.found.offered = false
	if w.place.form.TTL {
		l.delivery.writer.renewed(w)
	}
}

// news records whether the list has something that the client did not hold.
func (l *lister) news(is bool) {
	if is && l.delivery.writer.cur != nil {
		l.delivery.writer.cur.flight.news = true
	}
}

// levelled advances a follower to the end of its collection.
func (l *lister) levelled(w *typeSub, f *follower) {
	c := f.Collection()
	for e := f.NextChange(); e != nil; e = e.Next() {
		pushed := e.Changed() > f.Begun()
		l.delivery.writer.record(e, pushed)
		if pushed {
			f.since++
		}
		if r := e.Resource(); r != nil && !f.hides(e) {
			l.delivery.cluster(r, l.delivery.isNew(f, e))
		}
		f.Advance(e)
		f.ttl.settle(e.Key())
	}
	for e := f.NextRemoval(); e != nil && e.Changed() <= l.upTo; e = e.Next() {
		l.delivery.writer.record(e, true)
		f.since++
		f.AdvanceRemovals(e)
		f.ttl.settle(e.Key())
	}
	f.SkipRemovals(min(c.Floor(), l.upTo))
	l.keepsListed(f)
	f.answered, f.held = true, nil
	f.ttl.level(c.Table().Store().LastHeartbeat())
	l.delivery.level(w, f)
}

// keepsListed records what a client may hold that showed a version and has its first list now.
// The list holds on to removed members that the client may have (ADS-1). Nobody could tell
// later, and no list would be due without them.
func (l *lister) keepsListed(f *follower) {
	if !f.typeSub.list.mayHaveAll() {
		return
	}
	for e := f.NextRemoval(); e != nil; e = e.Next() {
		if e.Retained() != nil {
			f.sentBefore = max(f.sentBefore, e.Added())
		}
	}
}

// current reports whether the client showed, when its stream began, the version of what its
// subscription holds now (ACK-5). What it names is sent all the same (WARM-2), and before the
// collection is synced nobody knows what it holds. Of a type that is sent by what changed the
// version says less: a client that has one part of a split response knows the version of all.
func (w *typeSub) current() bool {
	if !w.list.mayHaveAll() || !w.subs.wildcardOnly() || w.hasTTLs() {
		return false
	}
	c, v := w.subs.wildcard.Collection(), w.version()
	return c.Synced() && v.shown(w.list.presented) && v.trusted()
}

// hasTTLs reports whether members of "*" have TTLs that the client is to be told, or had TTLs
// that it may have been told.
func (w *typeSub) hasTTLs() bool {
	return w.place.form.TTL && w.subs.wildcard.Collection().Table().HasTTLs()
}
