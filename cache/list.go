package cache

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// list takes a list of a full-state type: everything that the client's
// subscriptions hold, each name once (RES-2, RES-4), and what was removed after
// the number upTo and may not go yet (ADS-1). Cursors and names advance as if the
// changes had been sent.
func (p *pass) list(w *watch, st step, upTo uint64) {
	if p.left == 0 {
		p.full = true
		return
	}
	removed := w.retained(upTo)
	alone := st.places == 1 && len(removed) == 0
	p.watch, p.table, p.cur, p.names = w, nil, nil, nil
	if !(alone && w.current() && !w.relist && !w.errorsDue(upTo)) { // ACK-5
		p.left--
		p.cur = &Batch{
			TypeURL: w.typeURL, Rank: w.rank, Removal: !st.adds, Renewal: !w.news,
			SystemVersion: w.version(sumAll(removed)), Store: w.client.store,
		}
		p.out = append(p.out, p.cur)
		if alone && w.wildcardOnly() && !w.hasTTLs() {
			p.cur.Body.AddBody(w.wildcard.coll.body(w.client.form.Wrapped))
		} else {
			l := lister{pass: p, wrapped: w.client.form.Wrapped, names: make(map[string]bool), keys: p.keysOf(w.typeURL)}
			l.watch(w)
			for _, k := range removed {
				l.add(k.res, k.name, 0)
			}
		}
		p.listErrors(w, upTo)
	}
	p.listed(w, upTo)
	p.watch, p.cur = nil, nil
}

// stillListed is a removed resource that a list still holds.
type stillListed struct {
	res  *wire.Resource
	name string
	sum  digest.Sum
}

// retainedSum is what a removed resource adds to the version of a list. That must not be the
// version of the list without it.
func retainedSum(key string, r *wire.Resource) digest.Sum {
	return digest.Of("removed", key, string(r.Raw()))
}

// retained returns what the client holds and was removed after a number.
func (w *watch) retained(after uint64) []stillListed {
	var all []stillListed
	for _, sub := range w.dirty {
		if !sub.ended && sub.takesAway() && sub.retained != nil && sub.entry.changed > after {
			all = append(all, stillListed{sub.retained, sub.shown(), retainedSum(sub.entry.key, sub.retained)})
		}
	}
	for f := range w.cursors() {
		for e := f.coll.tombs.after(max(f.removed, after), nil, f.coll); e != nil; e = e.next {
			if e.retained != nil && f.mayHave(e) && !f.byName(e.key) && !f.drops(e) {
				all = append(all, stillListed{e.retained, f.spell(e), retainedSum(e.key, e.retained)})
			}
		}
	}
	return all
}

func sumAll(removed []stillListed) digest.Sum {
	var all digest.Sum
	for _, k := range removed {
		all = all.Plus(k.sum)
	}
	return all
}

// keysOf are the keys that a list holds so far; nil if nobody needs to know.
func (p *pass) keysOf(typeURL string) map[string]bool {
	if p.keys != nil && p.keys[typeURL] == nil {
		p.keys[typeURL] = make(map[string]bool)
	}
	return p.keys[typeURL]
}

// lister writes a list.
type lister struct {
	pass    *pass
	wrapped bool
	names   map[string]bool
	// What the parts of other stores tell, by key: it is not for "*" to tell (byName). What they
	// do not know yet "*" goes on listing, since a list that lacks something deletes it. Nil if
	// there are no other parts.
	keys map[string]bool
}

func (l *lister) watch(w *watch) {
	for _, sub := range w.names.sorted() {
		switch e := sub.entry; {
		case e.listed() == nil:
			if l.keys != nil && !e.open() {
				l.keys[e.key] = true // it is known not to be there, whatever "*" brings
			}
		case e.alias:
			l.entry(e, e.servedName())
		default:
			l.entry(e, sub.shown())
		}
	}
	for _, spelling := range slices.Sorted(maps.Keys(w.globs)) {
		l.members(w, w.globs[spelling])
	}
	if w.wildcard != nil {
		l.members(w, w.wildcard)
	}
}

// members adds those that the client is not served by name.
func (l *lister) members(w *watch, f *cursor) {
	for e := f.coll.live.head; e != nil; e = e.next {
		switch {
		case e.listed() == nil, f.byName(e.key) && !w.namedElsewhere(e.key):
		case f.coll.wildcard() && l.keys[e.key]: // RES-4
		default:
			l.entry(e, f.spell(e))
		}
	}
}

