package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// holds keeps a resource of the response back, and reports whether it does: an assignment that lost its
// last endpoints; any new content of "*" for Listeners, which may need the address of one that is
// held; and any change of a frozen table. Other content ends that its name is held.
func (u *update) holds(t *Table, key string, e *Entry, r *wire.Resource) bool {
	h := t.upstream.held
	exists := e != nil && e.Exists()
	changed := !exists || e.res == nil || !u.same(e.res, r)
	f := hold.Fate{Resource: r, Loss: exists && h.covers(e) && t.empties(e, r)}
	held := f.Loss
	switch {
	case r.DoNotCache || u.restored:
	case h.frozen():
		held = changed && u.isKnown(t, key, e, r)
	case xds.RankOf(t.typeURL) == xds.RankListener && t.colls[Wildcard] != nil: // of "*" losses are held all together
		held = held || changed
	}
	if !held {
		h.names.Drop(key)
		return false
	}
	if e != nil && e.Open() {
		t.become(e, content{state: Absent}, said, u.received) // a client that asks for it is told what is released
	}
	h.names.Put(key, f)
	if exists {
		u.spoken(t, e)
		t.resent(e, r, u.received) // the name lives, so what clients have of it does
	}
	return true
}

// answerHeld answers a name that the server does not answer again, because it has: of what it said nothing is
// released. It reports whether there is such a name.
func (t *Table) answerHeld(e *Entry, now time.Time) bool {
	if !t.upstream.held.has(e) {
		return false
	}
	t.removeReleased(e, Absent, nil, now)
	return true
}

// isKnown reports whether clients know how it is with a resource: they have it, or know that there
// is none. The first answer to a question is no change.
func (u *update) isKnown(t *Table, key string, e *Entry, r *wire.Resource) bool {
	switch c := t.collectionOf(key, e); {
	case e != nil && e.Exists():
		return e.res != nil && !e.res.DoNotCache // of which nothing is released to later clients
	case c != nil && t.upstream.held.knows(c, u.received.Add(-t.store.source.Quiet)): // a name that is no member does not exist
		return true
	case e != nil && e.state == Absent:
		return true
	}
	served := t.aliases.of(key)
	for _, e := range served {
		if e.res != nil && u.same(e.res, r) {
			return false
		}
	}
	return len(served) > 0 || t.resolves(r)
}

// resolves reports whether clients know something of an alias of a resource.
func (t *Table) resolves(r *wire.Resource) bool {
	for _, alias := range r.Aliases() {
		key, err := keyer.Key(alias)
		if err != nil {
			continue
		}
		if e := t.entries[key]; e != nil && (e.Exists() || e.state == Absent) {
			return true
		}
	}
	return false
}

// holdBack holds what the server said of a name, if its loss is to be held, and reports whether it
// is. e is nil for a resource that only serves aliases.
func (t *Table) holdBack(key string, e *Entry, f hold.Fate) bool {
	h := t.upstream.held
	if !h.covers(e) {
		return false
	}
	if e == nil && len(t.aliases.of(key)) == 0 || e != nil && !e.Exists() {
		h.names.Drop(key) // it was new, and clients do not know of it
		return false
	}
	h.names.Put(key, f)
	if e != nil && e.Member() {
		e.coll.quiet.trust(e) // the server has spoken of it
	}
	if e != nil && h.frozen() {
		t.confirm(e)
	}
	return true
}

// lose removes an entry that the server does not have any more, or holds that.
func (t *Table) lose(e *Entry, now time.Time) {
	if !t.holdBack(e.key, e, hold.Fate{Name: e.Name(), Loss: true}) {
		t.become(e, content{state: Absent}, said, now)
	}
}

// unconfirmed reports whether an entry is a member that the server has not confirmed on the present
// stream (RES-14).
func (e *Entry) unconfirmed() bool { return e != nil && e.Member() && e.coll.quiet.isStale(e) }

// removeReleased removes what clients have of an entry, which says nothing of the content that is held:
// the server has that all the same.
func (t *Table) removeReleased(e *Entry, to State, err *wire.ResourceError, now time.Time) {
	h := t.upstream.held
	f, held := h.content(e.key)
	t.become(e, content{state: to, err: err}, said, now)
	if held && (t.entries[e.key] == e || t.collectionOf(e.key, e) != nil) {
		f.Loss = false // there is nothing left to lose
		h.names.Put(e.key, f)
	}
}

// checkHeld verifies what a table holds.
func (t *Table) checkHeld(c *Checker) {
	h := t.upstream.held
	_, listed := t.store.due.held.tables[t]
	_, frozen := t.store.due.held.frozen[t]
	c.That(listed || frozen || !h.any(), "holds something, and is not listed")
	c.That(frozen == h.frozen() && !(listed && frozen), "is frozen: %t, listed: %t and %t", h.frozen(), frozen, listed)
	c.That(!listed || t.store.due.held.clock.Runs(), "holds something, and nothing will release it")
	if h == nil {
		return
	}
	losses := 0
	for key, f := range h.names.All() {
		e := t.entries[key]
		if f.Loss {
			losses++
		}
		c.That(!f.Loss || e != nil && e.Exists() || e == nil && f.Removes(), "%q is held and does not exist", key)
	}
	c.That(losses == h.names.Losses(), "%d losses are held, counted as %d", losses, h.names.Losses())
}
