package cache

import "github.com/xdsrelay/xdsrelay/keyer"

// globIndex has the entries of a table that are held by name only, by the glob that would have
// them as members. A later subscription to the glob takes them in: the server need not mention
// them again. Guarded by Store.mu.
type globIndex struct {
	names   bool // immutable; the table is of names. No other has globs
	entries map[string]map[*Entry]struct{}
}

// add records that e belongs to a glob without a subscription, if e belongs to one.
func (g *globIndex) add(e *Entry) {
	if e.marks.unglobbed || !g.names || e.marks.Alias {
		return
	}
	glob := keyer.GlobOf(e.key)
	if glob == "" {
		return
	}
	if g.entries == nil {
		g.entries = make(map[string]map[*Entry]struct{})
	}
	g.entries[glob] = with(g.entries[glob], e)
	e.marks.unglobbed = true
}

// remove forgets e.
func (g *globIndex) remove(e *Entry) {
	if !e.marks.unglobbed {
		return
	}
	e.marks.unglobbed = false
	glob := keyer.GlobOf(e.key)
	delete(g.entries[glob], e)
	if len(g.entries[glob]) == 0 {
		delete(g.entries, glob)
	}
}

// take returns the entries that belong to a glob, and forgets them.
func (g *globIndex) take(glob string) map[*Entry]struct{} {
	taken := g.entries[glob]
	delete(g.entries, glob)
	for e := range taken {
		e.marks.unglobbed = false
	}
	return taken
}

// check verifies that an entry of a table is listed if it says so, and is no member then.
func (g *globIndex) check(c *Checker, e *Entry) {
	_, listed := g.entries[keyer.GlobOf(e.key)][e]
	c.That(e.marks.unglobbed == listed && !(listed && e.coll != nil), "%q: unglobbed %t, listed %t, collection %t", e.key, e.marks.unglobbed, listed, e.coll != nil)
}
