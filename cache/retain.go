package cache

import "github.com/xdsrelay/xdsrelay/internal/wire"

// A list of a full-state type still holds removed members while later types may refer to
// them (ADS-1). The relay therefore retains the bytes of a removed resource while a client
// may need them: a member's in its tombstone, for all clients, and a name's in the
// subscriptions to it.

// retained counts the tombstones of a collection that retain what they held. Guarded by
// Store.mu.
type retained struct{ tombstones int }

// add has a tombstone retain what it held.
func (r *retained) add(e *entry, was *wire.Resource) {
	if e.retained == nil {
		r.tombstones++
	}
	e.own().retained = was
}

// release drops what a tombstone retains, if it does.
func (r *retained) release(e *entry) {
	if e.retained != nil {
		e.own().retained = nil
		e.tidy()
		r.tombstones--
	}
}

// releaseUpTo drops what the tombstones up to a number retain. oldest is the first of all.
func (r *retained) releaseUpTo(oldest *entry, number uint64) {
	for e := oldest; e != nil && e.changed <= number && r.tombstones > 0; e = e.next {
		r.release(e)
	}
}

// check verifies the number of a collection's tombstones that retain something.
func (r *retained) check(c *checker, key string, oldest *entry) {
	n := 0
	for e := oldest; e != nil; e = e.next {
		if e.retained != nil {
			n++
		}
	}
	c.that(n == r.tombstones, "%q: %d kept tombstones counted as %d", key, n, r.tombstones)
}
