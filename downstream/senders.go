package downstream

import (
	"runtime"
	"sync"
)

// senders send the responses that are due at other times than after a request. A change in a
// store may make thousands of streams due at once. So streams queue, and a few goroutines serve
// the queue. These exist while the queue is not empty.
//
// The senders must not wait for one client. A sender that may have to wait (unread.mayBlock)
// leaves the queue to others first. From then on it serves that stream only, until it is done.
type senders struct {
	most int // how many serve the queue

	mu      sync.Mutex // guards what follows
	done    sync.Cond  // running is zero
	queue   []attended
	head    int    // where the queue begins
	taken   uint64 // how many streams left the queue
	serving int
	running int // with those that have left the queue
	stopped bool
}

// attended is a stream: attend sends what is due.
type attended interface{ attend(by *sender) }

// sender is one goroutine of the senders.
type sender struct {
	senders *senders
	left    bool // it serves one stream only
}

func newSenders() *senders {
	s := &senders{most: runtime.GOMAXPROCS(0)}
	s.done.L = &s.mu
	return s
}

// push puts a stream into the queue.
func (s *senders) push(st attended) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	if len(s.queue) == cap(s.queue) && s.head >= len(s.queue)/2 { // otherwise the queue would move too often
		n := copy(s.queue, s.queue[s.head:])
		clear(s.queue[n:])
		s.queue, s.head = s.queue[:n], 0
	}
	s.queue = append(s.queue, st)
	s.startLocked()
}

// startLocked starts a sender if fewer than the most serve the queue.
func (s *senders) startLocked() {
	if s.serving < s.most {
		s.serving++
		s.running++
		go (&sender{senders: s}).run()
	}
}

// nextLocked takes the first stream from the queue; nil if the queue is empty.
func (s *senders) nextLocked() attended {
	if s.head == len(s.queue) {
		s.queue, s.head = s.queue[:0], 0
		return nil
	}
	st := s.queue[s.head]
	s.queue[s.head] = nil
	s.head++
	s.taken++
	return st
}

// progress returns how many streams left the queue, and whether one waits in it.
func (s *senders) progress() (taken uint64, waiting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken, s.head < len(s.queue)
}

// run serves the queue until it is empty. A sender that left the queue ends when it is done with
// its stream and others serve the queue.
func (w *sender) run() {
	for st := w.next(); st != nil; st = w.next() {
		st.attend(w)
	}
}

// next returns the stream to serve next; nil if the sender has to end.
func (w *sender) next() attended {
	s := w.senders
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.left && s.serving < s.most {
		w.left = false
		s.serving++
	}
	if !w.left {
		if st := s.nextLocked(); st != nil {
			return st
		}
		s.serving--
	}
	if s.running--; s.running == 0 {
		s.done.Broadcast()
	}
	return nil
}

// leave leaves the queue to others. A nil sender is the handler, which serves no queue.
func (w *sender) leave() {
	if w == nil || w.left {
		return
	}
	s := w.senders
	s.mu.Lock()
	defer s.mu.Unlock()
	w.left = true
	s.serving--
	if s.head < len(s.queue) {
		s.startLocked()
	}
}

// stop empties the queue, refuses streams from then on, and waits for the senders.
func (s *senders) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	clear(s.queue)
	s.queue, s.head = nil, 0
	for s.running > 0 {
		s.done.Wait()
	}
}
