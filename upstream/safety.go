package upstream

import (
	"context"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// safety keeps a panic to the session that caused it (SUR-6). Any goroutine may use it.
type safety struct {
	panics *logs.Panics // nil: no panic is caught
	told   func()       // of SessionConfig.Suspect; may be nil
}

// suspect tells that the Store may be inconsistent.
func (s safety) suspect() {
	if s.told != nil {
		s.told()
	}
}

// try does one part of the work, whether other parts panic or not.
func (s safety) try(part logs.Part, f func()) { _ = s.panics.Do(part, f) }

// apply has the Store take a response. A panic rejects the response. The Store may have taken some
// of its resources.
func (s safety) apply(to Store, stream wire.StreamID, r *wire.Response, at time.Time) (reason error) {
	defer s.panics.Catch(logs.PartResponse, func(e *logs.PanicError) {
		s.suspect()
		reason = partlyTakenError{e}
	})
	return to.Apply(stream, r, at)
}

// ask has an asker ask. A panic in it is an error.
func (s safety) ask(ctx context.Context, a asker, x *replica, q *query, t terms) (answer *wire.Response, err error) {
	defer s.panics.Catch(logs.PartUpstream, func(e *logs.PanicError) { answer, err = nil, e })
	return a.ask(ctx, x, q, t)
}

// partlyTakenError is why a response is rejected whose taking panicked.
type partlyTakenError struct{ err *logs.PanicError }

func (p partlyTakenError) Error() string { return p.err.Error() }
func (p partlyTakenError) Unwrap() error { return p.err }

// Partial reports that the resources before the fault are cached.
func (partlyTakenError) Partial() bool { return true }
