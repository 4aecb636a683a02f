package upstream

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// gather decides when changed demand is written (UPS-3). The first names of a type go out
// at once: a client waits for them. Those that follow within the batch time wait for its
// end and go out together.
func (s *Session) gather(now time.Time) {
	switch {
	case slices.ContainsFunc(s.store.Streams(), func(id wire.StreamID) bool { return s.presses(id, now) }):
		s.batchAt = time.Time{}
		s.reconcile()
	case s.batchAt.IsZero():
		s.batchAt = now.Add(s.up.cfg.Batch)
	}
}

// presses reports whether something of a stream is to be written at once, or the stream
// is to be opened. What is wanted on a stream that is not open yet goes with its beginning.
func (s *Session) presses(id wire.StreamID, now time.Time) bool {
	l := s.line(id)
	switch {
	case l == nil:
		return s.up.cfg.APIType.method(id) != ""
	case l.idle(), l.draining:
		return true
	case l.asleep:
		return s.store.Awaited()
	case !l.open:
		return false
	}
	return slices.ContainsFunc(s.store.Unasked(id), func(typeURL string) bool {
		return now.Sub(l.subscribed[typeURL]) >= s.up.cfg.Batch
	})
}

// gather is that of [Session], for polls.
func (s *RESTSession) gather(now time.Time) {
	switch {
	case slices.ContainsFunc(s.store.Streams(), func(id wire.StreamID) bool { return s.presses(id, now) }):
		s.batchAt = time.Time{}
		s.reconcile()
	case s.batchAt.IsZero():
		s.batchAt = now.Add(s.up.cfg.Batch)
	}
}

// presses reports whether something is to be polled for at once.
func (s *RESTSession) presses(id wire.StreamID, now time.Time) bool {
	l := s.line(id)
	switch {
	case l == nil:
		return polled(id)
	case l.broken:
		return false
	case l.idle():
		return true
	case l.asleep:
		return s.store.Awaited()
	}
	return l.poller != nil && now.Sub(l.subscribed) >= s.up.cfg.Batch && len(s.store.Unasked(id)) > 0
}
