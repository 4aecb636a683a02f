package cache

import "github.com/xdsrelay/xdsrelay/keyer"

// A pin is interest that no client has: the relay's own, in what the resources refer
// to that its clients have (LIST-2, LOC-1). The server is asked for what is pinned, and
// nothing evicts it, as if a client had subscribed to it by name; but nobody is told of
// its changes, so that they cost no more than those of what waits in the LRU.

// Pin pins names and globs of a type, not "*". Pins are counted: it takes as many Unpins
// or Unlists to end them. It may be called from any goroutine.
func (s *Store) Pin(typeURL string, names ...Name) {
	if len(names) == 0 {
		return
	}
	s.mu.Lock()
	t := s.table(typeURL, byName)
	for _, n := range names {
		t.pin(n)
	}
	s.signalDemand() // the session may have waited for somebody to come (UPS-2)
	s.mu.Unlock()
	s.cache.trim()
}

// Unpin takes back one pin of each name. What nobody wants any more then waits to be
// evicted, like what the last client left (SUB-11). Names without pins are ignored.
func (s *Store) Unpin(typeURL string, names ...Name) { s.unpin(typeURL, names, (*interest).release) }

// Unlist is Unpin for what nothing refers to any more: if no client wants it either,
// it is let go at once (LIST-3).
func (s *Store) Unlist(typeURL string, names ...Name) {
	s.unpin(typeURL, names, func(i *interest) { i.evict(ReasonUnlisted) })
}

func (s *Store) unpin(typeURL string, names []Name, end func(*interest)) {
	s.mu.Lock()
	if t := s.tables[tableKey{typeURL, byName}]; t != nil {
		for _, n := range names {
			t.unpin(n.Key, end)
		}
	}
	s.mu.Unlock()
	s.cache.trim()
}

func (t *table) pin(n Name) {
	t.pins[n.Key]++
	if t.pins[n.Key] > 1 {
		return
	}
	if keyer.IsGlob(n.Key) {
		c := t.collection(n.Key)
		c.pinned = true
		c.interest.want()
		return
	}
	e := t.entry(n.Key)
	e.pinned = true
	t.demand(e)
	t.references.usersChanged(e)
}

// unpin takes back one pin, and ends the interest if that was the last one of all who
// wanted it.
func (t *table) unpin(key string, end func(*interest)) {
	switch t.pins[key] {
	case 0:
		return
	case 1:
		delete(t.pins, key)
	default:
		t.pins[key]--
		return
	}
	if c := t.colls[key]; c != nil {
		c.pinned = false
		if !c.interest.watched() {
			end(c.interest)
		}
		return
	}
	e := t.entries[key]
	e.pinned = false
	t.references.usersChanged(e)
	if e.wanted() {
		return
	}
	if e.interest != nil {
		end(e.interest)
	}
	t.forgetUnused(e)
}

// wanted reports whether somebody wants the entry for its name.
func (e *entry) wanted() bool { return len(e.subs) > 0 || e.pinned }

// checkPins verifies that what is pinned is there, and nothing else says that it is.
func (t *table) checkPins(c *checker) {
	for key, n := range t.pins {
		coll, e := t.colls[key], t.entries[key]
		c.that(n > 0, "%q has %d pins", key, n)
		c.that((coll != nil && coll.pinned) || (e != nil && e.pinned), "%q has %d pins, and does not know", key, n)
	}
	for key, coll := range t.colls {
		c.that(!coll.pinned || t.pins[key] > 0, "%q is pinned by nobody", key)
	}
	for key, e := range t.entries {
		c.that(!e.pinned || t.pins[key] > 0, "%q is pinned by nobody", key)
	}
}
