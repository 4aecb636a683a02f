package cache

import (
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// LeaveOut says which names of a type the server is not asked for on a stream from now on, because a
// request of the state of the world has no room for them, and for which there is room again (RES-17). The
// former stay demanded: the session asks for them as soon as others are unsubscribed. Until then their
// clients are told UNAVAILABLE (ABS-2), no clock runs for them (RES-7), and a list without them
// says nothing about them (RES-8). Meanwhile names that no client subscribes to any more are evicted at
// once.
func (s Session) LeaveOut(stream wire.StreamID, typeURL string, out, in []string) {
	s.store.change(func() {
		now := s.store.cache.Now()
		for _, t := range s.carried(stream, typeURL, nil) {
			for _, name := range in {
				if i := t.demandOfName(name); i != nil && i.leftOut {
					i.leaveOut(false)
					i.startClock(now)
				}
			}
			for _, name := range out {
				if i := t.demandOfName(name); i != nil && i.subscribed && !i.leftOut {
					i.leaveOut(true)
					i.asked = 0
					i.late(true)
					t.waitNoLonger(i.entry, errLeftOut, now)
				}
			}
		}
	})
}

// demandOfName returns the demand for a name, nil if there is none.
func (t *Table) demandOfName(name string) *demand {
	if e := t.entries[name]; e != nil {
		return e.extra.demand
	}
	return nil
}

// errLeftOut is the error of a name that is left out.
func errLeftOut(name string) *wire.ResourceError {
	return &wire.ResourceError{
		Name: name, Code: codes.Unavailable,
		Message: "the control plane was not asked for it: a request for all names would pass max_request_size",
	}
}
