package cache

import "github.com/xdsrelay/xdsrelay/keyer"

// A pin is demand without a client: the resources that clients have refer to the name (LIST-2,
// LOC-1). The server is asked for it, and it is not evicted, as if a client subscribed to it by
// name. Its changes ring no client and cost no more than those of idle names. Content that is not to
// be cached has no pins: nobody may fetch that ahead (TTL-5).

// Pin pins names and globs of a type, not "*". Pins are counted: each needs one Unpin or Unlist.
// Any goroutine may call it.
func (s *Store) Pin(typeURL string, names ...Name) {
	if len(names) == 0 {
		return
	}
	s.pinAll(typeURL, names)
	s.cache.trim()
}

func (s *Store) pinAll(typeURL string, names []Name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.Table(typeURL, ByName)
	for _, n := range names {
		t.pin(n)
	}
	s.demandSignal.send() // the session may have waited for somebody to come (UPS-2)
}

// Unpin takes back one pin of each name. A name without pins and clients is idle then (SUB-11).
// Names without pins are ignored.
func (s *Store) Unpin(typeURL string, names ...Name) { s.unpinAll(typeURL, names, (*demand).release) }

// Unlist is Unpin for names to which nothing refers any more: without clients they are evicted at
// once (LIST-3).
func (s *Store) Unlist(typeURL string, names ...Name) {
	s.unpinAll(typeURL, names, func(i *demand) { i.evict(ReasonUnlisted) })
}

func (s *Store) unpinAll(typeURL string, names []Name, end func(*demand)) {
	defer s.cache.trim()
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tables[tableKey{typeURL, ByName}]; t != nil {
		for _, n := range names {
			t.unpin(n.Key, end)
		}
	}
}

func (t *Table) pin(n Name) {
	if t.passing(n.Key) {
		return
	}
	t.demands.pins[n.Key]++
	if t.demands.pins[n.Key] > 1 {
		return
	}
	if keyer.IsGlob(n.Key) {
		c := t.Collection(n.Key)
		c.pinned = true
		c.demand.want()
		if c.passing() { // members that clients name
			c.demand.passOn()
		}
		return
	}
	e := t.Entry(n.Key)
	e.marks.pinned = true
	t.want(e)
	t.references.usersChanged(e)
}

// unpin takes back one pin, and ends the demand if no other pin and no client needs it.
func (t *Table) unpin(key string, end func(*demand)) {
	switch t.demands.pins[key] {
	case 0:
		return
	case 1:
		delete(t.demands.pins, key)
	default:
		t.demands.pins[key]--
		return
	}
	if c := t.colls[key]; c != nil {
		c.pinned = false
		if !c.demand.subscribedTo() {
			end(c.demand)
		}
		return
	}
	e := t.entries[key]
	e.marks.pinned = false
	t.references.usersChanged(e)
	if e.wanted() {
		return
	}
	if e.extra.demand != nil {
		end(e.extra.demand)
	}
	t.forgetUnused(e)
}

// dropPins takes all pins of a name or a glob away.
func (t *Table) dropPins(key string) {
	if t.demands.pins[key] == 0 {
		return
	}
	delete(t.demands.pins, key)
	if c := t.colls[key]; c != nil {
		c.pinned = false
		return
	}
	e := t.entries[key]
	e.marks.pinned = false
	t.references.usersChanged(e)
}

// checkPins verifies that entries and collections know whether they are pinned.
func (t *Table) checkPins(c *Checker) {
	for key, n := range t.demands.pins {
		coll, e := t.colls[key], t.entries[key]
		c.That(n > 0, "%q has %d pins", key, n)
		c.That((coll != nil && coll.pinned) || (e != nil && e.marks.pinned), "%q has %d pins, and does not know", key, n)
	}
	for key, coll := range t.colls {
		c.That(!coll.pinned || t.demands.pins[key] > 0, "%q is pinned by nobody", key)
		c.That(!coll.demand.passing() || coll.demand.evicting || len(coll.followers) > 0, "%q is kept without clients", key)
	}
	for key, e := range t.entries {
		c.That(!e.marks.pinned || t.demands.pins[key] > 0, "%q is pinned by nobody", key)
		if i := e.extra.demand; i != nil {
			c.That(!i.passing() || i.evicting || e.extra.audience != nil, "%q is kept without clients", key)
		}
	}
}
