package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// SetOutage says that the store's control plane has been unreachable for so long that clients
// should not wait any longer (ABS-2). cause is for the clients. "" says that it can be reached.
// During an outage, subscribers of names without any answer are told the resource error
// UNAVAILABLE. Cached resources are served as ever. One goroutine at a time calls it. Mostly
// nothing changes, and then it takes no lock: a large response that is being applied must not
// delay other stores.
func (s Session) SetOutage(cause string) {
	if before := s.store.outage.Load(); (before != nil) == (cause != "") {
		return
	}
	s.store.change(func() {
		if now := s.store.cache.Now(); cause != "" {
			beginOutage(s.store, &wire.ResourceError{Code: codes.Unavailable, Message: cause}, now)
		} else {
			endOutage(s.store)
		}
	})
}

// beginOutage tells the clients, after peers were asked if there are any (Peers.Asked).
func beginOutage(s *Store, err *wire.ResourceError, now time.Time) {
	s.outage.Store(err)
	if !s.outage.await() {
		tellOutage(s, err, now)
	}
}

// tellOutage rings for all clients: those that cannot be served anything end.
func tellOutage(s *Store, err *wire.ResourceError, now time.Time) {
	for _, t := range s.tables {
		for _, e := range t.entries {
			if e.state == Unknown && e.extra.audience != nil {
				t.remove(e, Failed, err, now)
			}
		}
	}
	ringPlaces(s)
}

// ringPlaces rings for all clients. The caller holds the locks.
func ringPlaces(s *Store) {
	for p := range s.places {
		s.journal.ring(p.Bell())
	}
}

// endOutage forgets the errors: later subscriptions wait for the server's word.
func endOutage(s *Store) {
	err := s.outage.Swap(nil)
	s.outage.awaited.Store(false)
	for _, t := range s.tables {
		for _, e := range t.entries {
			if e.extra.err == err {
				e.state = Unknown
				e.extra.setErr(nil)
				t.digests.contentChanged(e)
				t.forgetUnused(e)
			}
		}
	}
}
