package downstream

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrDraining is the status of streams while the server drains.
var ErrDraining = status.Error(codes.Unavailable, "draining: connect to another replica")

// stagger is a time over which clients are sent away, each at a random moment, so that they do
// not all arrive elsewhere at once (OPS-4).
type stagger struct{ nanoseconds atomic.Int64 }

func (s *stagger) set(d time.Duration) { s.nanoseconds.Store(int64(max(0, d))) }

// moment returns a random time from now.
func (s *stagger) moment() time.Duration {
	return rand.N(time.Duration(s.nanoseconds.Load()) + 1) //nolint:gosec // spreading, not secrecy
}

// retirements are the streams that are to end, by ID, and since when.
type retirements struct {
	mu    sync.Mutex
	since map[uint64]time.Time // guarded by mu
}

// begin notes a stream that is to end, and returns since when it is.
func (r *retirements) begin(id uint64, now time.Time) (since time.Time, before bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, before = r.since[id]
	if !before {
		r.since[id] = now
	}
	return since, before
}

// end forgets a stream that has ended.
func (r *retirements) end(id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.since, id)
}

// closing is how a server ends: it drains, and then cuts off the rest. Server.mu guards drain and
// stop.
type closing struct {
	drained chan struct{} // closed when the server begins to drain
	stopped chan struct{} // closed when the server cuts everything off
	spread  stagger       // over which clients leave; set before drained is closed
}

func newClosing() *closing {
	return &closing{drained: make(chan struct{}), stopped: make(chan struct{})}
}

// drain reports whether this call began the drain.
func (c *closing) drain(spread time.Duration) (began bool) {
	if isClosed(c.drained) {
		return false
	}
	c.spread.set(spread)
	close(c.drained)
	return true
}

func (c *closing) stop() {
	if !isClosed(c.stopped) {
		close(c.stopped)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
