package delivery

import (
	"maps"
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/smallmap"
)

// nameQueue are the name subscriptions of one type with something due.
type nameQueue struct {
	names  []*nameSub // in the order in which they changed; may hold ended ones
	ended  int        // number of ended ones in names
	merged int        // updates that a later one replaced before they were sent

	errors dueErrors
}

// add appends a subscription that is not in the queue.
func (q *nameQueue) add(n *nameSub) { q.names = append(q.names, n) }

// drain takes those out of the queue that ended, and those for which done returns true.
func (q *nameQueue) drain(done func(*nameSub) bool) {
	rest := q.names[:0]
	for _, n := range q.names {
		if !n.ended && !done(n) {
			rest = append(rest, n)
		}
	}
	clear(q.names[len(rest):])
	q.names, q.ended = rest, 0
	if len(rest) == 0 {
		q.names = nil
	}
}

// has reports whether one of the subscriptions is as asked.
func (q *nameQueue) has(asked func(*nameSub) bool) bool {
	for _, n := range q.names {
		if !n.ended && asked(n) {
			return true
		}
	}
	return false
}

// minClean is the number of ended subscriptions below which the queue keeps them.
const minClean = 32

// end counts one more ended subscription. It takes them out once they are the most: a client
// that subscribes and unsubscribes without ever reading must not pile them up.
func (q *nameQueue) end() {
	q.ended++
	if q.ended >= minClean && q.ended > len(q.names)/2 {
		q.drain(func(*nameSub) bool { return false })
	}
}

// dueErrors are the name subscriptions whose client is to be told an error that removes nothing
// (ERR-1).
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
		d.names = smallmap.Without(d.names, n)
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
