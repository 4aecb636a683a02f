package cache

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// ApplyState is Apply for a source that speaks the state of the world, with the same
// errors (ACK-6), and one more for what is left out because it has no name: what equals
// the bytes that are held is no change, and removals are worked out here.
//
// Of a full-state type (Source.FullState), or where the response says that it is
// complete, what was received before and is missing now is gone (RES-8): members of
// collections and names alike. The wildcard is synced then. A name that never was
// received may be missing because the response answers an older request; it waits for
// its clock (RES-7), unless the response is complete. Of other types what is missing
// stays.
func (s *Store) ApplyState(stream wire.StreamID, r *wire.StateResponse, received time.Time) error {
	u, err := newUpdate(&wire.DeltaResponse{
		TypeURL: r.TypeURL, Resources: r.Resources, Errors: r.Errors, ControlPlane: r.ControlPlane,
	}, received)
	if err != nil {
		return err
	}
	u.state, u.bad = r, append(u.bad, r.Unnamed...)
	return s.apply(stream, u)
}

// heartbeats reports whether a response is of nothing else: it is no list, and says
// nothing about what there is (TTL-3).
func (u *update) heartbeats() bool {
	r := u.state
	return !r.Complete && len(r.Resources) > 0 && !slices.ContainsFunc(r.Resources, (*wire.Resource).HasPayload)
}

// conclude draws from a response what it says without saying it. One with a bad
// name in it is rejected, so what that may have stood for stays.
func (u *update) conclude(t *table) {
	if u.state.Complete {
		u.unsolicited = 0 // the source says everything, whoever asks
	}
	if len(u.bad) > 0 || u.heartbeats() {
		return
	}
	if u.lists(t) {
		u.endExcuses(t)
		if t.kind == wholeType {
			u.concludeWildcard(t)
		} else {
			u.concludeNames(t)
		}
	}
	t.serverVersions.note(u.state.VersionInfo)
}

// lists reports whether what a response does not hold is gone.
func (u *update) lists(t *table) bool {
	return u.state.Complete || t.store.source.FullState[t.typeURL]
}

func (u *update) concludeWildcard(t *table) {
	c := t.colls[Wildcard]
	if c == nil {
		return // let go, and the server has not read it yet
	}
	if u.failing[Wildcard] {
		return // it does not know what there is (ERR-1)
	}
	u.sweepMembers(t, c)
	if !c.synced && c.interest.subscribed {
		t.sync(c)
	}
}

// sweepMembers removes the members that the response does not hold.
func (u *update) sweepMembers(t *table, c *collection) {
	for e := c.live.head; e != nil; {
		next := e.next
		if e.mark != t.mark && !u.isExcused(t, e) {
			t.unset(e, absent, nil, u.received)
		}
		e = next
	}
}

func (u *update) concludeNames(t *table) {
	for _, e := range t.entries {
		if e.mark == t.mark {
			continue
		}
		switch {
		case u.isExcused(t, e):
		case e.there(), u.state.Complete && (e.state == unknown || e.state == failed):
			t.unset(e, absent, nil, u.received)
		}
	}
	if !u.state.Complete {
		return
	}
	for _, c := range t.colls {
		if c.interest.subscribed && !c.synced && !c.errors.leavesOpen() {
			t.sync(c)
		}
	}
}

// endExcuses ends the excuses of resources that a list holds all the same: when the next
// list lacks one, it is gone.
func (u *update) endExcuses(t *table) {
	for e := range t.excuses.entries {
		if e.mark == t.mark && !u.failing[e.key] {
			t.excuses.drop(e)
		}
	}
}

// isExcused reports whether a resource that is not in a list may exist all the same. A
// source that says everything each time would say why.
func (u *update) isExcused(t *table, e *entry) bool {
	if u.state.Complete {
		return false
	}
	return t.excuses.has(e) || (e.member() && e.coll.errors.leavesOpen())
}
