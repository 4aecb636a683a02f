package cache

// heartbeatList is the heartbeats of a collection's members that came after their content
// (TTL-3), by number. Each member has its last one there. Guarded by Store.mu.
type heartbeatList struct {
	head, tail *lifetime
	removed    uint64 // number of the last one that removed a member's TTL (TTL-4)
	clients    int    // followers that can do TTL
	noted      bool   // the collection is in Store.renewed
}

// add puts the last heartbeat of a member at the end.
func (h *heartbeatList) add(l *lifetime) {
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
func (h *heartbeatList) drop(l *lifetime) {
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

// last is the number of the last heartbeat, 0 if there is none.
func (h *heartbeatList) last() uint64 {
	if h.tail == nil {
		return 0
	}
	return h.tail.heartbeat
}

// after returns the first heartbeat with a number above n. It takes as many steps as
// there are such heartbeats.
func (h *heartbeatList) after(n uint64) *lifetime {
	if h.last() <= n {
		return nil
	}
	l := h.tail
	for l.prev != nil && l.prev.heartbeat > n {
		l = l.prev
	}
	return l
}

// check verifies the list of the collection with a key, which has so many followers that
// can do TTL.
func (h *heartbeatList) check(c *checker, key string, clients int, isMember func(*entry) bool) {
	last := uint64(0)
	var prev *lifetime
	for l := h.head; l != nil; prev, l = l, l.next {
		c.that(l.listed && l.prev == prev, "%q: heartbeats broken before %q", key, l.entry.key)
		c.that(isMember(l.entry) && l.entry.life == l && l.heartbeat > last, "%q: the heartbeat of %q is out of place", key, l.entry.key)
		last = l.heartbeat
	}
	c.that(h.tail == prev, "%q: heartbeats end too early", key)
	c.that(clients == h.clients, "%q: %d followers can do ttl, counted as %d", key, clients, h.clients)
}