func (l *lister) entry(e *entry, name string) {
	if l.keys != nil {
		l.keys[e.key] = true
	}
	l.add(e.listed(), name, l.pass.remaining(e))
}

func (l *lister) add(r *wire.Resource, name string, ttl time.Duration) {
	if !l.wrapped {
		name = r.Name // a bare payload carries the server's spelling (NAME-4)
	}
	key := variantName(name, r)
	if l.names[key] {
		return
	}
	l.names[key] = true
	if l.wrapped {
		l.pass.cur.Body.AddWrappedTTL(r, name, ttl)
	} else {
		l.pass.cur.Body.AddAny(r)
	}
}

// listed notes that the client has a list of all that there is, save removals
// after a number.
func (p *pass) listed(w *watch, upTo uint64) {
	for f := range w.cursors() {
		p.levelled(w, f, upTo)
	}
	dirty := w.dirty[:0]
	for _, sub := range w.dirty {
		switch {
		case sub.ended:
			continue
		case w.staysListed(sub, upTo):
			dirty = append(dirty, sub)
			continue
		}
		p.taken(sub.entry, sub.pushed)
		sub.retained, sub.dirty, sub.pushed, sub.heartbeat, sub.denied = nil, false, false, false, false
		sub.holds = sub.entry.there()
	}
	clear(w.dirty[len(dirty):])
	w.dirty, w.ended = dirty, 0
	if len(dirty) == 0 {
		w.dirty = nil
	}
	w.held, w.answers = nil, nil
	w.listed, w.relist, w.led, w.presented = true, false, true, ""
	if w.client.form.TTL {
		p.renewed(w)
	}
}

// levelled advances a cursor to the end of its collection.
func (p *pass) levelled(w *watch, f *cursor, upTo uint64) {
	c := f.coll
	for e := c.live.after(f.sent, f.at, c); e != nil; e = e.next {
		pushed := e.changed > f.born
		p.taken(e, pushed)
		if pushed {
			f.since++
		}
		if r := e.listed(); r != nil {
			p.cluster(r, f.isNew(e))
		}
		f.sent, f.at = e.changed, e
		f.ttl.settle(e.key)
	}
	for e := c.tombs.after(f.removed, f.tomb, c); e != nil && e.changed <= upTo; e = e.next {
		p.taken(e, true)
		f.since++
		f.removed, f.tomb = e.changed, e
		f.ttl.settle(e.key)
	}
	f.removed = max(f.removed, min(c.floor, upTo))
	f.keepsListed()
	f.told, f.versions = true, nil
	f.ttl.level(c.table.store.heartbeats)
	p.level(w, f)
}

// keepsListed notes what the client may hold that showed a version and has its first list
// now: that goes on holding the removed members that it may have from before (ADS-1), and
// from now on nobody could tell, and so no list would be due without them.
func (f *cursor) keepsListed() {
	if w := f.watch; w.presented == "" || w.listed {
		return
	}
	for e := f.coll.tombs.after(f.removed, f.tomb, f.coll); e != nil; e = e.next {
		if e.retained != nil {
			f.reached = max(f.reached, e.added)
		}
	}
}

// bodies are the lists of all members of "*", bare and wrapped, each encoded once
// for all clients. They are built under the store's read lock, and so guarded by a
// lock of their own, the last one to be taken; whoever changes the collection holds
// the store's lock for writing, and needs no other.
type bodies struct {
	mu            sync.Mutex
	bare, wrapped *wire.Body
	// What collection.versionSum gives, at which number of changes, and the member that is
	// not in it yet, nil if all are.
	versions, summedAt uint64
	summed             *entry
}

// body gives one of them.
func (c *collection) body(wrapped bool) *wire.Body {
	c.bodies.mu.Lock()
	defer c.bodies.mu.Unlock()
	place := &c.bodies.bare
	if wrapped {
		place = &c.bodies.wrapped
	}
	if *place != nil {
		return *place
	}
	var b wire.Builder
	for e := c.live.head; e != nil; e = e.next {
		switch r := e.listed(); {
		case r == nil: // not kept (TTL-5), and asked for anew
		case wrapped:
			b.AddWrapped(r, "")
		default:
			b.AddAny(r)
		}
	}
	*place = b.Body()
	return *place
}
