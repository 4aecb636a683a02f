package downstream

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/ack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A stream keeps its plan of where names live until it ends. When another plan is in
// force, the stream compares: if each of its names lives in the same store, the stream adopts
// the plan. If not, the stream ends with UNAVAILABLE at a random moment within the spread
// of Reroute. Then the client connects again, and the new plan serves it. The relay never
// moves a live stream between stores. Held polls do the same: they are answered with 304.
// A client that may not present its node by the new plan, or that the plan gives no scope, is ended at once, with
// PERMISSION_DENIED.

var errMoved = Moved("the configuration changed where resources of this stream come from: connect again")

// movedError ends the stream of a client that is to come again, since the configuration changed for it.
type movedError struct{ text string }

// Moved makes the status with which such a stream ends. Among those that are gone the stream has the reason [WhyMoved].
func Moved(text string) error { return &movedError{text} }

func (e *movedError) Error() string { return e.text }

// GRPCStatus is what the status package asks errors for.
func (e *movedError) GRPCStatus() *status.Status { return status.New(codes.Unavailable, e.text) }

func isMoved(err error) bool {
	_, is := errors.AsType[*movedError](err)
	return is
}

// plans counts the plans that were in force.
type plans struct {
	number atomic.Uint64
	spread stagger // over which streams and polls end that the plan in force moves
}

// moment is how long a stream or poll stays that ends for a reason: clients that are refused have no time.
func (p *plans) moment(reason MoveEnd) time.Duration {
	if reason.refuses() {
		return 0
	}
	return p.spread.moment()
}

// routing is where the names of one stream or poll live.
type routing struct {
	routes Routes // nil before the first request
	plan   uint64 // plans.number at the last comparison
}

// next returns the routes of the plan in force, if the plan is a new one. The caller adopts or
// closes them. nil: there is nothing to compare. The error is a status, with which the stream or
// poll ends: the new plan does not let the client present its node (ACC-5).
func (r *routing) next(p *plans) (Routes, error) {
	plan := p.number.Load()
	if plan == r.plan {
		return nil, nil
	}
	r.plan = plan
	if r.routes == nil {
		return nil, nil
	}
	return r.routes.Reopen()
}

// adopt replaces the routes.
func (r *routing) adopt(next Routes) {
	r.routes.Close()
	r.routes = next
}

// tell tells the control planes whose content a response has how the client answered (ACK-7). If a
// rejected response has content of several control planes, the relay does not know which of them
// the rejection is for, and tells none. f is the flow of the response's type; nil for a poll.
func (r *routing) tell(w ack.Outcome, parts []delivery.Part, f *flow) {
	if w.Kind == ack.Rejected && len(parts) > 1 {
		return
	}
	for _, part := range parts {
		w.Of, w.Open = part.Content, 0
		if w.Kind != ack.Rejected && f != nil {
			w.Open = f.open(part.Store)
		}
		r.routes.Tell(part.Store, w)
	}
}

// moved compares the store of a name, nil if the relay refuses the name, with the store that
// other routes lead to. It reports whether these differ, and why a stream ends then.
func moved(next Routes, typeURL, name string, at *cache.Store) (reason MoveEnd, moved bool) {
	store, _, err := locate(next, typeURL, name)
	switch {
	case unserved(err):
		store = nil
	case status.Code(err) == codes.PermissionDenied:
		return EndRefused, true
	case err != nil:
		return EndMoved, true
	}
	return EndMoved, store != at
}
