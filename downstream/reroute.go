package downstream

import (
	"time"

	"github.com/xdsrelay/xdsrelay/downstream/delivery"
)

// reroute compares where the stream's names live with the plan in force, if that is a new one. If a
// name moved, or the stream is to be served 1:1, it ends at a random moment within the spread of Reroute. If the client may not
// be served any more, it ends at once.
func (st *stream) reroute() {
	next, with := st.routing.next(&st.shared.plans)
	reason := EndUnverified
	switch {
	case with != nil:
	case next == nil:
		return
	default:
		var moved bool
		passes := st.passes(next)
		if reason, moved = st.types.moved(st.routing.routes, next, st.subscriber.Places()); !moved && !passes && st.departure == nil {
			st.routing.adopt(next)
			st.subscriber.JudgedBy(judgeOf(next.Access()), false)
			st.standing.edit(func() { st.standing.scope = next.Scope() })
			return
		}
		st.routing.narrow(next, nil)
		st.subscriber.JudgedBy(judgeOf(st.routing.routes.Access()), true)
		next.Close()
		switch with = errMoved; {
		case passes && !reason.refuses():
			with, reason = errPassed, EndMoved
		case reason == EndNarrowed:
			with = errNarrowed
		}
	}
	if st.departure != nil {
		if !reason.refuses() {
			return
		}
		st.departure.Stop()
	}
	st.shared.observer.Moved(st.variant.String())
	st.departure = time.AfterFunc(st.shared.plans.moment(reason), func() {
		if st.link.close(with) == with { //nolint:errorlint // the very error: whether this ended the stream
			st.shared.observer.MoveEnded(reason)
		}
	})
	st.standing.edit(func() { st.standing.leaving = true })
}

// moved reports whether other routes lead any of the stream's names to another store, or let the
// client have other names, and why the stream has to end then.
func (ts *types) moved(now, next Routes, places []*delivery.Place) (MoveEnd, bool) {
	for _, t := range ts.list {
		if differs(now, next, t.url) {
			return EndNarrowed, true
		}
		for _, place := range places {
			for name := range place.Subscriptions(t.url) {
				if reason, moved := moved(next, t.url, name, place.Store()); moved {
					return reason, true
				}
			}
		}
		for name, code := range t.refusals.names {
			if passing(code) {
				continue
			}
			if reason, moved := moved(next, t.url, name, nil); moved {
				return reason, true
			}
		}
	}
	return "", false
}
