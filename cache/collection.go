package cache

import (
	"time"
	"weak"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
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
	name     string // as it goes upstream
	interest *interest

	live  list     // members
	tombs list     // removed members that some cursor has not passed
	beats beatList // members' heartbeats that came after their content (TTL-3)
	bytes int64

	// floor is the number of the youngest tombstone that was discarded although
	// a cursor had not passed it. A client whose cursor is older cannot be told
	// everything any more.
	floor   uint64
	sweepAt int // look for passed tombstones when there are so many

	followers []*cursor
	rested    rested
	changes   uint64 // changes so far, to count what merging saved
	moved     bool   // in store.moved
	beaten    bool   // in store.beaten
	timed     int    // followers that can do ttl
	lifted    uint64 // number of the last time that a member's ttl was taken back (Store.beats)
	relayed   int    // members that are not kept (TTL-5)
	fails     *failures
	byGlob    map[string]map[*entry]struct{} // members of "*" by glob, once somebody asked; see Client.under
	held      weak.Pointer[holdings]         // the last that was made, at that number of changes
	heldAt    uint64

	// For state-of-the-world clients.
	states int // such followers
	sum    sum // of the members
	kept   int // tombstones that keep what they were
	bodies bodies

	runs runs // for clients of the incremental form that begin

	// synced: all members that the server had when it was asked are here, so
	// what is not here does not exist. answered and progress are the times of the
	// type's first response on the present stream, and of the last one that
	// confirmed a member; both zero until then.
	synced             bool
	overdue            bool // asked for long ago on the present stream, and not answered
	pinned             bool // in table.pins
	answered, progress time.Time
	epoch              uint32 // members of another epoch are stale
	stale              int
}

