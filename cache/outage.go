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
				s.store.endOutage()
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
			s.store.tellOutage(0)
		}
		o.untold.Store(false)
	})
}

// tellAsked tells the clients that waited for peers, which were asked for all that was wanted when wants was
// a number. If they were asked before the outage began they are to be asked again.
func (s *Store) tellAsked(wants uint64) {
	o := &s.outage
	switch {
	case o.unasked.Load() && wants < o.began:
		return
	case o.Load() == nil, o.untold.Load(): // there is none, or TellOutage tells of it
	case o.unasked.Load():
		s.tellOutage(wants)
	default:
		s.tellLate(wants)
	}
	o.askedFor(wants)
}

// tellOutage tells all clients but those that wait for peers, which were asked for all that was wanted when
// wants was a number. It rings for all: those that cannot be served anything end.
func (s *Store) tellOutage(wants uint64) {
	for _, t := range s.tables {
		for _, e := range t.entries {
			if s.outage.late[e].wants <= wants {
				t.outOfReach(e)
			}
		}
	}
	s.ringPlaces()
}

// tellLate tells those that waited for peers since the others were told.
func (s *Store) tellLate(wants uint64) {
	for _, l := range s.outage.late {
		if l.wants <= wants {
			l.tell()
		}
	}
}

// outOfReach gives a name that clients wait for the error of the outage.
func (t *Table) outOfReach(e *Entry) {
	if e.state == Unknown && e.extra.audience != nil {
		t.become(e, content{state: Failed, err: t.store.outage.Load()}, said, t.store.cache.Now())
	}
}

// ringPlaces rings for all clients. The caller holds the locks.
func (s *Store) ringPlaces() {
	for p := range s.places {
		s.journal.ring(p.Bell())
	}
}

// endOutage forgets the errors: later subscriptions wait for the server's word. It rings for
// clients that waited to be told of the outage: they may have errors of other stores.
func (s *Store) endOutage() {
	waited := s.outage.pending()
	err := s.outage.end()
	if waited {
		s.ringPlaces()
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
