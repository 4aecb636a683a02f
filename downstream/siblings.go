package downstream

import (
	"sync"
	"time"
)

// Many clients have a stream for each type. What they reject on one stream may be good since they
// accepted something on another (ACK-3). No stream sees both, so siblings does: streams of one
// node. It keeps nothing of clients that reject nothing, but for a short while after they accepted
// something.
type siblings struct {
	mu        sync.Mutex
	rejecting map[string]map[sibling]bool // by node ID: streams that reject something, and whether there is a reason to offer it again
	accepted  map[string]time.Time        // by node ID: when a stream of one type accepted something that others may refer to
	before    map[string]time.Time        // those of the window before
}

// sibling is a stream.
type sibling interface{ ring() }

// acceptedWindow is for how long it is known at least that a client accepted something: the
// rejection of what the client was sent before may come later.
const acceptedWindow = 10 * time.Second

// accepts notes that a stream accepted something that others may refer to, and rings those of the
// same node that reject something.
func (s *siblings) accepts(node string, st sibling, now time.Time) {
	if node == "" {
		return // it may be that of many clients
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.accepted == nil {
		s.accepted = make(map[string]time.Time)
		if s.before == nil {
			time.AfterFunc(acceptedWindow, s.turn)
		}
	}
	s.accepted[node] = now
	for other := range s.rejecting[node] {
		if other != st {
			s.rejecting[node][other] = true
			other.ring()
		}
	}
}

// turn forgets what was accepted before the last window.
func (s *siblings) turn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.accepted = s.accepted, nil
	if s.before != nil {
		time.AfterFunc(acceptedWindow, s.turn)
	}
}

// rejects notes that a stream rejected a response that was sent at a time. It reports whether the
// node has accepted something on another stream since.
func (s *siblings) rejects(node string, st sibling, sent time.Time) (reason bool) {
	if node == "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rejecting == nil {
		s.rejecting = make(map[string]map[sibling]bool)
	}
	if s.rejecting[node] == nil {
		s.rejecting[node] = make(map[sibling]bool)
	}
	s.rejecting[node][st] = false
	return s.accepted[node].After(sent) || s.before[node].After(sent)
}

// reason reports whether there is a new reason to offer again what a stream rejects.
func (s *siblings) reason(node string, st sibling) (is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is = s.rejecting[node][st]; is {
		s.rejecting[node][st] = false
	}
	return is
}

// leave forgets a stream that rejects nothing any more.
func (s *siblings) leave(node string, st sibling) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rejecting[node], st)
	if len(s.rejecting[node]) == 0 {
		delete(s.rejecting, node)
	}
}
