package cache

// Heartbeats are the heartbeats of a collection's members that came after their content
// (TTL-3), by number. Each member has its last one there. Guarded by Store.mu.
type Heartbeats struct {
	head, tail *Lifetime
	removed    uint64 // number of the last one that removed a member's TTL (TTL-4)
	noted      bool   // the collection is in changes.renewed
}

// add puts the last heartbeat of a member at the end.
func (h *Heartbeats) add(l *Lifetime) {
	h.drop(l)
	l.prev, l.next, l.listed = h.tail, nil, true
	if h.tail == nil {
		h.head = l
	} else {
		h.tail.next = l
	}
	h.tail = l
	if l.ttl == 0 {
		h.removed = l.heartbeat
	}
}

// drop takes l off the list, if there is an l and it is there.
func (h *Heartbeats) drop(l *Lifetime) {
	if l == nil || !l.listed {
		return
	}
	if l.prev == nil {
		h.head = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next == nil {
		h.tail = l.prev
	} else {
		l.next.prev = l.prev
	}
	l.prev, l.next, l.listed = nil, nil, false
}

// Last is the number of the last heartbeat, 0 if there is none.
func (h *Heartbeats) Last() uint64 {
	if h.tail == nil {
		return 0
	}
	return h.tail.heartbeat
}

// After is the member with the first heartbeat above a number, nil for none. It takes as many
// steps as there are such heartbeats.
func (h *Heartbeats) After(n uint64) *Lifetime {
	if h.Last() <= n {
		return nil
	}
	l := h.tail
	for l.prev != nil && l.prev.heartbeat > n {
		l = l.prev
	}
	return l
}

// First is the member whose last heartbeat came before those of the others, nil if no member had
// one.
func (h *Heartbeats) First() *Lifetime { return h.head }

// LastLifted is the number of the last heartbeat that removed a member's ttl (TTL-4).
func (h *Heartbeats) LastLifted() uint64 { return h.removed }

// check verifies the list of the collection with a key.
func (h *Heartbeats) check(c *Checker, key string, isMember func(*Entry) bool) {
	last := uint64(0)
	var prev *Lifetime
	for l := h.head; l != nil; prev, l = l, l.next {
		c.That(l.listed && l.prev == prev, "%q: heartbeats broken before %q", key, l.entry.key)
		c.That(isMember(l.entry) && l.entry.extra.life == l && l.heartbeat > last, "%q: the heartbeat of %q is out of place", key, l.entry.key)
		last = l.heartbeat
	}
	c.That(h.tail == prev, "%q: heartbeats end too early", key)
}
