package cache

import "github.com/xdsrelay/xdsrelay/internal/smallmap"

// excuses is which resources of a table are missing in lists because of an error (ERR-1).
// Guarded by Store.mu.
type excuses struct {
	// entries: the server said on the present stream why it does not send them. It need
	// not say so again: a list without such a resource does not remove it (RES-8), until a
	// list holds the resource again, or the server says that it does not exist.
	entries map[*Entry]struct{}

	collections int // with an error of the collection as a whole
}

// add excuses an entry.
func (x *excuses) add(e *Entry) {
	x.entries = with(x.entries, e)
}

// drop takes the excuse of an entry back, if it has one.
func (x *excuses) drop(e *Entry) { x.entries = smallmap.Without(x.entries, e) }

// has reports whether an entry is excused.
func (x *excuses) has(e *Entry) bool {
	_, excused := x.entries[e]
	return excused
}

// check verifies the excuses of the table with these entries, and the number of its
// collections with an error as a whole.
func (x *excuses) check(c *Checker, entries map[string]*Entry, collections int) {
	c.That(collections == x.collections, "%d collections with errors counted as %d", collections, x.collections)
	for e := range x.entries {
		c.That(entries[e.key] == e, "%q is excused and gone", e.key)
		c.That(e.extra.err != nil && e.Exists(), "%q is excused for nothing", e.key)
	}
}
