package cache

import (
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// A server speaks for its own authorities (Source.Speaks). Each xdstp name means the same to
// everybody (NAME-2), and the upstream of its authority says what (LOC-3). So what another
// server brings under such a name with "*" is left out. What was asked for by name or by glob
// was asked of its own upstream.

// speaks reports whether the server says what a key of "*" stands for.
func (s *Source) speaks(key string) bool {
	return s.Speaks == nil || !keyer.IsXDSTP(key) || s.Speaks(keyer.AuthorityOf(key))
}

// leaveOutForeign leaves out of a response for "*" what the server does not speak for.
func (u *update) leaveOutForeign(t *table) {
	source := &t.store.source
	if t.kind != wholeType || source.Speaks == nil {
		return
	}
	for i, key := range u.keys {
		if !source.speaks(key) {
			u.keys[i] = badKey
			u.foreign++
			u.foreigner = u.response.Resources[i].Name
		}
	}
	for i, key := range u.failed {
		if !source.speaks(key) {
			u.failed[i] = badKey
			delete(u.failing, key)
		}
	}
	if c := t.colls[Wildcard]; c != nil && u.foreign > 0 {
		c.foreign = true
	}
}

// tellForeign tells what was left out of a response. The caller holds no lock.
func (u *update) tellForeign(s *Store) {
	if u.foreign > 0 {
		s.cache.observer.Foreign(s.source.Upstream, u.response.TypeURL, u.foreigner, u.foreign)
	}
}

// SetSpeaks replaces Source.Speaks. Members of "*" that the server does not speak for any
// longer are removed. Where something was left out before, the server is asked for "*" anew.
func (s *Store) SetSpeaks(speaks func(authority string) bool) {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	s.mu.Lock()
	s.source.Speaks = speaks
	for _, t := range s.tables {
		if c := t.colls[Wildcard]; c != nil && t.kind == wholeType {
			t.refilter(c)
		}
	}
	s.finish()
	s.mu.Unlock()
	s.flushWakes()
	s.cache.trim()
}

// refilter does so for the "*" of one type.
func (t *table) refilter(c *collection) {
	source := &t.store.source
	if c.foreign {
		c.foreign = false // the answer says whether there is something foreign in it still
		c.interest.ask()
	}
	u := &update{response: &wire.DeltaResponse{TypeURL: t.typeURL}, received: t.store.cache.now()}
	for e := c.live.head; e != nil; {
		next := e.next
		if !source.speaks(e.key) {
			c.foreign = true
			u.forget(t, e)
		}
		e = next
	}
	u.matchVariants(t)
	for x := c.errors.after(0); x != nil; {
		next := x.next()
		if !source.speaks(x.key) {
			c.dropError(x.key)
		}
		x = next
	}
}

// forget removes a member of "*" with all its variants.
func (u *update) forget(t *table, e *entry) {
	if t.variants.of(e.key) == nil {
		u.remove(t, e.key, e.name())
		return
	}
	u.touch(t, e.key).removeAll()
}
