package cache

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Limits bound what a cache keeps. The relay never evicts a resource that a client subscribes to.
// So such resources alone may exceed the limits.
type Limits struct {
	// MaxResources bounds the resources in all stores, and beside them the idle names without an answer and
	// collections without members: these take memory too. 0: no limit.
	MaxResources int64
	MaxBytes     int64         // bytes of their encoded form, and of such names and collections; 0: no limit
	Idle         time.Duration // how long idle resources are kept; 0: no limit
	// Generations is how many states each store remembers (Operator.Rollback); 0: none. The past
	// content of all stores takes an eighth of MaxBytes at most, beside it.
	Generations int
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
	// ReasonUnlisted is that no directory lists it any more (LIST-3).
	ReasonUnlisted Reason = "unlisted"
	// ReasonSilence is that the server does not answer another name: some servers of the state
	// of the world answer no request with an unknown name.
	ReasonSilence Reason = "silence"
	// ReasonUnreferenced is that resources referred to it, and none does any more: a server of
	// the state of the world may not have it any more.
	ReasonUnreferenced Reason = "unreferenced"
	ReasonMemory       Reason = "memory" // the process is short of memory (LIM-3)
	// ReasonUnanswered is that there are too many idle names that servers do not answer, and collections without
	// members: in its store, or in all stores, whose content the limits have room for (LIM-3).
	ReasonUnanswered Reason = "unanswered"
)

// Reasons lists every Reason.
func Reasons() []Reason {
	return []Reason{
		ReasonCount, ReasonBytes, ReasonIdle, ReasonAbsent, ReasonLimit, ReasonUnlisted, ReasonSilence, ReasonUnreferenced, ReasonMemory, ReasonUnanswered,
	}
}

// Observer is told what happens in the cache. Its methods are called under locks, unless they say
// otherwise, and from any goroutine. They must not block.
type Observer interface {
	// Lookup tells of a subscription to a name, a glob or "*": a hit was known
	// already.
	Lookup(typeURL string, hit bool)
	// Evicted tells that something idle is evicted.
	Evicted(typeURL string, reason Reason)
	// Unsolicited tells that n resources arrived that were not asked for (SUB-13).
	Unsolicited(typeURL string, n int)
	// Foreign tells that an upstream sent n resources for "*" that it does not speak for
	// (Source.Speaks), one of them under that name. It is called without a lock, and may log.
	Foreign(upstream, typeURL, name string, n int)
	// Held tells that the loss of many resources is held, or is not any longer (SUR-3). It is
	// called without a lock, and may log.
	Held(h Held)
	// WentBack tells that in the first state of a new stream n resources have content that newer content had
	// replaced (SUR-7). It is called without a lock, and may log.
	WentBack(upstream, typeURL string, n int)
	// Expired tells that a resource outlived its ttl (TTL-2).
	Expired(typeURL string)
}

type silent struct{}

func (silent) Lookup(string, bool) {}

func (silent) Evicted(string, Reason) {}

func (silent) Unsolicited(string, int) {}

func (silent) Foreign(_, _, _ string, _ int) {}

func (silent) Held(Held) {}

func (silent) WentBack(_, _ string, _ int) {}

func (silent) Expired(string) {}

// Cache owns the limits and the LRU that all its stores share.
type Cache struct {
	// immutable after New
	observer   Observer
	kick       signal // one slot: the LRU's first deadline is another one
	seed       maphash.Seed
	references signal // one slot: there is something for TakeReferences

	// Now is the clock. It may be replaced before Open.
	Now func() time.Time
	// MinChunk is the number of members from which on a collection keeps chunks of them
	// encoded. It may be replaced before Open.
	MinChunk int

	resources atomic.Int64
	bytes     atomic.Int64

	past pastTotals

	stores atomic.Int64 // that are open
	shared wire.Shared  // the bytes of their resources

	mu       sync.Mutex
	limits   Limits                             // guarded by mu
	idle     *simplelru.LRU[*demand, time.Time] // guarded by mu; value: since when
	vacant   vacant[*demand]                    // guarded by mu; those of idle that are so
	evicting weight                             // guarded by mu; evicted, not yet unsubscribed
	refers   map[*Store]struct{}                // guarded by mu; with references to be taken
}

// pastTotals are how much stores remember of their past, and how much they may.
type pastTotals struct {
	generations atomic.Int64 // Limits.Generations
	limit       atomic.Int64 // of bytes; 0: no limit
	bytes       atomic.Int64
}

// weight is a part of the limits that something takes.
type weight struct{ resources, bytes int64 }

func (w *weight) add(resources, bytes int64) {
	w.resources += resources
	w.bytes += bytes
}

// New returns an empty cache. A nil observer is told nothing.
func New(limits Limits, observer Observer) *Cache {
	if observer == nil {
		observer = silent{}
	}
	c := &Cache{
		limits: limits, observer: observer, idle: newLRU[*demand, time.Time](),
		kick: newSignal(), seed: maphash.MakeSeed(), Now: time.Now, MinChunk: minChunk,
		references: newSignal(), refers: make(map[*Store]struct{}),
	}
	c.remember(limits)
	return c
}

// pastShare is the part of Limits.MaxBytes that past content of all stores may take: one in so many.
const pastShare = 8

// remember sets how much stores remember.
func (c *Cache) remember(limits Limits) {
	c.past.generations.Store(int64(limits.Generations))
	c.past.limit.Store(limits.MaxBytes / pastShare)
}

