package cache

import (
	"context"
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Limits bound what a cache keeps. What somebody watches is never evicted, so
// the limits are exceeded where the watched resources alone exceed them.
type Limits struct {
	// MaxResources bounds the resources in all stores, and the names and
	// collections that nobody watches: a server need not answer a name, and
	// what is not answered takes memory too. 0: no limit.
	MaxResources int64
	MaxBytes     int64         // bytes of their encoded form; 0: no limit
	Idle         time.Duration // how long what nobody watches is kept; 0: no limit
}

// Reason says why something was evicted. It is a metric's label.
type Reason string

// The reasons of an eviction.
const (
	ReasonCount  Reason = "count"  // Limits.MaxResources
	ReasonBytes  Reason = "bytes"  // Limits.MaxBytes
	ReasonIdle   Reason = "idle"   // Limits.Idle
	ReasonAbsent Reason = "absent" // names known not to exist, or not to be cached, are not kept (RES-17, TTL-5)
	ReasonLimit  Reason = "limit"  // a request that lists all names would be too large (RES-17)
	// ReasonUnlisted is that no directory lists it any more, nor redirect leads there (LIST-3).
	ReasonUnlisted Reason = "unlisted"
	// ReasonSilence is that the server says nothing of a name that is wanted beside it: some
	// servers of the state of the world answer no request that names what they have not.
	ReasonSilence Reason = "silence"
	// ReasonUnreferenced is that what is there in the state of the world referred to it, and
	// does not any more: the name may be one that the server has not.
	ReasonUnreferenced Reason = "unreferenced"
)

// Reasons lists every Reason.
func Reasons() []Reason {
	return []Reason{
		ReasonCount, ReasonBytes, ReasonIdle, ReasonAbsent, ReasonLimit, ReasonUnlisted, ReasonSilence, ReasonUnreferenced,
	}
}

// Observer is told what happens in the cache. Its methods are called under
// locks, save where they say otherwise, from any goroutine and must not block.
type Observer interface {
	// Lookup tells of a subscription to a name, a glob or "*": a hit was known
	// already.
	Lookup(typeURL string, hit bool)
	// Evicted tells that something unwatched is let go.
	Evicted(typeURL string, reason Reason)
	// Unsolicited tells that n resources arrived that nobody had asked for
	// (SUB-13).
	Unsolicited(typeURL string, n int)
	// Foreign tells that an upstream sent n resources for "*" that it does not speak for
	// (Source.Speaks), one of them under that name. It is called without a lock, and may log.
	Foreign(upstream, typeURL, name string, n int)
	// Expired tells that a resource outlived its ttl (TTL-2).
	Expired(typeURL string)
	// Ambiguous tells of a response after which more than one variant of a resource is
	// for the same dynamic parameters (DYN-1). It is called without a lock, and may log.
	Ambiguous(typeURL, name string)
}

type silent struct{}

func (silent) Lookup(string, bool)           {}
func (silent) Evicted(string, Reason)        {}
func (silent) Unsolicited(string, int)       {}
func (silent) Foreign(_, _, _ string, _ int) {}
func (silent) Expired(string)                {}
func (silent) Ambiguous(_, _ string)         {}

// Cache owns the limits and the LRU that all its stores share.
type Cache struct {
	// immutable after New
	observer   Observer
	kick       chan struct{} // one slot: the LRU's first deadline is another one
	seed       maphash.Seed
	references chan struct{}    // one slot: there is something for TakeReferences
	now        func() time.Time // time.Now, but in the model test: rapid cannot look into a bubble
	minRun     int              // minRun, but in tests: their collections are small

	resources atomic.Int64
	bytes     atomic.Int64

	mu      sync.Mutex
	limits  Limits                               // guarded by mu
	idle    *simplelru.LRU[*interest, time.Time] // guarded by mu; value: since when
	leaving weight                               // guarded by mu; evicted, not yet unsubscribed
	refers  map[*Store]struct{}                  // guarded by mu; with references to be taken
}

// weight is what something takes of the limits.
type weight struct{ resources, bytes int64 }

// New returns an empty cache. A nil observer is told nothing.
func New(limits Limits, observer Observer) *Cache {
	if observer == nil {
		observer = silent{}
	}
	idle, err := simplelru.NewLRU[*interest, time.Time](math.MaxInt, nil)
	if err != nil {
		panic("cache: " + err.Error()) // only for a size below one
	}
	return &Cache{
		limits: limits, observer: observer, idle: idle,
		kick: make(chan struct{}, 1), seed: maphash.MakeSeed(), now: time.Now, minRun: minRun,
		references: make(chan struct{}, 1), refers: make(map[*Store]struct{}),
	}
}

// Resources is the number of resources in all stores.
func (c *Cache) Resources() int64 { return c.resources.Load() }

// Bytes is the size of their encoded form.
func (c *Cache) Bytes() int64 { return c.bytes.Load() }

// Unwatched is the number of names and collections that nobody watches now.
func (c *Cache) Unwatched() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle.Len()
}

