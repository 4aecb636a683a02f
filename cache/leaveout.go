package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// LeaveOut says which names of a type the server is not asked for on a stream, because a request of
// the state of the world has no room for them (RES-17), in place of what it said before. The names
// stay demanded: the session asks for them as soon as others are unsubscribed. Until then their
// clients are told UNAVAILABLE (ABS-2), no clock runs for them (RES-7), and a list without them
// says nothing about them (RES-8).
func (s Session) LeaveOut(stream wire.StreamID, typeURL string, names []string) {
	out := make(map[string]struct{}, len(names))
	for _, name := range names {
		out[name] = struct{}{}
	}
	s.store.change(func() {
		now := s.store.cache.Now()
		for _, t := range s.carried(stream, typeURL, nil) {
			for _, e := range t.entries {
				i := e.extra.demand
				if i == nil || !i.subscribed {
					continue
				}
				switch _, left := out[e.key]; {
				case left && !i.leftOut:
					leaveOut(t, i, now)
				case !left && i.leftOut:
					i.leftOut = false
					i.startClock(now)
				}
			}
		}
	})
}

// leaveOut ends the waiting for a name that the server is not asked for.
func leaveOut(t *Table, i *demand, now time.Time) {
	i.leftOut, i.asked = true, 0
	i.late(true)
	waitNoLonger(t, i.entry, errLeftOut, now)
}

// errLeftOut is the error of a name that is left out.
func errLeftOut(name string) *wire.ResourceError {
	return &wire.ResourceError{
		Name: name, Code: codes.Unavailable,
		Message: "the control plane was not asked for it: a request for all names would pass max_request_size",
	}
}
