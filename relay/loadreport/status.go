package loadreport

import (
	"cmp"
	"slices"
	"time"
)

// State says how far load reports come. It is a metric's label.
type State string

// The states. States lists them all, the one that is farthest from the aim first.
const (
	StateUnserved   State = "unserved"   // the control plane has no such service
	StateConnecting State = "connecting" // there is no stream to the control plane
	StateWaiting    State = "waiting"    // the control plane has not said what it wants
	StateReporting  State = "reporting"
	StateIdle       State = "idle" // no client reports
)

// States lists every state.
func States() []State {
	return []State{StateUnserved, StateConnecting, StateWaiting, StateReporting, StateIdle}
}

// Status says how the reporting of one scope goes, or of all scopes of an upstream.
type Status struct {
	State    State
	Clients  int
	Interval time.Duration // that clients are told; 0: the control plane has not said
	LastSent time.Time     // zero: never
}

// Status says how the scope's reporting goes.
func (s *Scope) Status() Status {
	unserved := s.gate.Check() != nil
	s.mu.Lock()
	defer s.mu.Unlock()
	now := Status{State: StateIdle, Clients: s.clients, LastSent: s.sentAt}
	switch {
	case s.running:
		now.State = s.state
	case unserved:
		now.State = StateUnserved
	}
	if s.answer != nil {
		now.Interval = s.answer.interval
	}
	return now
}

// reach notes how far the goroutine has come.
func (s *Scope) reach(state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
}

// noteSent notes a report that was handed to the stream.
func (s *Scope) noteSent() {
	now := time.Now()
	s.mu.Lock()
	s.sentAt = now
	s.mu.Unlock()
	s.gate.noteSent(now)
	s.observer.Sent()
}

// Add adds a scope up with others: the state is that of the scope that is farthest from reporting,
// and the interval the shortest.
func (s Status) Add(o Status) Status {
	s.State = slices.MinFunc([]State{s.State, o.State}, func(a, b State) int {
		return cmp.Compare(slices.Index(States(), a), slices.Index(States(), b))
	})
	s.Clients += o.Clients
	if s.Interval == 0 || o.Interval > 0 && o.Interval < s.Interval {
		s.Interval = o.Interval
	}
	if s.LastSent.Before(o.LastSent) {
		s.LastSent = o.LastSent
	}
	return s
}

// Status is that of an upstream without scopes: whether it is taken to have the service, and when
// it was last sent a report. What scopes say is to be added ([Status.Add]).
func (g *Gate) Status() Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := Status{State: StateIdle, LastSent: g.sentAt}
	if time.Now().Before(g.unserved) {
		now.State = StateUnserved
	}
	return now
}

func (g *Gate) noteSent(at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sentAt = at
}
