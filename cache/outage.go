package cache

import (
	"google.golang.org/grpc/codes"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// SetOutage says that the store's control plane has been unreachable for so long that clients
// should not wait any longer (ABS-2). cause is for the clients. "" says that it can be reached.
// It reports whether TellOutage is due: an outage has begun, and clients were not told. The caller calls that
// after SetOutage for all stores. A client of two stores would otherwise be sent an error from the first
// one, and its stream could not end without a response any more.
// One goroutine at a time calls it. Mostly nothing changes, and then it takes no lock: a large
// response that is being applied must not delay other stores.
func (s Session) SetOutage(cause string) (untold bool) {
	if before := s.store.outage.Load(); (before != nil) != (cause != "") {
		s.store.change(func() {
			if cause == "" {
				endOutage(s.store)
			} else {
				s.store.outage.begin(&wire.ResourceError{Code: codes.Unavailable, Message: cause})
			}
		})
	}
	return s.store.outage.untold.Load()
}

// TellOutage tells the clients of an outage that SetOutage has begun. If there are peers, they are
// asked before, and Peers.Asked tells. During an outage, subscribers of names without any answer are told the
// resource error UNAVAILABLE. Cached resources are served as ever. If it panics it is still due (SUR-6).
func (s Session) TellOutage() {
	s.store.change(func() {
		o := &s.store.outage
		if o.untold.Load() && !o.unasked.Load() {
			tellOutage(s.store, 0)
		}
		o.untold.Store(false)
	})
}

// tellAsked tells the clients that waited for peers, which were asked for all that was wanted when wants was
// a number. If they were asked before the outage began they are to be asked again.
func tellAsked(s *Store, wants uint64) {
	o := &s.outage
	switch {
	case o.unasked.Load() && wants < o.began:
		return
	case o.Load() == nil, o.untold.Load(): // there is none, or TellOutage tells of it
	case o.unasked.Load():
		tellOutage(s, wants)
	default:
		tellLate(s, wants)
	}
	o.askedFor(wants)
}

// tellOutage tells all clients but those that wait for peers, which were asked for all that was wanted when
// wants was a number. It rings for all: those that cannot be served anything end.
func tellOutage(s *Store, wants uint64) {
	for _, t := range s.tables {
		for _, e := range t.entries {
			if s.outage.late[e].wants <= wants {
				outOfReach(t, e)
			}
		}
	}
	ringPlaces(s)
}

// tellLate tells those that waited for peers since the others were told.
func tellLate(s *Store, wants uint64) {
	for _, l := range s.outage.late {
		if l.wants <= wants {
			l.tell()
		}
	}
}

// outOfReach gives a name that clients wait for the error of the outage.
func outOfReach(t *Table, e *Entry) {
	if e.state == Unknown && e.extra.audience != nil {
		t.become(e, content{state: Failed, err: t.store.outage.Load()}, said, t.store.cache.Now())
	}
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
	err := s.outage.end()
	if waited {
		ringPlaces(s)
	}
	for _, t := range s.tables {
		for _, e := range t.entries {
			if e.extra.err == err {
				t.become(e, content{state: Unknown}, unsaid, s.cache.Now())
				t.digests.contentChanged(e)
				t.forgetUnused(e)
			}
		}
	}
}
