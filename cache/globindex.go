package cache

import "github.com/xdsrelay/xdsrelay/keyer"

// globIndex has the entries of a table that are held by name only, by the glob that they
// would be members of. Whoever subscribes to the glob finds them there: the server need not
// mention them again. Guarded by Store.mu.
type globIndex struct {
	names   bool // immutable; the table is of names. No other has globs
	entries map[string]map[*entry]struct{}
}

// add records that e belongs to a glob that nobody has subscribed to, if it belongs to
// one.
func (g *globIndex) add(e *entry) {
	if e.loose || !g.names || e.alias {
		return
	}
	glob := keyer.GlobOf(e.key)
	if glob == "" {
		return
	}
	if g.entries == nil {
		g.entries = make(map[string]map[*entry]struct{})
	}
	if g.entries[glob] == nil {
		g.entries[glob] = make(map[*entry]struct{})
	}
	g.entries[glob][e] = struct{}{}
	e.loose = true
}

// remove forgets e.
func (g *globIndex) remove(e *entry) {
	if !e.loose {
		return
	}
	e.loose = false
	glob := keyer.GlobOf(e.key)
	delete(g.entries[glob], e)
	if len(g.entries[glob]) == 0 {
		delete(g.entries, glob)
	}
}

// take returns the entries that belong to a glob, and forgets them.
func (g *globIndex) take(glob string) map[*entry]struct{} {
	taken := g.entries[glob]
	delete(g.entries, glob)
	for e := range taken {
		e.loose = false
	}
	return taken
}

// check verifies that an entry of a table is listed if it says so, and is no member then.
func (g *globIndex) check(c *checker, e *entry) {
	_, listed := g.entries[keyer.GlobOf(e.key)][e]
	c.that(e.loose == listed && !(listed && e.coll != nil), "%q: loose %t, listed %t, collection %t", e.key, e.loose, listed, e.coll != nil)
}
