package downstream

import (
	"errors"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"google.golang.org/grpc/codes"
)

// Clients that do not read hold nobody up, however many there are and however much waits
// for them: not the few senders that all streams share.
func TestSenders_OPS3_WaitForNobody(t *testing.T) {
	for _, size := range []int{10, 1 << 10, 100 << 10} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			bubble(t, func(h *harness) {
				h.sized("0", 1, size)
				var deaf []*client
				for range 2*runtime.GOMAXPROCS(0) + 2 {
					h.conn = nil // a connection each
					c := h.deafClient()
					c.subscribe(clusterType)
					deaf = append(deaf, c)
				}
				h.conn = nil
				quick := h.client()
				quick.subscribe(clusterType)
				for i := 1; i < 30; i++ {
					h.sized(strconv.Itoa(i), 1, size)
					h.quiet()
					if got := holds(quick.all)["r0000"]; got != strconv.Itoa(i) {
						t.Fatalf("holds version %s after update %d", got, i)
					}
					h.advance(ackWait) // the others are sent more, though they said nothing
				}
				s := h.server.shared.senders
				s.mu.Lock()
				blocked := s.running
				s.mu.Unlock()
				if s.serving != 0 || len(s.queue) != 0 || (size > writeQuota && blocked != len(deaf)) {
					t.Errorf("%d senders are left, %d of them serve the queue of %d", blocked, s.serving, len(s.queue))
				}
				h.conn = nil
				late := h.client()
				late.subscribe(clusterType)
				late.wants("Cluster +r0000=29")
			})
		})
	}
}

// A stream can be ended by whoever sends to it, while its reader waits for the client.
func TestEnd(t *testing.T) {
	bubble(t, func(h *harness) {
		h.opaque.set(clusterType, "1", "a")
		c := h.client()
		c.subscribe(clusterType)
		h.quiet()
		h.server.mu.Lock()
		st := slices.Collect(maps.Values(h.server.members))[0].(*stream)
		h.server.mu.Unlock()
		for _, reason := range []error{ErrDraining, nil} { // the first counts
			if err := st.link.close(reason); !errors.Is(err, ErrDraining) {
				t.Errorf("the reason is %v", err)
			}
		}
		c.endedWith(codes.Unavailable, "draining")
		st.ring() // as a store may that noticed a change before
		h.quiet()
		if n := len(h.server.Clients(nil, nil)); n != 0 {
			t.Errorf("%d streams are left", n)
		}
	})
}

// The reader waits until a sender is done, and who rings meanwhile is heard.
func TestOwnership(t *testing.T) {
	for range 1000 {
		var owner ownership
		count := 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 10 {
				for !owner.try() {
					runtime.Gosched()
				}
				count++
				owner.give()
			}
		}()
		for range 10 {
			owner.take()
			count++
			owner.give()
		}
		<-done
		if count != 20 {
			t.Fatalf("%d turns, expected 20", count)
		}
	}
}

// Requests have their turn before the next parts: a sender that comes back at once finds
// that it is the reader's, which has waited.
func TestOwnership_OPS5_Handed(t *testing.T) {
	var owner ownership
	read, done := make(chan struct{}), make(chan struct{})
	owner.take()
	go func() {
		defer close(done)
		owner.take()
		<-read
		owner.give()
	}()
	for owner.state.Load() != ownerAwaited {
		runtime.Gosched()
	}
	owner.give()
	if owner.try() {
		t.Error("the sender has taken it again")
		owner.give()
	}
	close(read)
	if <-done; !owner.try() {
		t.Error("it is not free when the reader is done")
	}
}

// Nobody is lost in the queue, whatever its length, and none is served after its end.
func TestSenders_Queue(t *testing.T) {
	s := newSenders()
	s.serving = s.most // nobody serves
	streams := make([]*stream, 100)
	for i := range streams {
		streams[i] = new(stream)
	}
	pushed, popped := 0, 0
	for round := range 1000 {
		for range round % 7 {
			s.push(streams[pushed%len(streams)])
			pushed++
		}
		for range (round + 3) % 7 {
			st := s.nextLocked()
			if st == nil {
				break
			}
			if st != streams[popped%len(streams)] {
				t.Fatalf("the stream at %d is another one", popped)
			}
			popped++
		}
	}
	for s.nextLocked() != nil {
		popped++
	}
	if pushed != popped || cap(s.queue) > 1024 {
		t.Errorf("%d came in and %d out, of a queue of %d", pushed, popped, cap(s.queue))
	}
	s.stop()
	if s.push(streams[0]); len(s.queue) != 0 {
		t.Error("a stream is in the queue after the end")
	}
	(*sender)(nil).leave() // the reader serves no queue
}
