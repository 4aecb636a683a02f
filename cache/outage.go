package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// SetOutage says that the store's control plane has been unreachable for so long that clients
// should not wait any longer (ABS-2). cause is for the clients. "" says that it can be reached.
// It reports whether an outage begins. Then TellOutage tells the clients: the caller calls it after
// SetOutage for all stores. A client of two stores would otherwise be sent an error from the first
// one, and its stream could not end without a response any more.
// One goroutine at a time calls it. Mostly nothing changes, and then it takes no lock: a large
// response that is being applied must not delay other stores.
func (s Session) SetOutage(cause string) (begins bool) {
	if before := s.store.outage.Load(); (before != nil) == (cause != "") {
		return false
	}
	s.store.change(func() {
		if begins = cause != ""; begins {
			beginOutage(s.store, &wire.ResourceError{Code: codes.Unavailable, Message: cause})
		} else {
			endOutage(s.store)
		}
	})
	return begins
}

// TellOutage tells the clients of an outage that SetOutage has begun. If there are peers, they are
// asked before, and Peers.Asked tells. During an outage, subscribers of names without any answer are told the
// resource error UNAVAILABLE. Cached resources are served as ever.
func (s Session) TellOutage() {
	s.store.change(func() {
		if s.store.outage.untold.Swap(false) && !s.store.outage.pending() {
			tellOutage(s.store, s.store.outage.Load(), s.store.cache.Now())
		}
	})
}

// beginOutage has the clients wait for TellOutage.
func beginOutage(s *Store, err *wire.ResourceError) {
	s.outage.untold.Store(true)
	s.outage.await()
	s.outage.Store(err)
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

// endOutage forgets the errors: later subscriptions wait for the server's word. It rings for
// clients that waited to be told of the outage: they may have errors of other stores.
func endOutage(s *Store) {
	waited := s.outage.pending()
	err := s.outage.Swap(nil)
	s.outage.awaited.Store(false)
	s.outage.untold.Store(false)
	if waited {
		ringPlaces(s)
	}
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
