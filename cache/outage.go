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
//
// It reports whether TellOutage has to tell the clients. First all stores of a control plane are told of
// the outage: a client of several of them, which can be served by none, must not have an answer of one
// before its stream ends.
func (s Session) SetOutage(cause string) (begins bool) {
	if before := s.store.outage.Load(); (before != nil) == (cause != "") {
		return false
	}
	s.store.change(func() {
		if cause == "" {
			endOutage(s.store)
			return
		}
		s.store.outage.Store(&wire.ResourceError{Code: codes.Unavailable, Message: cause})
		begins = !s.store.outage.await() // else after peers were asked (Peers.Asked)
	})
	return begins
}

// TellOutage tells the clients of an outage that begins.
func (s Session) TellOutage() {
	s.store.change(func() {
		if err := s.store.outage.told(); err != nil {
			tellOutage(s.store, err, s.store.cache.Now())
		}
	})
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
