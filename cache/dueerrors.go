package cache

import (
	"maps"
	"slices"
	"strings"
)

// dueErrors are the name subscriptions whose client is to be told an error that removes
// nothing (ERR-1).
type dueErrors struct{ names map[*nameSub]struct{} }

// add makes the error of a name due.
func (d *dueErrors) add(n *nameSub) {
	if d.names == nil {
		d.names = make(map[*nameSub]struct{})
	}
	d.names[n] = struct{}{}
}

// drop records that the client was told, or need not be told any more.
func (d *dueErrors) drop(n *nameSub) {
	if d.names != nil {
		d.names = without(d.names, n)
	}
}

// any reports whether an error is due.
func (d *dueErrors) any() bool { return len(d.names) > 0 }

// sorted returns the subscriptions in the order of their spellings.
func (d *dueErrors) sorted() []*nameSub {
	if !d.any() {
		return nil
	}
	return slices.SortedFunc(maps.Keys(d.names), func(a, b *nameSub) int { return strings.Compare(a.spelling, b.spelling) })
}
