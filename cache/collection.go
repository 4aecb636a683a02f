package cache

import (
	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const (
	// minTombstones is how many removed members a collection remembers at least.
	minTombstones = 1024
	// minSweep is the number of tombstones below which nobody looks which of them
	// all cursors have passed.
	minSweep = 64
)

// collection is a set of resources that is subscribed to as a whole: "*" or a
// glob. Its members stand in a list ordered by their last change. Guarded by
// Store.mu.
type collection struct {
	table    *table
	key      string // "*", or the canonical glob
	interest *interest

	live       list // members
	tombs      list // removed members that some cursor has not passed
	heartbeats heartbeatList
	bytes      int64

	// floor is the number of the youngest tombstone that was discarded although
	// a cursor had not passed it. A client whose cursor is older cannot be told
	// everything any more.
	floor   uint64
	sweepAt int // look for passed tombstones when there are so many

	followers []*cursor
	rested    rested
	changes   uint64 // changes so far, to count what merging saved
	moved     bool   // in store.moved
	transient int    // members that are not kept (TTL-5)
	errors    *errorLog

	// For state-of-the-world clients.
	states   int        // such followers
	sum      digest.Sum // of the members
	retained retained
	bodies   bodies

	runs runs // for clients of the incremental form that begin

	// synced: all members that the server had when it was asked are here, so
	// what is not here does not exist.
	synced  bool
	foreign bool // something was left out that the server does not speak for
	overdue bool // asked for long ago on the present stream, and not answered
	pinned  bool // in table.pins
	quiet   quietTime
}

// touch gives a changed member its new place, or brings a new one in.
func (c *collection) touch(e *entry, n uint64) {
	c.heartbeats.drop(e.life) // a client that is sent the content is sent its TTL with it
	switch {
	case e.coll == nil:
		e.coll, e.added = c, n
		c.quiet.enter(e)
		c.sum = c.sum.Plus(e.sum)
	case e.dead:
		c.quiet.enter(e)
		// Some client may not have been told of the removal and still hold it from
		// before: keep added.
		e.comesBack(n)
		c.tombs.remove(e)
		e.dead = false
		c.retained.release(e)
		c.sum = c.sum.Plus(e.sum)
	default:
		c.live.remove(e)
	}
	e.changed = n
	c.live.push(e)
	c.changes++
	c.bodies.bare, c.bodies.wrapped = nil, nil
	c.runs.drop()
}

// bury turns a member into a tombstone.
func (c *collection) bury(e *entry, n uint64) {
	c.live.remove(e)
	c.heartbeats.drop(e.life)
	e.setBack(comeback{})
	e.dead, e.changed = true, n
	c.tombs.push(e)
	c.changes++
	c.sum = c.sum.Minus(e.sum)
	c.bodies.bare, c.bodies.wrapped = nil, nil
	c.runs.drop()
	c.quiet.leave(e)
}

// sweep discards tombstones: those that every cursor has passed, and the oldest
// beyond max(1024, members). Clients that had not passed those are told to come
// back with their versions. An eighth of them goes at once, so that it is not every
// removal that has all cursors looked at while one does not move.
func (c *collection) sweep() {
	if len(c.followers) == 0 {
		// Who follows later skips tombstones older than itself.
		for c.tombs.head != nil {
			c.discard(c.tombs.head)
		}
		return
	}
	c.releasePassed()
	limit := max(minTombstones, c.live.len)
	if c.tombs.len <= max(minSweep, min(c.sweepAt, limit)) {
		return
	}
	passed := c.followers[0].removed
	for _, f := range c.followers {
		passed = min(passed, f.removed)
	}
	for c.tombs.head != nil && c.tombs.head.changed <= passed {
		c.discard(c.tombs.head)
	}
	if c.tombs.len > limit {
		limit -= limit / 8
	}
	for c.tombs.len > limit {
		c.floor = c.tombs.head.changed
		c.discard(c.tombs.head)
	}
	c.sweepAt = 2 * c.tombs.len
}

// releasePassed drops what the tombstones retain that every client has passed.
func (c *collection) releasePassed() {
	if c.retained.tombstones == 0 {
		return
	}
	passed := c.table.store.seq
	for _, f := range c.followers {
		if f.client.form.State {
			passed = min(passed, f.removed)
		}
	}
	c.retained.releaseUpTo(c.tombs.head, passed)
}

// disown discards a tombstone whose name something else serves now: an alias is
// no member (RES-10). Cursors that have not passed it cannot be told any more.
func (c *collection) disown(e *entry) {
	c.floor = max(c.floor, e.changed)
	c.discard(e)
}

func (c *collection) discard(e *entry) {
	c.tombs.remove(e)
	c.retained.release(e)
	e.coll, e.dead = nil, false
	c.table.lifetimes.end(e)
	c.table.forgetUnused(e)
}

// addError remembers an error of a key (ERR-1). The collection remembers as many as it would
// tombstones: a server may send errors for names without end.
func (c *collection) addError(key string, err *wire.ResourceError) {
	c.dropError(key)
	c.errors = c.errors.with(c.table.store.next(), key, err)
	if key == c.key {
		c.table.excuses.collections++
	}
	for {
		oldest, found := c.errors.beyond(max(minTombstones, c.live.len))
		if !found {
			return
		}
		c.dropError(oldest)
	}
}

// dropError forgets the error of a key, if there is one.
func (c *collection) dropError(key string) {
	if c.errors.get(key) == nil {
		return
	}
	if key == c.key {
		c.errors.open = false
		c.table.excuses.collections--
	}
	c.errors = c.errors.without(key)
}

// wildcard reports whether c is "*".
func (c *collection) wildcard() bool { return c.table.kind == wholeType }

// knownEmpty reports whether a new follower may be told that there is nothing.
// A server answers "*" even if it has nothing, and an empty glob by its name.
func (c *collection) knownEmpty() bool {
	return c.live.len == 0 && (c.synced || (c.wildcard() && !c.quiet.answered.IsZero()))
}

// lacksInLists reports whether lists lack members, since those were not kept (TTL-5).
func (c *collection) lacksInLists() bool {
	if c.transient == 0 {
		return false
	}
	for e := c.live.head; e != nil; e = e.next {
		if e.listed() == nil {
			return true
		}
	}
	return false
}

// doubt makes stale the members that the relay does not have, or has variants of, and so did
// not present to the server: if one does not exist any more, the server has no reason to say
// so (RES-12).
func (c *collection) doubt() {
	if c.transient == 0 && !c.table.variants.any() {
		return
	}
	c.quiet.doubt(c.live.head, func(e *entry) bool {
		return e.state == transient || (e.res != nil && e.res.Constrained())
	})
}

// dropCollection forgets c after its unsubscribe was taken. Members that
// somebody names stay.
func (t *table) dropCollection(c *collection) {
	delete(t.colls, c.key)
	delete(t.unanswered, c)
	c.dropError(c.key)
	delete(t.store.unsettled, c)
	for _, l := range []*list{&c.live, &c.tombs} {
		for l.head != nil {
			e := l.head
			l.remove(e)
			c.heartbeats.drop(e.life)
			c.retained.release(e)
			e.coll, e.dead = nil, false
			if e.res != nil {
				t.unglobbed.add(e)
			}
			if !e.there() {
				t.lifetimes.end(e) // of what expired
			}
			t.forgetUnused(e)
		}
	}
}
