package downstream

import (
	"time"

	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"google.golang.org/grpc/codes"
)

// reroute compares where the stream's names live with the plan in force, if that is a new one. If a
// name moved, or the client may not present its node any more, the stream ends at a random moment
// within the spread of Reroute.
func (st *stream) reroute() {
	if st.departure != nil {
		return
	}
	next, with := st.routing.next(&st.shared.plans)
	reason := EndUnverified
	switch {
	case with != nil:
	case next == nil:
		return
	default:
		var moved bool
		if reason, moved = st.types.moved(next, st.subscriber.Places()); !moved {
			st.routing.adopt(next)
			st.standing.edit(func() { st.standing.scope = next.Scope() })
			return
		}
		next.Close()
		with = errMoved
	}
	st.shared.observer.Moved(st.variant.String())
	st.departure = time.AfterFunc(st.shared.plans.spread.moment(), func() {
		if st.link.close(with) == with { //nolint:errorlint // the very error: whether this ended the stream
			st.shared.observer.MoveEnded(reason)
		}
	})
	st.standing.edit(func() { st.standing.leaving = true })
}

// moved reports whether other routes lead any of the stream's names to another store, and why the
// stream has to end then.
func (ts *types) moved(next Routes, places []*delivery.Place) (MoveEnd, bool) {
	for _, t := range ts.list {
		for _, place := range places {
			for name := range place.Subscriptions(t.url) {
				if reason, moved := moved(next, t.url, name, place.Store()); moved {
					return reason, true
				}
			}
		}
		for name, code := range t.refusals.names {
			if code == codes.ResourceExhausted {
				continue
			}
			if reason, moved := moved(next, t.url, name, nil); moved {
				return reason, true
			}
		}
	}
	return "", false
}