// touch gives a changed member its new place, or brings a new one in.
func (c *collection) touch(e *entry, n uint64) {
	c.beats.remove(e.life) // who is sent the content is sent its ttl
	switch {
	case e.coll == nil:
		e.coll, e.added, e.epoch = c, n, c.epoch
		c.enter(e)
		c.sum = c.sum.plus(e.sum)
	case e.dead:
		e.epoch = c.epoch
		// Some client may not have been told of the removal and still hold it from
		// before: keep added.
		c.tombs.remove(e)
		e.dead = false
		c.enter(e)
		c.letGo(e)
		c.sum = c.sum.plus(e.sum)
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
	c.beats.remove(e.life)
	c.exit(e)
	e.dead, e.changed = true, n
	c.tombs.push(e)
	c.changes++
	c.sum = c.sum.minus(e.sum)
	c.bodies.bare, c.bodies.wrapped = nil, nil
	c.runs.drop()
	if e.epoch != c.epoch {
		c.stale--
	}
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
	c.letGoPassed()
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

// disown discards a tombstone whose name something else serves now: an alias is
// no member (RES-10). Cursors that have not passed it cannot be told any more.
func (c *collection) disown(e *entry) {
	c.floor = max(c.floor, e.changed)
	c.discard(e)
}

func (c *collection) discard(e *entry) {
	c.tombs.remove(e)
	c.letGo(e)
	e.coll, e.dead = nil, false
	c.table.endLife(e)
	c.table.forgetUnused(e)
}

// confirm notes that the server spoke of e at the present stream.
func (c *collection) confirm(e *entry, isNew bool, now time.Time) {
	switch {
	case isNew:
		c.progress = now
	case e.epoch != c.epoch:
		c.stale--
		c.progress = now
	}
	e.epoch = c.epoch
}

// confirmAll notes that the server knows on the present stream what is held, and
// will speak of what it has not.
func (c *collection) confirmAll() {
	for e := c.live.head; e != nil && c.stale > 0; e = e.next {
		if e.epoch != c.epoch {
			e.epoch = c.epoch
			c.stale--
		}
	}
}

// settleAt is when its quiet time ends; zero if it has none to wait for. The
// quiet time begins with the first answer and is prolonged by members that were
// new or not confirmed before, so that a large first state sent in many parts
// ends it late, while a collection that is never quiet ends it nevertheless.
func (c *collection) settleAt(quiet time.Duration) time.Time {
	if c.answered.IsZero() || (c.synced && c.stale == 0) {
		return time.Time{}
	}
	last := c.answered
	if c.progress.After(last) {
		last = c.progress
	}
	return last.Add(quiet)
}

// wildcard reports whether c is "*".
func (c *collection) wildcard() bool { return c.table.kind == wholeType }

// knownEmpty reports whether a new follower may be told that there is nothing.
// A server answers "*" even if it has nothing, and an empty glob by its name.
func (c *collection) knownEmpty() bool {
	return c.live.len == 0 && (c.synced || (c.wildcard() && !c.answered.IsZero()))
}

// dropCollection forgets c after its unsubscribe was taken. Members that
// somebody names stay.
func (t *table) dropCollection(c *collection) {
	delete(t.colls, c.key)
	delete(t.unanswered, c)
	c.forgive(c.key)
	delete(t.store.unsettled, c)
	for _, l := range []*list{&c.live, &c.tombs} {
		for l.head != nil {
			e := l.head
			l.remove(e)
			c.beats.remove(e.life)
			c.letGo(e)
			e.coll, e.dead = nil, false
			if e.res != nil {
				t.loosen(e)
			}
			if !e.there() {
				t.endLife(e) // of what expired
			}
			t.forgetUnused(e)
		}
	}
}

// cursor is how far one client has followed one collection. Guarded by
// Store.mu, against other clients by being reachable from its own only.
type cursor struct {
	client *Client
	watch  *watch
	coll   *collection
	pos    int // in coll.followers
	// Place in coll.rested from 1; 0: it was woken, or its watch was. Guarded like that.
	resting int
	name    string // the collection as the client spells it

	born    uint64 // number at which it began; older tombstones do not concern it
	sent    uint64 // last change of a living member that the client was sent
	removed uint64 // last removal that it was sent
	reached uint64 // highest sent of any pass before the present one
	at      *entry // the member with number sent, unless it changed since
	tomb    *entry // the tombstone with number removed, likewise
	beats   uint64 // last heartbeat of a member that the client was told (TTL-3)
	judged  uint64 // last removal that was looked at for what expired
	failed  uint64 // last error that it was told (ERR-1)
	lifted  uint64 // last ttl taken back that it knows of, in the state of the world (TTL-4)
	// What expired and was not told before, by key: a list must come without it.
	owed map[string]bool

	seen    uint64 // coll.changes when it was last level with the collection
	since   int    // changes sent since then
	told    bool   // the client has been told something, if only that it is empty
	renamed bool   // name is not canonical: members are respelled (NAME-4)
	synced  bool   // a reader knows that the collection is
	lost    bool   // members went that the client holds, and no word was said (RES-3)

	// versions is what the client said it holds of the collection
	// (initial_resource_versions), by key, until each was compared; what is left
	// when the collection is synced does not exist any more (RES-11).
	versions *claims
	once     map[*entry]*wire.Resource // what is not kept and waits for the client (TTL-5)
	moved    *foreign                  // what it holds of another scope, until it was told all of it
}

// follow makes a client follow c from its beginning.
func (c *collection) follow(w *watch, spelling string) *cursor {
	n := c.table.store.seq
	f := &cursor{
		client: w.client, watch: w, coll: c, pos: len(c.followers), name: spelling,
		born: n, removed: n, seen: c.changes, renamed: asked(spelling, c.key) != c.key,
		beats: c.table.store.beats, judged: n, lifted: c.table.store.beats,
	}
	followed := c.followed()
	c.followers = append(c.followers, f)
	if w.client.form.TTL {
		c.timed++
	}
	if w.client.form.State {
		c.states++
		c.table.counted(1)
	}
	f.rest()
	c.interest.want()
	c.lack(w)
	c.referMembers(followed)
	return f
}

// unfollow ends it.
func (f *cursor) unfollow() {
	c := f.coll
	f.leaveRest()
	followed, last := c.followed(), len(c.followers)-1
	c.followers[f.pos] = c.followers[last]
	c.followers[f.pos].pos = f.pos
	c.followers[last] = nil
	c.followers = c.followers[:last]
	if f.client.form.TTL {
		c.timed--
	}
	if f.client.form.State {
		c.states--
		c.table.counted(-1)
		c.letGoPassed()
		if c.states == 0 {
			c.bodies.bare, c.bodies.wrapped = nil, nil
			c.unlist()
		}
	}
	c.referMembers(followed)
	if last > 0 {
		return
	}
	c.runs.drop()
	c.sweep()
	if !c.pinned {
		c.interest.release()
	}
}

// repeat makes everything be sent again: the client subscribed again (SUB-6).
func (f *cursor) repeat() {
	f.reached = max(f.reached, f.sent)
	f.sent, f.at = 0, nil
	f.born = f.coll.table.store.seq
	f.seen, f.since = f.coll.changes, 0
	f.told, f.synced = false, false
	f.failed = 0
	f.coll.lack(f.watch)
	f.versions.doubt() // it may hold them still, or have forgotten them (RES-15)
	if f.moved != nil && !f.watch.full {
		f.moved.doubt = true
	}
}

// mayHold notes that the client has a member from another subscription, which the
// cursor has not come to.
func (f *cursor) mayHold(key string) {
	if f.versions == nil {
		f.versions = newClaims(f.client.store.cache.seed, 0, 0)
	}
	f.versions.set(key, "")
}

// passed reports whether an entry is a member that the cursor has come to.
func (f *cursor) passed(e *entry) bool {
	return e.coll == f.coll && !e.dead && e.changed <= f.sent
}

// gave reports whether the client may hold an entry because of the cursor, or said
// that it does (RES-11).
func (f *cursor) gave(e *entry) bool {
	if f.versions.has(e.key) || f.moved.get(e.key) != nil {
		return true
	}
	return e.coll == f.coll && f.mayHave(e) && !(e.dead && e.changed <= f.removed)
}

// inherit takes over from a cursor in the same collection, under another spelling,
// that ended: what the client was sent by it, and what was not compared yet.
func (f *cursor) inherit(o *cursor) {
	f.reached, f.removed = max(f.reached, o.reached, o.sent), min(f.removed, o.removed)
	for key := range o.owed {
		f.owe(key)
	}
	for key := range o.versions.keys() {
		if e := f.coll.table.entries[key]; e == nil || !f.passed(e) {
			f.mayHold(key)
		}
	}
	for key := range o.moved.all() {
		if e := f.coll.table.entries[key]; e == nil || !f.passed(e) {
			f.mayHold(key)
		}
	}
}

// compared notes that the client knows what became of a key that it held.
func (f *cursor) compared(key string) {
	f.versions = f.versions.settle(key)
	f.moved.compared(key)
	f.endMove()
}

// without deletes a key. Maps do not shrink, and a client may live for months
// after it began with a large one: an empty one is let go.
func without[K comparable, V any](m map[K]V, key K) map[K]V {
	delete(m, key)
	if len(m) == 0 {
		return nil
	}
	return m
}

// behind reports whether removals were discarded that the client was not told.
func (f *cursor) behind() bool { return f.coll.floor > f.removed }

// spell gives a member under the name that the client expects: in its own
// spelling of the glob, whatever the server's is (NAME-4), and in the server's
// for "*".
func (f *cursor) spell(e *entry) string {
	if f.coll.wildcard() {
		return e.name()
	}
	return f.spellKey(e.key)
}

// spellKey is spell for what is no member.
func (f *cursor) spellKey(key string) string {
	if !f.renamed {
		return key
	}
	return keyer.Respell(f.name, key)
}

// addsDue and removalsDue report what Collect would find.
func (f *cursor) addsDue() bool {
	t := f.coll.live.tail
	return (t != nil && t.changed > f.sent) || (!f.told && f.coll.knownEmpty()) || f.liftDue()
}

func (f *cursor) removalsDue() bool {
	t := f.coll.tombs.tail
	return (t != nil && t.changed > f.removed) || f.behind() || f.leftoverDue()
}

// leftoverDue reports whether what the client holds and the collection lacks may
// be told: not before the collection is synced, and what is here was compared.
func (f *cursor) leftoverDue() bool {
	return f.versionsDue() || f.foreignDue()
}

func (f *cursor) versionsDue() bool { return !f.versions.none() && f.coll.synced && f.level() }

// level reports whether the client was sent all members.
func (f *cursor) level() bool {
	t := f.coll.live.tail
	return t == nil || t.changed <= f.sent
}
