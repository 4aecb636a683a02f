package cache

import "time"

// Restored content comes from an earlier process (SUR-1). It goes to clients that present nothing
// for its name. It takes the place of nothing that a client presents, until the server confirms it:
//
//   - The server sends the same content, or a heartbeat for it. A new stream has it do so (wire.Asked).
//   - A server of the state of the world sends a list of a full-state type without it, and an error
//     that leaves open what became of it: the content stays, and is all that there is (ERR-1).
//   - The collection that it is a member of is complete: the server sends no more of it.

// restoredStore is what a store has of an earlier process. Guarded by Store.mu.
type restoredStore struct {
	asOf   time.Time           // when the content was last known to be current
	tables map[*Table]struct{} // with restored content
	heard  time.Time           // when the server answered last, whatever it was asked for; zero: never
}

// addRestored counts a resource that was restored.
func (t *Table) addRestored() {
	t.upstream.restored++
	t.store.restored.tables = with(t.store.restored.tables, t) // what an operator released may be the first
}

// dropRestored ends that a resource counts as restored.
func (t *Table) dropRestored() {
	if t.upstream.restored--; t.upstream.restored == 0 {
		delete(t.store.restored.tables, t)
	}
}

// restoredMembers is the same of a collection. Guarded by Store.mu.
type restoredMembers struct {
	is    bool // members come from an earlier process, or from a peer; until it is complete
	whole bool // all members were restored that there were then
}

// Restored reports whether the members come from an earlier process, and the server has not said
// in this one what members there are.
func (c *Collection) Restored() bool { return c.restored.is && !c.quiet.synced }

// asks reports whether an entry is presented in a version that no content has. Nothing is presented of what
// the server removed, and clients have still.
func (t *Table) asks(e *Entry) bool {
	return e.presentable() && (e.Restored() || e.Member() && e.coll.quiet.anew) && !t.upstream.held.removes(e)
}

// askAnew has the stream begin anew, once, for a collection of which an incremental server has said nothing
// though the relay holds members: it has nothing newer than the versions that it was shown, and the collection
// would never be complete. The next stream presents them in a version that no content has.
func (c *Collection) askAnew() {
	if c.table.store.source.State || c.quiet.synced || c.quiet.anew {
		return
	}
	for e := c.log.live.head; e != nil; e = e.next {
		if e.presentable() && !c.table.asks(e) {
			c.quiet.anew = true
			c.demand.ask()
			return
		}
	}
}

// owesMembers reports whether the server must still send members that it was asked for, or say that they are gone.
func (c *Collection) owesMembers() bool {
	return !c.quiet.synced && c.quiet.stale > 0 && c.table.upstream.shown
}

// owesLateNames reports whether every member that the server owes is asked for by its name too, and had its time. A relay
// says of such a member what it says of the name: that is nothing while its own control plane says nothing (ABS-3).
func (c *Collection) owesLateNames() bool {
	for e := c.log.live.head; e != nil; e = e.next {
		if i := e.extra.demand; c.quiet.isStale(e) && (i == nil || !i.subscribed || !e.marks.Overdue) {
			return false
		}
	}
	return true
}

// confirm records that the server has the content of e.
func (t *Table) confirm(e *Entry) {
	if !e.Restored() {
		return
	}
	t.become(e, content{state: Present, res: e.res.Confirmed()}, repeated, t.store.cache.Now())
	e.notify(Notice{Event: Confirmed})
	if e.Member() {
		for _, f := range e.coll.followers {
			if f.follower.AwaitsMembers() {
				t.store.journal.ringType(f.bell)
			}
		}
	}
}

// confirmMembers confirms the members of a complete collection. The relay did not present stale
// members, or the server may mean to leave them out: they wait for the server's word (RES-14).
func (t *Table) confirmMembers(c *Collection) {
	if !c.restored.is {
		return
	}
	c.restored.is = false
	for e := c.log.live.head; e != nil; e = e.next {
		if !c.quiet.isStale(e) {
			t.confirm(e)
		}
	}
}
