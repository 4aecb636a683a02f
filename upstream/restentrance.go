package upstream

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// wait is that of [Session], for polls.
func (s *RESTSession) wait(l *pollLine, err *ConnectionError) time.Duration {
	awaited := s.store.Awaited()
	delay, queued := time.Duration(0), false
	if !l.refused {
		delay, queued = s.up.entrance.lost(l.ticket, err, awaited)
	}
	switch {
	case !awaited:
		l.asleep = true
		l.backoff.Attempts++
		s.up.entrance.leave(l.ticket)
		return 0
	case queued:
		l.queued = true
		l.backoff.Attempts++
		return delay
	}
	l.backoff.Max = backoffBound(s.up.cfg.BackoffMax, err.Reason)
	if l.refused {
		l.backoff.Max = max(s.up.cfg.BackoffMax, longBackoff) // the server is there, and waits for nothing
	}
	delay = l.backoff.Next()
	l.at = time.Now().Add(delay)
	return delay
}

// attempt begins to poll as soon as somebody waits for it and the entrance lets it in.
func (s *RESTSession) attempt(l *pollLine) {
	switch {
	case !s.store.Awaited():
		l.asleep = true
		s.up.entrance.leave(l.ticket)
	case l.atOnce || s.up.entrance.enter(l.ticket):
		s.start(l)
	default:
		l.queued = true
	}
}

// admit begins to poll for the lines that the entrance has let in.
func (s *RESTSession) admit() {
	for _, l := range s.lines {
		switch {
		case !s.up.entrance.take(l.ticket):
		case !l.queued:
			s.up.entrance.leave(l.ticket)
		case !s.store.StreamWanted(l.id):
			s.end(l, ReasonUnwanted)
		case !s.store.Awaited():
			l.queued, l.asleep = false, true
			s.up.entrance.leave(l.ticket)
		default:
			l.queued = false
			if endpoint, back := s.up.entrance.serving(l.ticket); back && !s.polls() {
				s.failback.moveTo(endpoint)
			}
			s.start(l)
		}
	}
}

// polls reports whether anything is polled for.
func (s *RESTSession) polls() bool {
	return slices.ContainsFunc(s.lines, func(l *pollLine) bool { return l.poller != nil })
}

// rouse is that of [Session], for polls.
func (s *RESTSession) rouse(l *pollLine) {
	if s.store.Awaited() {
		l.asleep = false
		s.begin(l)
		return
	}
	subs, _ := s.store.TakeDemand(l.id)
	if slices.ContainsFunc(subs, func(sub wire.Subscription) bool { return len(sub.Subscribe) > 0 }) {
		s.store.Lost(l.id)
	}
}
