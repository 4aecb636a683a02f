package load

import (
	"context"
	"runtime"
)

// Turns has works done a few at a time that each compute for somebody else (LIM-2). Go gives all goroutines
// that can run the same part of a processor, and those that are woken wait for all others: thousands of works
// of one party would have each step of every other party's work wait. With Turns the others wait for a few
// works. Its methods may be called from any goroutine.
type Turns struct {
	places places
	queue  queue
}

// NewTurns makes one for the processors of the process.
func NewTurns() *Turns { return newTurns(max(2, runtime.GOMAXPROCS(0))) }

func newTurns(places int) *Turns {
	t := new(Turns)
	t.places.most, t.places.next, t.places.wait = places, t.queue.first, func() int { return t.queue.n }
	return t
}

// Stint is a work's turn.
type Stint struct {
	of   *places
	seat seat
}

// Take waits for a turn, as long as ctx lasts, whose error it gives. Without one Done is to be called.
func (t *Turns) Take(ctx context.Context, from From) (*Stint, error) {
	s := &Stint{of: &t.places}
	if err := t.places.take(ctx, &s.seat, &t.queue, from, 0); err != nil {
		return nil, err
	}
	return s, nil
}

// Done ends the turn. The goroutine that calls it need not be that of Take.
func (s *Stint) Done() { s.of.release(&s.seat) }
