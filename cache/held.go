package cache

import "github.com/xdsrelay/xdsrelay/cache/hold"

// holdBack holds what the server said of a name, if its loss is to be held, and reports whether it
// is. e is nil for a resource that only serves aliases. Names with variants are not held.
func holdBack(t *Table, key string, e *Entry, f hold.Fate) bool {
	h := t.upstream.held
	if !h.covers(e) || t.variants.of(key) != nil {
		return false
	}
	if e == nil && len(t.aliases.of(key)) == 0 || e != nil && !e.Exists() {
		return false
	}
	h.names.Put(key, f)
	if e != nil && e.Member() {
		e.coll.quiet.trust(e) // the server has spoken of it
	}
	return true
}

// checkHeld verifies what a table holds.
func checkHeld(t *Table, c *Checker) {
	h := t.upstream.held
	_, listed := t.store.due.held.tables[t]
	c.That(listed || !t.upstream.held.any(), "holds something, and is not listed")
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
