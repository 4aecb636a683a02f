package loadreport

import (
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/retry"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// unservedFor is how long a control plane without the service is not asked again
	// (LRS-2).
	unservedFor = 5 * time.Minute
	retryBase   = 500 * time.Millisecond
	retryMax    = 30 * time.Second
	// queueTime is about how often a scope looks whether it is let in.
	queueTime = 200 * time.Millisecond
)

// ErrUnserved says that a control plane has no load reporting service. Clients get it as it
// is: UNIMPLEMENTED.
var ErrUnserved = status.Error(codes.Unimplemented, "the control plane has no load reporting service")

// Gate says when the scopes of one upstream may open a stream for their reports. Until the
// control plane has taken one, and while it takes none, one scope tries at a time. A control
// plane that says that it has no such service is left alone for unservedFor. The methods may
// be called from any goroutine.
type Gate struct {
	observer Observer

	mu       sync.Mutex
	backoff  retry.Backoff
	age      uint64 // counts resets
	open     bool   // the control plane takes streams
	probing  bool   // a scope tries
	next     time.Time
	unserved time.Time // until then
	retired  bool      // the observer is another gate's
	sentAt   time.Time // when a scope last sent a report; zero: never
}

// ticket lets a scope open a stream.
type ticket struct {
	age   uint64 // of the gate: what becomes of the stream says nothing after a reset
	probe bool   // others wait for it
}

// NewGate returns the gate of a control plane that nothing is known of. It tells the observer
// nothing before something happens, or [Gate.Reset] is called: a gate may be made for a
// configuration that never comes into force.
func NewGate(o Observer) *Gate {
	return &Gate{observer: o, backoff: retry.Backoff{Base: retryBase, Max: retryMax}}
}

// Check returns ErrUnserved if the control plane is not to be asked now.
func (g *Gate) Check() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Now().Before(g.unserved) {
		return ErrUnserved
	}
	return nil
}

// Reset forgets everything: the control plane is reached in another way. Streams that were
// opened before do not count any more, neither as taken nor as refused.
func (g *Gate) Reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.age++
	g.open, g.probing, g.next, g.unserved = false, false, time.Time{}, time.Time{}
	g.backoff.Reset()
	g.tell(true)
}

// Retire has the gate tell the observer no longer whether the control plane has the service:
// another control plane may have taken the upstream's name over.
func (g *Gate) Retire() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.retired = true
}

// tell tells whether the control plane is taken to have the service. The caller holds mu.
func (g *Gate) tell(served bool) {
	if !g.retired {
		g.observer.Served(served)
	}
}

// enter says how long a scope has to wait until it asks again; zero: it may open a stream.
func (g *Gate) enter() (wait time.Duration, p ticket, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	switch {
	case now.Before(g.unserved):
		return 0, ticket{}, ErrUnserved
	case g.open:
		return 0, ticket{age: g.age}, nil
	case g.probing, now.Before(g.next):
		return max(0, g.next.Sub(now)) + retry.Spread(queueTime), ticket{}, nil
	}
	g.probing = true
	return 0, ticket{age: g.age, probe: true}, nil
}

// passed notes that the control plane answered, or took a stream for a while.
func (g *Gate) passed(p ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.age != g.age {
		return
	}
	g.open, g.probing = true, false
	g.backoff.Reset()
	if !g.unserved.IsZero() {
		g.unserved = time.Time{}
		g.tell(true)
	}
}

// left notes that a stream ended, and why; nil if the scope ended it. It reports whether that
// says something about the control plane as it is reached now.
func (g *Gate) left(p ticket, err error) (counts bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.age != g.age {
		return false
	}
	g.probing = g.probing && !p.probe
	switch now := time.Now(); {
	case err == nil:
	case status.Code(err) == codes.Unimplemented:
		g.open, g.unserved = false, now.Add(unservedFor)
		g.tell(false)
	case g.open, p.probe:
		g.open, g.next = false, now.Add(g.backoff.Next())
	}
	return true
}
