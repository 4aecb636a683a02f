package downstream

import (
	"runtime"
	"sync"
)

// senders send what streams lack. A stream's own goroutine reads; that there is something
// to send comes from elsewhere, for thousands of streams at once. So they queue, and a few
// goroutines take their turns for them, which exist while there is a queue.
//
// They must not wait for one client. A goroutine that may have to (stream.mayBlock) leaves
// the queue to others first: from then on it is that stream's, until it is done with it.
type senders struct {
	most int // how many serve the queue

	mu      sync.Mutex // guards what follows
	done    sync.Cond  // running is zero
	queue   []*stream
	head    int // where the queue begins
	serving int
	running int // with those that have left
	stopped bool
}

// sender is one of them.
type sender struct {
	senders *senders
	left    bool // it serves one stream only
}

func newSenders() *senders {
	s := &senders{most: runtime.GOMAXPROCS(0)}
	s.done.L = &s.mu
	return s
}

// push has a stream attended to, when its time comes.
func (s *senders) push(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	if len(s.queue) == cap(s.queue) && s.head >= len(s.queue)/2 { // else it would move too often
		n := copy(s.queue, s.queue[s.head:])
		clear(s.queue[n:])
		s.queue, s.head = s.queue[:n], 0
	}
	s.queue = append(s.queue, st)
	s.startLocked()
}

// startLocked starts a sender if there are fewer than there may be.
func (s *senders) startLocked() {
	if s.serving < s.most {
		s.serving++
		s.running++
		go (&sender{senders: s}).run()
	}
}

// nextLocked gives the stream whose turn it is; nil if nobody waits.
func (s *senders) nextLocked() *stream {
	if s.head == len(s.queue) {
		s.queue, s.head = s.queue[:0], 0
		return nil
	}
	st := s.queue[s.head]
	s.queue[s.head] = nil
	s.head++
	return st
}

// run serves the queue until it is empty, or others do who came when it left.
func (w *sender) run() {
	for st := w.next(); st != nil; st = w.next() {
		st.attend(w)
	}
}

// next gives the stream that is to be attended to; nil if the sender has nothing to do any
// more.
func (w *sender) next() *stream {
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

// leave has others serve the queue.
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

// stop attends to nobody any more, and waits for those that are attended to.
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
