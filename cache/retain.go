package cache

import "github.com/xdsrelay/xdsrelay/internal/wire"

// A list of a full-state type still holds removed members while later types may refer to them
// (ADS-1). The relay therefore retains the bytes of a removed resource while a client may need
// them: a member's in its tombstone, for all clients, and a name's in the subscriptions to it.

// retained counts the tombstones of a collection that retain what they held. Guarded by Store.mu.
type retained struct{ tombstones int }

// add has a tombstone retain its former content.
func (r *retained) add(e *Entry, was *wire.Resource) {
	if e.extra.retained == nil {
		r.tombstones++
	}
	e.extra.own().retained = was
}

// release drops the content that a tombstone retains, if there is some.
func (r *retained) release(e *Entry) {
	if e.extra.retained != nil {
		e.extra.own().retained = nil
		e.extra.tidy()
		r.tombstones--
	}
}

// releaseUpTo drops the content that tombstones up to a revision retain. oldest is the first of
// all.
func (r *retained) releaseUpTo(oldest *Entry, number uint64) {
	for e := oldest; e != nil && e.changed <= number && r.tombstones > 0; e = e.next {
		r.release(e)
	}
}

// check verifies the number of a collection's tombstones that retain something.
func (r *retained) check(c *Checker, key string, oldest *Entry) {
	n := 0
	for e := oldest; e != nil; e = e.next {
		if e.extra.retained != nil {
			n++
		}
	}
	c.That(n == r.tombstones, "%q: %d kept tombstones counted as %d", key, n, r.tombstones)
}
