package cache

import (
	"math"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// A name that the server has not answered stays subscribed upstream when its last client leaves: a
// returning client need not wait again (ABS-3). Clients may invent any number of such names, in any
// number of scopes. So a store keeps few of them. And where the limits of the whole cache have room for
// all content, but not for these names beside it, they go and no content does. The longest idle go
// first. Invented names displace neither the content of others nor, within a store's bound, names of
// other scopes (LIM-3).

const (
	// maxUnanswered is how many bytes the idle names without an answer may take in one store.
	maxUnanswered = 4 << 20
	// nameOverhead is about what such a name takes beside its bytes.
	nameOverhead = 1 << 10
)

// unanswered are the idle names without an answer of a store, or of all stores, by their demand. Its
// user has a lock for it.
type unanswered[D comparable] struct {
	names *simplelru.LRU[D, int64] // value: its bytes; nil if there are none
	bytes int64
}

// add takes a name in that has so many bytes, if it is not there.
func (u *unanswered[D]) add(name D, bytes int) {
	if u.names == nil {
		u.names = newLRU[D, int64]()
	}
	if !u.has(name) {
		u.names.Add(name, int64(bytes+nameOverhead))
		u.bytes += int64(bytes + nameOverhead)
	}
}

// remove takes a name out, and reports whether it was there.
func (u *unanswered[D]) remove(name D) bool {
	if !u.has(name) {
		return false
	}
	bytes, _ := u.names.Peek(name)
	u.bytes -= bytes
	if u.names.Remove(name); u.names.Len() == 0 {
		u.names = nil // maps do not shrink
	}
	return true
}

// has reports whether a name is there.
func (u *unanswered[D]) has(name D) bool { return u.names != nil && u.names.Contains(name) }

// oldest returns the longest idle name.
func (u *unanswered[D]) oldest() (name D, is bool) {
	if u.names != nil {
		name, _, is = u.names.GetOldest()
	}
	return name, is
}

// beyond returns the longest idle name if the names take more than maxUnanswered.
func (u *unanswered[D]) beyond() (name D, is bool) {
	if u.bytes > maxUnanswered {
		return u.oldest()
	}
	return name, false
}

// check verifies that exactly some names are listed, which take so many bytes beside nameOverhead.
func (u *unanswered[D]) check(c *Checker, names map[D]int) {
	var bytes int64
	for name, size := range names {
		bytes += int64(size + nameOverhead)
		c.That(u.has(name), "a name is idle and not answered, but not listed so")
	}
	listed := 0
	if u.names != nil {
		listed = u.names.Len()
	}
	c.That(listed == len(names), "%d names are idle and not answered, listed are %d", len(names), listed)
	c.That(bytes == u.bytes, "idle names without an answer take %d bytes, counted as %d", bytes, u.bytes)
}

// newLRU returns an LRU that evicts nothing by itself.
func newLRU[K comparable, V any]() *simplelru.LRU[K, V] {
	lru, err := simplelru.NewLRU[K, V](math.MaxInt, nil)
	if err != nil {
		panic("cache: " + err.Error()) // only for a size below one
	}
	return lru
}