// Past is the size of past content that stores remember, with what they need for that.
func (c *Cache) Past() int64 { return c.past.bytes.Load() }

// Resources is the number of resources in all stores.
func (c *Cache) Resources() int64 { return c.resources.Load() }

// Bytes is the size of their encoded form.
func (c *Cache) Bytes() int64 { return c.bytes.Load() }

// Unwatched is the number of idle names and collections: no client subscribes to them.
func (c *Cache) Unwatched() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle.Len()
}

// Leaving is the memory of what is evicted and waits for its unsubscribe. The limits do not count
// it.
func (c *Cache) Leaving() (resources, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.evicting.resources, c.evicting.bytes
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

// Expire evicts what has been idle since now minus the idle time. It returns when to call it
// again, zero if nothing is idle.
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
		c.takeLocked(i)
		c.mu.Unlock()
		i.evictIdle(ReasonIdle)
	}
}

// Shed evicts everything idle, as there is not enough memory (LIM-3).
func (c *Cache) Shed() {
	c.evictWhile(func() (*demand, Reason) { return c.oldestLocked(), ReasonMemory })
}

// trim evicts while a limit is exceeded. The caller holds no store's mu, and not c.mu.
func (c *Cache) trim() { c.evictWhile(c.excessLocked) }

// evictWhile evicts what next says, one after the other, until that is nil. next is called with c.mu held.
// The caller holds no store's mu, and not c.mu.
func (c *Cache) evictWhile(next func() (*demand, Reason)) {
	take := func() (*demand, Reason) {
		c.mu.Lock()
		defer c.mu.Unlock()
		i, reason := next()
		if i != nil {
			c.takeLocked(i)
		}
		return i, reason
	}
	for i, reason := take(); i != nil; i, reason = take() {
		i.evictIdle(reason)
	}
}

// excessLocked compares the totals, without what is evicted, with the limits, and returns what is to go
// next; nil for nothing. If the content is too much by itself, that is what has been idle longest. If it is so only
// with what is vacant, it is one of these (LIM-3).
func (c *Cache) excessLocked() (*demand, Reason) {
	resources, bytes := c.resources.Load()-c.evicting.resources, c.bytes.Load()-c.evicting.bytes
	switch {
	case beyond(resources, c.limits.MaxResources):
		return c.oldestLocked(), ReasonCount
	case beyond(bytes, c.limits.MaxBytes):
		return c.oldestLocked(), ReasonBytes
	case beyond(resources+c.vacant.len(), c.limits.MaxResources), beyond(bytes+c.vacant.bytes, c.limits.MaxBytes):
		i, _ := c.vacant.oldest()
		return i, ReasonUnanswered
	}
	return nil, ""
}

// beyond reports whether something exceeds a limit; 0 is none.
func beyond(is, limit int64) bool { return limit > 0 && is > limit }

// oldestLocked returns what has been idle longest, nil if nothing is.
func (c *Cache) oldestLocked() *demand {
	i, _, _ := c.idle.GetOldest()
	return i
}

// takeLocked takes a demand out of the LRU.
func (c *Cache) takeLocked(i *demand) {
	c.idle.Remove(i)
	c.vacant.remove(i)
}

// addIdle puts a demand without subscribers into the LRU. The caller holds the lock of the
// demand's store.
func (c *Cache) addIdle(i *demand) {
	c.mu.Lock()
	first := c.idle.Len() == 0
	c.idle.Add(i, time.Now())
	c.mu.Unlock()
	if first {
		c.kick.send()
	}
}

// removeIdle takes a demand out of the LRU. The caller holds the lock of its store.
func (c *Cache) removeIdle(i *demand) {
	c.mu.Lock()
	c.takeLocked(i)
	c.mu.Unlock()
}

// addVacant notes that a demand of the LRU is vacant, whose name has so many bytes. The caller holds the lock of
// its store.
func (c *Cache) addVacant(i *demand, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle.Contains(i) { // else it is being evicted
		c.vacant.add(i, bytes)
	}
}

// removeVacant notes that a demand is not vacant. The caller holds the lock of its store.
func (c *Cache) removeVacant(i *demand) {
	c.mu.Lock()
	c.vacant.remove(i)
	c.mu.Unlock()
}

// isIdle reports whether a demand is in the LRU. The caller holds the lock of its store.
func (c *Cache) isIdle(i *demand) bool {
	idle, _ := c.lists(i)
	return idle
}

// lists reports whether a demand is in the LRU, and whether as a vacant one. The caller holds the lock of its
// store.
func (c *Cache) lists(i *demand) (idle, vacant bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle.Contains(i), c.vacant.has(i)
}

// countEvicting adds w to what is evicted. A negative w takes it back.
func (c *Cache) countEvicting(w weight) {
	c.mu.Lock()
	c.evicting.add(w.resources, w.bytes)
	c.mu.Unlock()
}

// minChunk is the number of members from which on a collection's chunks are worth being kept.
const minChunk = 32

// referring notes that a store has references to be taken. The caller holds the lock of the store.
func (c *Cache) referring(s *Store) {
	c.mu.Lock()
	c.refers[s] = struct{}{}
	c.mu.Unlock()
	c.references.send()
}

// SetLimits replaces the limits. What is idle and exceeds the new ones is evicted before it
// returns. What has been idle for too long is evicted by Run.
func (c *Cache) SetLimits(limits Limits) {
	c.mu.Lock()
	c.limits = limits
	c.remember(limits)
	c.mu.Unlock()
	c.trim()
	c.kick.send()
}
