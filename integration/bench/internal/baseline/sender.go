package baseline

import (
	"slices"
	"sync"
	"sync/atomic"
)

// sender writes updates to its share of the streams.
type sender struct {
	kick chan struct{} // one slot: there may be something to send

	mu   sync.Mutex
	new  []*follower      // guarded by mu
	left map[*stream]bool // guarded by mu; nil: none
}

// follower is a stream that is sent the updates of one type.
type follower struct {
	stream *stream
	at     *update // the last one that it was sent
	gone   atomic.Bool
}

func (s *sender) follow(f *follower) {
	s.mu.Lock()
	s.new = append(s.new, f)
	s.mu.Unlock()
	s.ring() // updates may have come since it was told the first state
}

func (s *sender) leave(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == nil {
		s.left = make(map[*stream]bool)
	}
	s.left[st] = true
}

func (s *sender) ring() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

func (s *sender) run(stop <-chan struct{}) {
	var followers []*follower
	for {
		select {
		case <-s.kick:
		case <-stop:
			return
		}
		for sent := true; sent; {
			followers = s.present(followers)
			sent = false
			for _, f := range followers {
				sent = f.pass() || sent
			}
		}
	}
}

// present brings the list of followers up to date.
func (s *sender) present(followers []*follower) []*follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	followers = append(followers, s.new...)
	s.new = nil
	followers = slices.DeleteFunc(followers, func(f *follower) bool { return f.gone.Load() || s.left[f.stream] })
	s.left = nil
	return followers
}

// pass sends all that is new, and tells whether anything was.
func (f *follower) pass() bool {
	next := f.at.next.Load()
	if next == nil || f.gone.Load() {
		return false
	}
	for ; next != nil; next = f.at.next.Load() {
		f.at = next
		m := next.delta
		if f.stream.state {
			m = next.state
		}
		if err := f.stream.send(m); err != nil {
			return false // it ended: it is taken out when its handler has noticed
		}
	}
	return true
}
