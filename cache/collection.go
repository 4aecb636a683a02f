package cache

import (
	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// log is the members of a collection and its tombstones, each in the order of their last change.
type log struct {
	live       list
	tombstones list // removed members that some cursor has not passed

	// floor is the revision of the youngest tombstone that was discarded although a cursor had
	// not passed it. The client of an older cursor cannot be told everything any more.
	floor   uint64
	sweepAt int    // number of tombstones at which passed ones are looked for
	changes uint64 // changes so far, to count what merging saved
	noted   bool   // in changes.colls
}

// Collection is a set of resources that clients subscribe to as a whole: "*" or a glob.
// Guarded by Store.mu.
type Collection struct {
	table  *Table
	key    string // "*", or the canonical glob
	demand *demand

	log        log
	heartbeats Heartbeats
	errors     *errorLog
	quiet      quietTime
	bytes      int64 // of the members
	passes     bool  // a member may be one that is not to be cached (TTL-5)

	followers followers
	waiters   waiters
	encoded   encoded

	// For clients of the state of the world.
	states   int        // such followers
	sum      digest.Sum // of the members
	retained retained

	foreign bool // something was left out that the server does not speak for
	pinned  bool // in demandQueue.pins

	restored restoredMembers
}

// touch gives a changed member its new place, or adds a new one.
func (c *Collection) touch(e *Entry, n uint64) {
	c.heartbeats.drop(e.extra.life) // a client that is sent the content is sent its TTL with it
	switch {
	case e.coll == nil:
		e.coll, e.added = c, n
		c.quiet.enter(e)
		c.sum = c.sum.Plus(e.extra.sum)
	case e.marks.Tombstone:
		c.quiet.enter(e)
		// Some client may not have been told of the removal and still hold it from
		// before: keep added.
		if xds.RankOf(c.table.typeURL) == xds.RankCluster {
			e.extra.setBack(comeback{removed: e.changed, came: n})
		}
		c.log.tombstones.remove(e)
		e.marks.Tombstone = false
		c.retained.release(e)
		c.sum = c.sum.Plus(e.extra.sum)
	default:
		c.log.live.remove(e)
	}
	e.changed = n
	if c.log.live.push(e); c.log.live.len == 1 && c.demand.idle {
		c.demand.review()
	}
	c.passes = c.passes || e.res.DoNotCache
	c.log.changes++
	c.encoded.drop()
}

// remove turns a member into a tombstone.
func (c *Collection) remove(e *Entry, n uint64) {
	if c.log.live.remove(e); c.log.live.len == 0 && c.demand.idle {
		c.demand.review()
	}
	c.heartbeats.drop(e.extra.life)
	e.extra.setBack(comeback{})
	e.marks.Tombstone, e.changed = true, n
	c.log.tombstones.push(e)
	c.log.changes++
	c.sum = c.sum.Minus(e.extra.sum)
	c.encoded.drop()
	c.quiet.leave(e)
}

// Wildcard reports whether c is "*".
func (c *Collection) Wildcard() bool { return c.table.kind == WholeType }

// covers reports whether a resource with a key is a member of a collection, if it exists.
func (c *Collection) covers(key string) bool { return c.Wildcard() || keyer.GlobOf(key) == c.key }

// Answered reports whether the server has told of members, if only that there are none: a new
// follower of an empty collection may be told that there is nothing. A server answers "*" even if it
// has nothing, and an empty glob by its name.
func (c *Collection) Answered() bool {
	return c.quiet.synced || (c.Wildcard() && !c.quiet.answered.IsZero())
}

// hasWhole reports whether there are all members of a collection: the server has sent them, or they
// were all restored that there were then.
func (c *Collection) hasWhole() bool { return c.quiet.synced || c.restored.whole }

const (
	// minTombstones is up to how many removed members a collection remembers, if it has fewer members than that.
	minTombstones = 1024
	// minSweep is the number of tombstones below which sweep does not look for passed ones.
	minSweep = 64
)
