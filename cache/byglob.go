package cache

import "github.com/xdsrelay/xdsrelay/keyer"

// under gives the members of "*" that belong to a glob, of those that a cursor's client is
// to know of. They are kept sorted once somebody asked: few or none are named so, and
// clients that have globs begin and end would hold up all others if each took a walk
// through all that "*" has.
func (c *Client) under(f *cursor, glob string, is func(*entry) bool) []Name {
	c.store.mu.Lock()
	f.coll.sortByGlob()
	c.store.mu.Unlock()
	c.store.mu.RLock()
	defer c.store.mu.RUnlock()
	var names []Name
	for e := range f.coll.byGlob[glob] {
		if is(e) {
			names = append(names, Name{Spelling: f.spell(e), Key: e.key})
		}
	}
	return names
}

func (c *collection) sortByGlob() {
	if c.byGlob != nil {
		return
	}
	c.byGlob = make(map[string]map[*entry]struct{})
	for e := c.live.head; e != nil; e = e.next {
		c.enter(e)
	}
}

// enter sorts in a member that came.
func (c *collection) enter(e *entry) {
	if c.byGlob == nil || !keyer.IsXDSTP(e.key) {
		return
	}
	glob := keyer.GlobOf(e.key)
	if c.byGlob[glob] == nil {
		c.byGlob[glob] = make(map[*entry]struct{})
	}
	c.byGlob[glob][e] = struct{}{}
}

// exit takes out one that went.
func (c *collection) exit(e *entry) {
	if c.byGlob == nil || !keyer.IsXDSTP(e.key) {
		return
	}
	glob := keyer.GlobOf(e.key)
	delete(c.byGlob[glob], e)
	if len(c.byGlob[glob]) == 0 {
		delete(c.byGlob, glob)
	}
}

// checkGlobs verifies that the members are sorted by their globs, if they are at all.
func (c *collection) checkGlobs(check *checker) {
	if c.byGlob == nil {
		return
	}
	sorted, named := 0, 0
	for glob, members := range c.byGlob {
		sorted += len(members)
		for e := range members {
			check.that(e.coll == c && e.member() && keyer.GlobOf(e.key) == glob, "%q is no member under %q", e.key, glob)
		}
	}
	for e := c.live.head; e != nil; e = e.next {
		if keyer.IsXDSTP(e.key) {
			named++
		}
	}
	check.that(sorted == named, "%d members are sorted by their globs, and %d have one", sorted, named)
}
