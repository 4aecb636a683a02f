package upstream

import (
	"context"
	"sync"
	"time"
)

// failback is a session's way back to a better endpoint (LOC-6). It belongs to
// the session's owner.
type failback struct {
	at      time.Time // when to look next; zero: not waiting
	probing bool
	wg      sync.WaitGroup // the one probe

	// An endpoint that takes connections but no streams would have the session
	// leave a good stream for it again and again: each move that did not come to
	// anything doubles the wait for the next one, up to sixteen times.
	moves  int
	target int // of the last move
}

const maxDoublings = 4

// arrived says that a stream at endpoint is good.
func (f *failback) arrived(endpoint int) {
	if endpoint == f.target {
		f.moves = 0
	}
}

// moveTo makes endpoint the one for new streams.
func (s *Session) moveTo(endpoint int) {
	if endpoint == s.endpoint {
		return
	}
	from, to := s.up.cfg.Endpoints[s.endpoint], s.up.cfg.Endpoints[endpoint]
	s.endpoint = endpoint
	s.note(func(st *Status) { st.Endpoint = to; st.EndpointChanges++ })
	s.obs.EndpointChanged(from, to)
	s.log.Info("turning to another endpoint", "from", from, "to", to)
	s.scheduleProbe()
}

// scheduleProbe sets when to look for a better endpoint, if there is one.
func (s *Session) scheduleProbe() {
	f := &s.failback
	switch {
	case s.endpoint == 0:
		f.at = time.Time{}
	case f.at.IsZero() && !f.probing:
		f.at = time.Now().Add(spread(s.up.cfg.FailbackInterval << min(f.moves, maxDoublings)))
	}
}

// probe looks, in the background, whether a better endpoint can be reached. An
// idle session does not: it begins with the best when it has something to ask.
func (s *Session) probe() {
	if s.idle() {
		s.moveTo(0)
		return
	}
	f, better := &s.failback, s.endpoint
	f.probing = true
	f.wg.Go(func() {
		for endpoint := range better {
			c := s.reach(endpoint)
			if c == nil {
				continue
			}
			select {
			case s.events <- func() { s.probed(c) }:
			case <-s.ctx.Done():
				s.up.release(c)
			}
			return
		}
		select {
		case s.events <- func() { s.probed(nil) }:
		case <-s.ctx.Done():
		}
	})
}

// reach connects to an endpoint, or gives nil. Where a session of the same
// upstream has just tried in vain it does not try again, so that a thousand
// scopes do not probe a thousand times as often.
func (s *Session) reach(endpoint int) *conn {
	if s.up.failedWithin(endpoint, s.up.cfg.FailbackInterval/2) {
		return nil
	}
	c, err := s.up.acquire(endpoint)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.up.cfg.ConnectTimeout)
	defer cancel()
	if c.ready(ctx) {
		s.up.found(endpoint, true)
		return c
	}
	if s.ctx.Err() == nil {
		s.up.found(endpoint, false)
	}
	s.up.release(c)
	return nil
}

// probed moves the session to the better endpoint that c is connected to, or
// looks again later if c is nil. The streams are opened anew there and resume
// (RES-12), so that nothing is lost.
func (s *Session) probed(c *conn) {
	f := &s.failback
	f.probing = false
	if c == nil || c.endpoint >= s.endpoint {
		if c != nil {
			s.up.release(c)
		}
		s.scheduleProbe()
		return
	}
	f.moves++
	f.target = c.endpoint
	s.moveTo(c.endpoint)
	for _, l := range s.lines {
		if l.idle() || l.draining || l.stream != nil && l.stream.conn.endpoint == c.endpoint {
			continue // the last: only other streams had been refused there
		}
		s.end(l, ReasonFailback)
		clear(l.failed)
		s.connect(l)
	}
	// Only now: the new streams use the connection.
	s.up.release(c)
}