// Run evicts what has been idle for too long, until ctx ends.
func (c *Cache) Run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := c.Expire(time.Now())
		wait := 24 * time.Hour
		if !next.IsZero() {
			wait = max(0, time.Until(next))
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-c.kick:
		case <-timer.C:
		}
	}
}

// Expire evicts what nobody has watched since now minus the idle time, and
// returns when to call again: zero if nothing waits.
func (c *Cache) Expire(now time.Time) time.Time {
	for {
		c.mu.Lock()
		i, since, ok := c.idle.GetOldest()
		if !ok || c.limits.Idle <= 0 {
			c.mu.Unlock()
			return time.Time{}
		}
		if due := since.Add(c.limits.Idle); now.Before(due) {
			c.mu.Unlock()
			return due
		}
		c.idle.RemoveOldest()
		c.mu.Unlock()
		i.table.store.evict(i, ReasonIdle)
	}
}

// trim evicts the longest unwatched while a limit is exceeded. The caller holds
// no lock.
func (c *Cache) trim() {
	for {
		c.mu.Lock()
		reason, over := c.overLocked()
		if !over {
			c.mu.Unlock()
			return
		}
		i, _, ok := c.idle.RemoveOldest()
		c.mu.Unlock()
		if !ok {
			return
		}
		i.table.store.evict(i, reason)
	}
}

// overLocked compares the totals, less what is on its way out, with the limits.
func (c *Cache) overLocked() (Reason, bool) {
	unwatched := int64(c.idle.Len())
	switch {
	case c.limits.MaxResources > 0 &&
		max(c.resources.Load()-c.leaving.resources, unwatched) > c.limits.MaxResources:
		return ReasonCount, true
	case c.limits.MaxBytes > 0 && c.bytes.Load()-c.leaving.bytes > c.limits.MaxBytes:
		return ReasonBytes, true
	}
	return "", false
}

// park puts an interest that lost its last watcher into the LRU. The caller
// holds the lock of the interest's store.
func (c *Cache) park(i *interest) {
	c.mu.Lock()
	first := c.idle.Len() == 0
	c.idle.Add(i, time.Now())
	c.mu.Unlock()
	if first {
		c.wakeUp()
	}
}

// wakeUp has Run look again when the next eviction is due.
func (c *Cache) wakeUp() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// unpark takes it out again. The caller holds the lock of the interest's store.
func (c *Cache) unpark(i *interest) {
	c.mu.Lock()
	c.idle.Remove(i)
	c.mu.Unlock()
}

// waits reports whether an interest is in the LRU. The caller holds the lock of
// the interest's store.
func (c *Cache) waits(i *interest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle.Contains(i)
}

// leave counts w as on its way out; a negative w takes that back.
func (c *Cache) leave(w weight) {
	c.mu.Lock()
	c.leaving.resources += w.resources
	c.leaving.bytes += w.bytes
	c.mu.Unlock()
}
