package delivery

import (
	"github.com/xdsrelay/xdsrelay/cache"

	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// repeat has everything sent again: the client subscribed again (SUB-6).
func (f *follower) repeat() {
	f.sentBefore = max(f.sentBefore, f.Sent())
	f.Restart()
	f.seen, f.since = f.Collection().Changes(), 0
	f.answered, f.synced = false, false
	f.errorSent = 0
	f.held.doubt() // it may hold them still, or have forgotten them (RES-15)
}

// mayHold records that the client has a member by another subscription, ahead of the follower's
// position.
func (f *follower) mayHold(key string) {
	if f.held == nil {
		f.held = newHeldVersions(f.typeSub.place.store.Seed(), 0, 0)
	}
	f.held.set(key, "")
}

// gave reports whether the client may hold an entry because of the follower, or said that it
// does (RES-11).
func (f *follower) gave(e *cache.Entry) bool {
	if f.held.has(e.Key()) {
		return true
	}
	return e.Collection() == f.Collection() && f.mayHave(e) && !(e.Marks().Tombstone && e.Changed() <= f.Removed())
}

// mayHave reports whether the client was sent a member before it was removed. The relay does
// not know what a client was sent before its stream began: a client that showed a version and
// has had no list may have everything (RES-2).
func (f *follower) mayHave(e *cache.Entry) bool {
	return (f.typeSub.list.mayHaveAll() || e.Added() <= max(f.sentBefore, f.Sent())) && !f.hides(e)
}

// inherit takes over from a follower of the same collection, under another spelling, that
// ended: what the client was sent by it, and what was not compared yet.
func (f *follower) inherit(o *follower) {
	f.sentBefore = max(f.sentBefore, o.sentBefore, o.Sent())
	f.Inherit(&o.Cursor)
	f.ttl.inherit(&o.ttl)
	for key := range o.held.keys() {
		if e := f.Collection().Table().Find(key); e == nil || !f.Passed(e) {
			f.mayHold(key)
		}
	}
}

// compared records that the client knows what became of a key that it held.
func (f *follower) compared(key string) {
	f.held = f.held.settle(key)
}

// addsDue and removalsDue report what a Collect would find.
func (f *follower) addsDue() bool {
	t := f.Collection().Last()
	return (t != nil && t.Changed() > f.Sent()) || (!f.answered && f.knownEmpty()) || (f.typeSub.place.form.renewsWhole() && f.ttl.liftDue(f.Collection())) || f.withheld.due(f) || f.breakDue()
}

func (f *follower) removalsDue() bool {
	t := f.Collection().LastRemoved()
	return (t != nil && t.Changed() > f.Removed()) || f.Behind() || f.heldDue()
}

// heldDue reports whether the client said that it holds something, and it is known by now
// whether that exists. A client that was sent all members is told that the rest is removed.
func (f *follower) heldDue() bool {
	return !f.held.none() && f.Collection().Synced() && !f.typeSub.mayHaveByAlias()
}

// mayHaveByAlias reports whether the client may have a resource by an alias, while "*" knows
// nothing of it: the server has not answered all names. Only virtual hosts have aliases.
func (w *typeSub) mayHaveByAlias() bool {
	return w.rank == xds.RankVirtualHost && w.subs.names.has(func(n *nameSub) bool { return n.entry.Open() })
}

// breakDue reports whether a relay is to be told that an answer broke off, or that all is there
// (tellBreak).
func (f *follower) breakDue() bool {
	if !f.typeSub.concludes() {
		return false
	}
	times, _ := f.Collection().BrokenOff()
	return f.broken != times
}
