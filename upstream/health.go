package upstream

import (
	"sync"
	"time"
)

// health is what the sessions of one control plane tell each other of its endpoints,
// so that a thousand scopes do not find out by themselves that one is gone.
type health struct {
	mu     sync.Mutex
	failed []time.Time // by endpoint: when it was last found unreachable, zero if it was reached since
}

func newHealth(endpoints int) *health { return &health{failed: make([]time.Time, endpoints)} }

// found notes whether an endpoint could be reached, for the other sessions.
func (h *health) found(endpoint int, reachable bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if reachable {
		h.failed[endpoint] = time.Time{}
		return
	}
	h.failed[endpoint] = time.Now()
}

// failedWithin says whether an endpoint was found unreachable in the last d and
// not reached since.
func (h *health) failedWithin(endpoint int, d time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.failed[endpoint]
	return !at.IsZero() && time.Since(at) < d
}

// best is the endpoint for a session to begin with: the first that is not known
// to be unreachable, so that a new scope does not wait for the connect timeout
// of an endpoint of which the others know.
func (h *health) best(failback time.Duration) int {
	for i := range h.failed {
		if !h.failedWithin(i, 2*failback) {
			return i
		}
	}
	return 0
}
