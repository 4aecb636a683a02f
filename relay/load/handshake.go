package load

import (
	"context"
	"errors"
	"time"
)

// Shake is the handshake of a connection. It has a place while it computes, and none while it waits for the
// client: a client that is slow, or never goes on, keeps nobody else waiting.
type Shake struct {
	ctx   context.Context // of its waits
	turn  Turn
	begun bool
	took  time.Duration // without the time in which the client was silent
}

// Handshake begins one that has no place yet, and waits for one until ctx ends. End is to be called.
func (a *Admission) Handshake(ctx context.Context) *Shake {
	return &Shake{ctx: ctx, turn: Turn{of: a, work: Handshake}}
}

// Pause is to be called before the client is waited for.
func (s *Shake) Pause() {
	s.turn.release()
	if !s.turn.came.IsZero() {
		s.took += time.Since(s.turn.came)
		s.turn.came = time.Time{}
	}
}

// Resume is to be called when the client has sent something. The error ends the handshake: it is ErrLate,
// ErrMemory, ErrClosed or that of the context.
func (s *Shake) Resume() error {
	a := s.turn.of
	s.turn.came = time.Now()
	if s.begun {
		return s.turn.take(s.ctx, &a.places.queues.begun, From{}, helloWait)
	}
	s.begun = true
	err := s.turn.take(s.ctx, &a.places.queues.hellos, From{}, helloWait)
	switch {
	case errors.Is(err, ErrLate):
		a.observer.Refused(Handshake, Late)
	case err == nil && a.memory.Level() >= Full: // a connection takes more memory than a stream, and the wait may have been long
		a.observer.Refused(Handshake, NoMemory)
		return ErrMemory
	}
	return err
}

// End ends the handshake.
func (s *Shake) End(done bool) {
	s.Pause()
	if done {
		s.turn.of.observer.Admitted(Handshake, s.took)
	}
}
