package cache

import (
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// A name that the server has not answered stays subscribed upstream when its last client leaves: a
// returning client need not wait again (ABS-3). Clients may invent any number of such names. So a
// store keeps few of them, and evicts the longest idle first. Within that bound a client's invented
// names displace neither the content of others nor names of other scopes (LIM-3). They count for
// the limits of the whole cache: a client that begins many scopes can use these up, and then what
// has been idle for longest goes, whatever it is.

const (
	// maxUnanswered is how many bytes the idle names without an answer may take in one store.
	maxUnanswered = 4 << 20
	// nameOverhead is about what such a name takes beside its bytes.
	nameOverhead = 1 << 10
)

// unanswered are a store's idle names without an answer, by their demand. Guarded by Store.mu.
type unanswered[D comparable] struct {
	names *simplelru.LRU[D, int64] // value: its bytes; nil if there are none
	bytes int64
	total *atomic.Int64 // of all stores
}

// add takes a name in that has so many bytes, if it is not there.
func (u *unanswered[D]) add(name D, bytes int) {
	if u.names == nil {
		u.names = newLRU[D, int64]()
	}
	if !u.names.Contains(name) {
		u.names.Add(name, int64(bytes+nameOverhead))
		u.count(int64(bytes + nameOverhead))
	}
}

// remove takes a name out, if it is there.
func (u *unanswered[D]) remove(name D) {
	if u.names == nil {
		return
	}
	bytes, listed := u.names.Peek(name)
	if !listed {
		return
	}
	u.count(-bytes)
	if u.names.Remove(name); u.names.Len() == 0 {
		u.names = nil // maps do not shrink
	}
}

func (u *unanswered[D]) count(bytes int64) {
	u.bytes += bytes
	u.total.Add(bytes)
}

// beyond returns the longest idle name if the names take more than maxUnanswered.
func (u *unanswered[D]) beyond() (name D, is bool) {
	if u.bytes > maxUnanswered {
		name, _, is = u.names.GetOldest()
	}
	return name, is
}

// check verifies that exactly some names are listed, which take so many bytes beside nameOverhead.
func (u *unanswered[D]) check(c *Checker, names map[D]int) {
	var bytes int64
	for name, size := range names {
		bytes += int64(size + nameOverhead)
		c.That(u.names != nil && u.names.Contains(name), "a name is idle and not answered, but not listed so")
	}
	listed := 0
	if u.names != nil {
		listed = u.names.Len()
	}
	c.That(listed == len(names), "%d names are idle and not answered, listed are %d", len(names), listed)
	c.That(bytes == u.bytes, "idle names without an answer take %d bytes, counted as %d", bytes, u.bytes)
}
