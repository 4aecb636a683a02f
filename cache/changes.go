package cache

import "slices"

// changes are what the present response, or another cause, changes in a store. Guarded by
// Store.applyMu.
type changes struct {
	journal *journal      // immutable; of the store
	colls   []*Collection // changed
	renewed []*Collection // with heartbeats
	brought []*Entry      // content that the last response brought to subscribers; at most maxBrought
	again   bool          // the last response has content that clients rejected, and are offered again
	held    []Held        // what the observer is to be told
	past    past          // the states before
}

// maxBrought bounds changes.brought.
const maxBrought = 64

// begin is called before a response is applied.
func (s *changes) begin() {
	clear(s.brought)
	s.brought, s.again = s.brought[:0], false
}

// bring records that the response brings content, if somebody subscribes to it.
func (s *changes) bring(e *Entry) {
	if len(s.brought) < maxBrought && (e.extra.audience != nil || (e.Member() && len(e.coll.followers) > 0)) {
		s.brought = append(s.brought, e)
	}
}

// hear reports whether content of the last response goes to a client now.
func (s *changes) hear() bool {
	asked := Asked(0)
	return slices.ContainsFunc(s.brought, func(e *Entry) bool { return e.hears(&asked) })
}

// hears reports whether the content of e goes to a client now. It counts the clients that it
// looked at.
func (e *Entry) hears(asked *Asked) bool {
	if !e.Exists() {
		return false // gone by the same response
	}
	if e.extra.audience != nil && e.extra.audience.Hears(asked) {
		return true
	}
	return e.Member() && slices.ContainsFunc(e.coll.followers, func(f *Cursor) bool { return f.follower.Hears(asked) })
}

// add records that c changed. Its followers are rung once per response, however many members
// change.
func (s *changes) add(c *Collection) {
	if !c.log.noted {
		c.log.noted = true
		s.colls = append(s.colls, c)
	}
}

// addHeartbeat lists the heartbeat of a member.
func (s *changes) addHeartbeat(c *Collection, l *Lifetime) {
	c.heartbeats.add(l)
	if !c.heartbeats.noted {
		c.heartbeats.noted = true
		s.renewed = append(s.renewed, c)
	}
}

// finish rings the followers, and discards the tombstones that no client needs. The caller
// holds applyMu and mu.
// If a panic broke it off before, the lists have nil for what was done.
func (s *changes) finish() {
	for i, c := range s.colls {
		if c == nil {
			continue
		}
		s.colls[i] = nil
		c.log.noted = false
		c.sweep()
		c.waiters.ring(s.journal)
	}
	s.colls = s.colls[:0]
	for i, c := range s.renewed {
		if c == nil {
			continue
		}
		s.renewed[i] = nil
		c.heartbeats.noted = false
		ringAll(&c.waiters.timed, s.journal)
	}
	s.renewed = s.renewed[:0]
}
