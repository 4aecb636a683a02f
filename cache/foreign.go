package cache

import "github.com/xdsrelay/xdsrelay/internal/wire"

// A server speaks for its own authorities (Source.Speaks). An xdstp name means the same to all
// clients (NAME-2), and the upstream of its authority serves it (LOC-3). If another server
// sends it with "*", the relay leaves it out. Names and globs go to their own upstream anyway.

// leaveOutForeign leaves out of a response for "*" the names that the server does not speak for.
func (u *update) leaveOutForeign(t *Table) {
	source := &t.store.source
	if t.kind != WholeType || source.Speaks == nil {
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

// tellForeign tells the observer of resources that were left out. The caller holds no lock.
func (u *update) tellForeign(s *Store) {
	if u.foreign > 0 {
		s.cache.observer.Foreign(s.source.Upstream, u.response.TypeURL, u.foreigner, u.foreign)
	}
}

// SetSpeaks replaces Source.Speaks. Members of "*" that the server does not speak for any
// longer are removed. Where something was left out before, the server is asked for "*" anew.
func (s Session) SetSpeaks(speaks func(authority string) bool) {
	s.store.change(func() {
		s.store.source.Speaks = speaks
		for _, t := range s.store.tables {
			if c := t.colls[Wildcard]; c != nil {
				t.refilter(c)
			}
		}
	})
}

// refilter does so for the "*" of one type.
func (t *Table) refilter(c *Collection) {
	source := &t.store.source
	if c.foreign {
		c.foreign = false // the answer says whether there is something foreign in it still
		c.demand.ask()
	}
	u := &update{response: &wire.Response{TypeURL: t.typeURL}, received: t.store.cache.Now()}
	for e := c.log.live.head; e != nil; {
		next := e.next
		if !source.speaks(e.key) {
			c.foreign = true
			u.remove(t, e.key, e.Name())
		}
		e = next
	}
	for x := c.errors.after(0); x != nil; {
		next := x.Next()
		if !source.speaks(x.key) {
			c.dropError(x.key)
		}
		x = next
	}
}
