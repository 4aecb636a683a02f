package cache

import (
	"slices"
	"sync"
)

// Cursor is how far one client has followed one collection. Guarded by Store.mu. The client's
// stream needs the read lock only: no other client reaches the cursor.
type Cursor struct {
	coll     *Collection
	bell     *TypeBell
	follower Follower
	needs    Needs
	pos      int // in coll.followers
	waiting  int // place in coll.waiters from 1; 0: the bell has rung

	begun     uint64 // number at which the client followed. It never held older tombstones
	sent      uint64 // last change of a living member that the client was sent
	removed   uint64 // last removal that it was sent
	at        *Entry // the member with number sent, unless it changed since
	tombstone *Entry // the tombstone with number removed, likewise
}

// NextChange is the first member that changed since the cursor, nil if none did.
func (f *Cursor) NextChange() *Entry { return f.coll.log.live.after(f.sent, f.at, f.coll) }

// Advance records that the client was sent a member, and everything before it.
func (f *Cursor) Advance(e *Entry) { f.sent, f.at = e.changed, e }

// NextRemoval is the first tombstone since the cursor, nil if there is none.
func (f *Cursor) NextRemoval() *Entry {
	return f.coll.log.tombstones.after(f.removed, f.tombstone, f.coll)
}

// AdvanceRemovals records that the client was sent a removal, and all before it.
func (f *Cursor) AdvanceRemovals(e *Entry) { f.removed, f.tombstone = e.changed, e }

// Behind reports whether removals were discarded that the client was not told.
func (f *Cursor) Behind() bool { return f.coll.log.floor > f.removed }

// Level reports whether the client was sent all members.
func (f *Cursor) Level() bool {
	t := f.coll.log.live.tail
	return t == nil || t.changed <= f.sent
}

// Passed reports whether an entry is a member that the cursor has come to.
func (f *Cursor) Passed(e *Entry) bool {
	return e.coll == f.coll && !e.marks.Tombstone && e.changed <= f.sent
}

// SkipRemovals records that the client need not be told of removals up to a revision.
func (f *Cursor) SkipRemovals(upTo uint64) {
	if upTo > f.removed {
		f.removed, f.tombstone = upTo, nil
	}
}

// Inherit takes over the removals that another cursor in the same collection was not told.
func (f *Cursor) Inherit(o *Cursor) { f.removed = min(f.removed, o.removed) }

// Collection is what the client follows.
func (f *Cursor) Collection() *Collection { return f.coll }

// Begun is the revision at which the client followed, or subscribed again.
func (f *Cursor) Begun() uint64 { return f.begun }

// Sent is the revision of the last member that the client was sent.
func (f *Cursor) Sent() uint64 { return f.sent }

// Removed is the revision of the last removal that the client was sent.
func (f *Cursor) Removed() uint64 { return f.removed }

// Follower is the client's part of a cursor. A position cannot express everything; that is rare.
type Follower interface {
	// Overdue tells that the collection is waited for no longer (RES-7).
	Overdue()
	// AwaitsMembers reports whether the client waits for the collection to be complete.
	AwaitsMembers() bool
	// Hears reports whether new members go to the client now.
	Hears(asked *Asked) bool
}

// ring rings for the cursors and empties the lists.
func (w *waiters) ring(j *journal) {
	ringAll(&w.plain, j)
	ringAll(&w.timed, j)
}

func ringAll(list *[]*Cursor, j *journal) {
	for i, f := range *list {
		f.waiting = 0
		j.ringType(f.bell)
		(*list)[i] = nil
	}
	*list = (*list)[:0]
}

// Wait has the next change ring for the cursor, unless it does already.
func (f *Cursor) Wait() {
	if f.waiting > 0 {
		return
	}
	w := &f.coll.waiters
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.list(f)
	*list = append(*list, f)
	f.waiting = len(*list)
}

// leaveWaiters takes the cursor off the list.
func (f *Cursor) leaveWaiters() {
	if f.waiting == 0 {
		return
	}
	list := f.coll.waiters.list(f)
	last := len(*list) - 1
	(*list)[f.waiting-1] = (*list)[last]
	(*list)[f.waiting-1].waiting = f.waiting
	(*list)[last] = nil
	*list = (*list)[:last]
	f.waiting = 0
}

// waiters are the cursors of a collection that the next change rings. A cursor waits again after
// its client collects. So a change costs only the cursors that it rings, however many other
// clients are busy or do not read.
//
// A cursor begins to wait under the store's read lock. So the lists have a lock of their own,
// which is taken last. A change holds the store's lock for writing and needs no other.
type waiters struct {
	mu sync.Mutex
	// Those that can do ttl have a list of their own: heartbeats ring no others (TTL-3).
	plain, timed []*Cursor
}

func (w *waiters) list(f *Cursor) *[]*Cursor {
	if f.needs.Has(NeedsTTL) {
		return &w.timed
	}
	return &w.plain
}

// size is the number of cursors on each list. Others come to wait meanwhile.
func (w *waiters) size() (plain, timed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.plain), len(w.timed)
}

// check verifies that the next change rings for each follower, or that its bell has rung.
func (w *waiters) check(c *Checker, coll *Collection) {
	n := 0
	for _, f := range coll.followers {
		c.That(f.waiting > 0 || f.bell.rung, "%q: the next change does not ring for a follower", coll.key)
		if f.waiting > 0 {
			n++
			list := *w.list(f)
			c.That(f.waiting <= len(list) && list[f.waiting-1] == f, "%q: a follower waits in another place", coll.key)
		}
	}
	c.That(n == len(w.plain)+len(w.timed), "%q: %d followers wait, %d are listed", coll.key, n, len(w.plain)+len(w.timed))
}

// followers are the cursors of a collection.
type followers []*Cursor

// anyStream reports whether a follower is a client's.
func (fs followers) anyStream() bool {
	return slices.ContainsFunc(fs, func(f *Cursor) bool { return f.needs.Has(NeedsStream) })
}

// count is the number of followers with some needs.
func (fs followers) count(needs Needs) (n int) {
	for _, f := range fs {
		if f.needs.Has(needs) {
			n++
		}
	}
	return n
}
