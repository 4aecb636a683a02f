package streams

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/logs"
)

// Stream is a client's stream.
type Stream interface {
	comparable
	Context() context.Context
	// End ends the stream with a status, unless it has ended. It may be called from any goroutine.
	End(status error)
}

// Set is the open streams of a server. Its methods may be called from any goroutine, its fields be set before.
type Set[S Stream] struct {
	// Draining is the status of streams while the server drains.
	Draining error
	// Panics catches those of what the set does to a stream later, as of Part.
	Panics *logs.Panics
	Part   logs.Part

	mu       sync.Mutex // guards what follows
	draining bool
	later    map[S]*time.Timer // of each stream; nil: nothing is to be done to it
}

// Add adds a stream, unless the server drains: the error is its status then.
func (s *Set[S]) Add(st S) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return s.Draining
	}
	if s.later == nil {
		s.later = make(map[S]*time.Timer)
	}
	s.later[st] = nil
	return nil
}

// Remove removes a stream.
func (s *Set[S]) Remove(st S) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop(st)
	delete(s.later, st)
}

// Drain refuses new streams, and ends the present ones, each at a random moment within spread.
func (s *Set[S]) Drain(spread time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	for st := range s.later {
		s.within(spread, st, func() { st.End(s.Draining) })
	}
}

// Later has f called for a stream at a random moment within spread, in place of what was to be done to it before. A
// nil f calls that off. Streams that drain, or are no more, are left alone.
func (s *Set[S]) Later(spread time.Duration, st S, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, present := s.later[st]; s.draining || !present {
		return
	}
	s.within(spread, st, f)
}

// within is Later. The caller holds mu.
func (s *Set[S]) within(spread time.Duration, st S, f func()) {
	s.stop(st)
	if f != nil {
		s.later[st] = time.AfterFunc(rand.N(max(0, spread)+1), s.Panics.Func(s.Part, f)) //nolint:gosec // spreading, not secrecy
	}
}

// stop calls off what was to be done to a stream. The caller holds mu.
func (s *Set[S]) stop(st S) {
	if t := s.later[st]; t != nil {
		t.Stop()
	}
}

// All lists the streams.
func (s *Set[S]) All() []S {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.later))
}

// End ends each stream for whose context why gives a status.
func (s *Set[S]) End(why func(context.Context) error) {
	for _, st := range s.All() {
		if err := why(st.Context()); err != nil {
			st.End(err)
		}
	}
}
