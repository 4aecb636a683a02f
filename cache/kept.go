package cache

import (
	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// A list of a full-state type goes on holding removed members as long as later
// types may still refer to them (ADS-1). What was removed therefore keeps its bytes
// while a client may need them: a member in its tombstone, for all clients, and a
// name in the subscriptions to it.

// keep has what e held stay for those that may still list it. Called after e became
// a tombstone.
func (t *table) keep(e *entry, was *wire.Resource) {
	if was == nil || t.digests.users == 0 || !t.store.source.FullState[t.typeURL] || !RankOf(t.typeURL).waits() {
		return
	}
	if e.dead && e.coll.states > 0 {
		if e.last == nil {
			e.coll.kept++
		}
		e.own().last = was
	}
	for _, s := range e.subs {
		if s.holds && s.watch.full {
			s.last = was
		}
	}
}

// letGo drops what a tombstone kept.
func (c *collection) letGo(e *entry) {
	if e.last != nil {
		e.own().last = nil
		e.tidy()
		c.kept--
	}
}

// letGoPassed drops what the tombstones kept that every client has passed.
func (c *collection) letGoPassed() {
	if c.kept == 0 {
		return
	}
	passed := c.table.store.seq
	for _, f := range c.followers {
		if f.client.form.State {
			passed = min(passed, f.removed)
		}
	}
	for e := c.tombs.head; e != nil && e.changed <= passed && c.kept > 0; e = e.next {
		c.letGo(e)
	}
}

// kept is a removed resource that a list still holds.
type kept struct {
	res  *wire.Resource
	name string
	sum  digest.Sum
}

// stillListed gives what the client holds and was removed after a number.
func (w *watch) stillListed(after uint64) []kept {
	var all []kept
	for _, sub := range w.dirty {
		if !sub.ended && sub.takesAway() && sub.last != nil && sub.entry.changed > after {
			all = append(all, kept{sub.last, sub.shown(), keptSum(sub.entry.key, sub.last)})
		}
	}
	for f := range w.cursors() {
		for e := f.coll.tombs.after(max(f.removed, after), nil, f.coll); e != nil; e = e.next {
			if e.last != nil && f.mayHave(e) && !f.byName(e.key) && !f.drops(e) {
				all = append(all, kept{e.last, f.spell(e), keptSum(e.key, e.last)})
			}
		}
	}
	return all
}

// keptSum is what a removed resource adds to the version of a list, which must not be
// the version of the list without it.
func keptSum(key string, r *wire.Resource) digest.Sum {
	return digest.Of("removed", key, string(r.Raw()))
}

// mayHave reports whether the client was sent a member before it was removed. Nobody
// knows what a client was sent before its stream began: while it has shown a version
// and has had no list, it may have everything (RES-2).
func (f *cursor) mayHave(e *entry) bool {
	return f.mayHaveAll() || e.added <= max(f.reached, f.sent)
}

func (f *cursor) mayHaveAll() bool {
	w := f.watch
	return w.full && w.presented != "" && !w.listed
}
