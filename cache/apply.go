package cache

import (
	"errors"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Apply puts a response of an upstream stream into the tables, and rings the clients that wait
// for it. A *RejectedError says why the response is to be NACKed: a name occurs twice, a payload
// has another type, a name cannot be parsed, or a resource has none. What was cached stays. The
// relay counts resources that were not asked for, and leaves them out (SUB-13).
//
// A response of the state of the world (wire.Response.State) says nothing of removals. They are
// worked out here, and content with the bytes that the relay holds is no change. A response of a
// full-state type (Source.FullState) holds everything, and so does one that says that it is
// complete: any other resource that was received before is gone (RES-8). Then the wildcard is
// synced. A name that was never received may be missing because the response answers an older
// request. It waits for its clock (RES-7), unless the response is complete. Responses of other
// types remove nothing.
func (s Session) Apply(stream wire.StreamID, r *wire.Response, received time.Time) error {
	if shared := s.store.cache.share(r.Resources); shared != nil {
		own := *r // a source may give the same to several stores
		own.Resources = shared
		r = &own
	}
	u, err := newUpdate(r, received)
	if err != nil {
		return err
	}
	u.bad = append(u.bad, r.Unnamed...)
	return s.apply(stream, u)
}

func (s Session) apply(stream wire.StreamID, u *update) error {
	r := u.response
	s.store.identify(r.ControlPlane)
	s.store.change(func() {
		s.store.changes.begin()
		var room [2]*Table
		tables := s.carried(stream, r.TypeURL, room[:])
		for _, t := range tables {
			t.upstream.heard = true
		}
		switch len(tables) {
		case 0:
			u.unsolicited = len(r.Resources)
		case 1:
			u.apply(tables[0])
		default:
			u.applyShared(tables[0], tables[1])
		}
		for _, t := range tables {
			u.countBack(t)
		}
		s.store.reviewHeld()
	})
	if u.unsolicited > 0 {
		s.store.cache.observer.Unsolicited(r.TypeURL, u.unsolicited)
	}
	u.tellForeign(s.store)
	u.tellBack(s.store)
	if len(u.bad) > 0 {
		return &RejectedError{Reason: errors.Join(u.bad...).Error(), Partly: true}
	}
	return nil
}
