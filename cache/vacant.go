package cache

import (
	"math"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// A name that the server has not answered stays subscribed upstream when its last client leaves: a
// returning client need not wait again (ABS-3). So does a collection without members. Clients may invent
// any number of such names and globs, in any number of scopes. So a store keeps few of them. And where the
// limits of the whole cache have room for all content, but not for these beside it, they go and no content
// does. The longest idle go first. Invented names displace neither the content of others nor, within a
// store's bound, names of other scopes (LIM-3).

const (
	// maxVacant is how many bytes vacant demand may take in one store.
	maxVacant = 4 << 20
	// vacantOverhead is about what one takes beside the bytes of its name.
	vacantOverhead = 1 << 10
)

// vacant are the idle names without an answer and the idle collections without members of a store, or of all
// stores, by their demand. Its user has a lock for it.
type vacant[D comparable] struct {
	names *simplelru.LRU[D, int64] // value: its bytes; nil if there are none
	bytes int64
}

// add takes a name in that has so many bytes, if it is not there.
func (v *vacant[D]) add(name D, bytes int) {
	if v.names == nil {
		v.names = newLRU[D, int64]()
	}
	if !v.has(name) {
		v.names.Add(name, int64(bytes+vacantOverhead))
		v.bytes += int64(bytes + vacantOverhead)
	}
}

// remove takes a name out, and reports whether it was there.
func (v *vacant[D]) remove(name D) bool {
	if !v.has(name) {
		return false
	}
	bytes, _ := v.names.Peek(name)
	v.bytes -= bytes
	if v.names.Remove(name); v.names.Len() == 0 {
		v.names = nil // maps do not shrink
	}
	return true
}

// has reports whether a name is there.
func (v *vacant[D]) has(name D) bool { return v.names != nil && v.names.Contains(name) }

// len is their number.
func (v *vacant[D]) len() int64 {
	if v.names == nil {
		return 0
	}
	return int64(v.names.Len())
}

// oldest returns the longest idle one.
func (v *vacant[D]) oldest() (name D, is bool) {
	if v.names != nil {
		name, _, is = v.names.GetOldest()
	}
	return name, is
}

// beyond returns the longest idle one if they take more than maxVacant.
func (v *vacant[D]) beyond() (name D, is bool) {
	if v.bytes > maxVacant {
		return v.oldest()
	}
	return name, false
}

// check verifies that exactly some names are listed, which take so many bytes beside vacantOverhead.
func (v *vacant[D]) check(c *Checker, names map[D]int) {
	var bytes int64
	for name, size := range names {
		bytes += int64(size + vacantOverhead)
		c.That(v.has(name), "a name is idle and has nothing, but is not listed so")
	}
	c.That(v.len() == int64(len(names)), "%d names are idle and have nothing, listed are %d", len(names), v.len())
	c.That(bytes == v.bytes, "idle names that have nothing take %d bytes, counted as %d", bytes, v.bytes)
}

// newLRU returns an LRU that evicts nothing by itself.
func newLRU[K comparable, V any]() *simplelru.LRU[K, V] {
	lru, err := simplelru.NewLRU[K, V](math.MaxInt, nil)
	if err != nil {
		panic("cache: " + err.Error()) // only for a size below one
	}
	return lru
}
