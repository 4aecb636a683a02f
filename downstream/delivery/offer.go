package delivery

import (
	"hash/maphash"
	"iter"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// A client may reject content only for what it lacks: a listener that names a cluster which the
// client does not have yet. Then nobody changes the content, and the client would never have it.
// So the client is offered it again once there is a reason: the server sent it again, or the
// client accepted something that others may refer to. One clock for each content bounds how
// often (ACK-3). A list of the state of the world is one content.

const (
	firstOffer = 100 * time.Millisecond // from the first rejection to the next offer, at least
	lastOffer  = 30 * time.Second       // twice as long after each further one, up to this
)

// current reports whether the resource still has the content that was sent, and is subscribed
// to.
func (i item) current(w *typeSub) bool {
	switch {
	case i.entry.Changed() != i.changed || i.entry.Resource() == nil:
		return false
	case i.sub != nil:
		return !i.sub.ended
	}
	return i.entry.Member() && w.subs.following(i.entry.Collection()) != nil
}

// table returns the table of the resource.
func (i item) table(w *typeSub) *cache.Table {
	if c := i.entry.Collection(); c != nil {
		return c.Table()
	}
	return w.place.store.FindTable(w.typeURL, cache.ByName)
}

// reject counts a rejection.
func (o *offer) reject(now time.Time) {
	wait := lastOffer
	if firstOffer < lastOffer>>o.nacks { // the other way round it could overflow
		wait = firstOffer << o.nacks
	}
	o.nacks++
	o.next, o.due, o.out = now.Add(wait), false, false
}

// SentAgain has a list offered again, as the server sent something of it again.
func (o *offer) SentAgain() {
	o.due = true
	o.typeSub.ring()
}

// SentAgain has the resource offered again, as the server sent it again.
func (r *rejected) SentAgain() {
	r.typeSub.again.wait(r)
	r.typeSub.ring()
}

// wait has a resource wait until its clock lets it be offered again.
func (a *rejections) wait(r *rejected) {
	if !r.due {
		r.due = true
		a.waiting = append(a.waiting, r)
	}
}

// rejectAlone records that the client rejected a resource that stood alone. Other clients are
// sent it last and alone then. The caller holds the store's lock for writing.
func (a *rejections) rejectAlone(i item) {
	w := a.typeSub
	t := i.table(w)
	if t == nil || !i.current(w) {
		return
	}
	key, content := i.entry.Key(), w.place.contentOf(i.entry.Resource())
	r := a.alone[key]
	if r != nil {
		r.forgive()
	}
	if r == nil || r.content != content {
		r = &rejected{content: content, offer: offer{typeSub: w}}
		a.alone[strings.Clone(key)] = r
	}
	r.item, r.waitsIn, r.waitsAt = i, t, i.entry
	r.reject(w.place.store.Now())
	t.Rejections().Add(i.entry, r)
	w.held.drop(key) // of a member that stood in for a name (stoodIn)
}

// forgive has the table forget the rejection.
func (r *rejected) forgive() {
	r.due = false
	r.waitsIn.Rejections().Forgive(r.waitsAt, r)
}

// drop forgets a rejection.
func (a *rejections) drop(key string) {
	a.alone[key].forgive()
	delete(a.alone, key)
}

// contentOf is a hash of a payload. The version is no part of it: a server may give the same
// content another one.
func (c *Place) contentOf(r *wire.Resource) uint64 { return maphash.Bytes(c.store.Seed(), r.Any()) }

// putOff reports whether a change brought content that the client has rejected alone: the server
// gave it another version, or sent it in the table of names too. The client is offered it when
// its clock says so.
func (a *rejections) putOff(i item, wr *writer) bool {
	if a == nil {
		return false
	}
	r := a.alone[i.entry.Key()]
	switch {
	case r == nil || i.entry.Resource() == nil:
		return false
	case r.content != a.typeSub.place.contentOf(i.entry.Resource()):
		if r.waitsAt == i.entry {
			r.due = false
			delete(a.alone, i.entry.Key()) // the table has forgotten it with the content
		}
		return false
	}
	r.item, r.out = i, false
	if a.wait(r); !wr.time(a.typeSub).Before(r.next) {
		a.offer(r)
	}
	return true
}

// offer has a resource go once more.
func (a *rejections) offer(r *rejected) {
	r.due, r.out = false, true
	a.add(group{items: []item{r.item}, offered: true})
}

// offerAll has go once more what there is a reason to offer again, and whose time has come.
func (a *rejections) offerAll(now time.Time) {
	w := a.typeSub
	rest := a.waiting[:0]
	for _, r := range a.waiting {
		_, pending := a.pending[r.entry]
		switch {
		case !r.due:
		case r.out || now.Before(r.next): // the client has not answered the last offer, or it is early
			rest = append(rest, r)
		case pending || !r.current(w):
			r.due = false
		default:
			a.offer(r)
		}
	}
	clear(a.waiting[len(rest):])
	a.waiting = rest
	if l := a.list; l != nil && l.due && !l.out && !now.Before(l.next) {
		l.due, l.out, w.list.relist, w.found.offered = false, true, true, true
	}
}

// Offer gives a reason to offer everything again that the client rejects: it accepted, on this
// stream or another, something that others may refer to. It reports whether there is anything.
func (s *Subscriber) Offer() (due bool) {
	for _, c := range s.places {
		for _, w := range c.types {
			if w.again != nil {
				c.store.View(func() { due = w.again.reason() || due })
			}
		}
	}
	return due
}

func (a *rejections) reason() (due bool) {
	for _, r := range a.alone {
		a.wait(r)
		due = true
	}
	if a.list != nil {
		a.list.due, due = true, true
	}
	return due
}

// Leads reports whether an accepted response has brought something that others may refer to: what
// the client rejected for want of it may be good now.
func (b *Batch) Leads() bool { return b.flight.news && xds.Enables(b.TypeURL) }

// Offered reports whether the response offers something again that the client rejected.
func (b *Batch) Offered() bool { return b.flight.offered }

// refuses records, in all stores of the list, that the client rejected its last list.
func (s *Subscriber) refuses(b *Batch) {
	for _, c := range s.places {
		if w := c.find(b.TypeURL); w != nil && w.list.full {
			c.store.Edit(func() {
				w.list.refused = true
				w.rejections().rejectList(b)
			})
		}
	}
}

// accepts records, in all stores of the list, that the client accepted its last list, and reports
// whether that is news.
func (s *Subscriber) accepts(typeURL string) (news bool) {
	for _, c := range s.places {
		if w := c.find(typeURL); w != nil && w.list.refused {
			news = true
			c.store.Edit(func() {
				w.list.refused = false
				w.again.forgive()
				w.again = nil
			})
		}
	}
	return news
}

// rejectList records that the client rejected a list. It may have rejected one with the same content
// before.
func (a *rejections) rejectList(b *Batch) {
	if a.list == nil || !b.flight.repeats {
		a.forgiveList()
		a.list = &offer{typeSub: a.typeSub}
	}
	store := a.typeSub.place.store
	a.list.reject(store.Now())
	a.list.content = b.contentOf(store)
	for t := range a.tables() {
		t.Rejections().AddList(a.list)
	}
}

// forgiveList has the tables forget that the client rejected a list.
func (a *rejections) forgiveList() {
	if a.list == nil {
		return
	}
	for t := range a.tables() {
		t.Rejections().Forgive(nil, a.list)
	}
	a.list = nil
}

// forgive has the tables forget everything that the client rejected. The caller holds the store's
// lock for writing.
func (a *rejections) forgive() {
	if a == nil {
		return
	}
	a.forgiveList()
	for _, r := range a.alone {
		r.forgive()
	}
}

// tables are the tables of the type.
func (a *rejections) tables() iter.Seq[*cache.Table] {
	return func(yield func(*cache.Table) bool) {
		for _, k := range []cache.Kind{cache.ByName, cache.WholeType} {
			if t := a.typeSub.place.store.FindTable(a.typeSub.typeURL, k); t != nil && !yield(t) {
				return
			}
		}
	}
}

// accept records that the client accepted resources that went once more: those of a group.
func (g *group) accept(w *typeSub) {
	for _, i := range g.items {
		if !i.current(w) {
			continue
		}
		if t := i.table(w); t != nil {
			t.Rejections().Trust(i.entry)
		}
		if w.again != nil && w.again.alone[i.entry.Key()] != nil {
			w.again.drop(i.entry.Key())
		}
	}
}
