package downstream

import (
	"math/rand/v2"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A stream keeps its plan of where names live until it ends. When another plan is in
// force, the stream compares: if each of its names lives where it lived, the stream adopts
// the plan. If not, the stream ends with UNAVAILABLE at a random moment within the spread
// that Reroute is given, and the client connects again and is served by the new plan.
// Nothing is moved between stores under a live stream. Held polls do the same: they are
// answered 304.

// MoveEnd is why a stream ends after the plan changed. It is a metric's label.
type MoveEnd string

// The reasons.
const (
	EndMoved   MoveEnd = "moved"   // something that it subscribes to lives elsewhere, or is served only now
	EndRefused MoveEnd = "refused" // the aggregation rules refuse the client now (AGG-2)
)

// MoveEnds lists every MoveEnd.
func MoveEnds() []MoveEnd { return []MoveEnd{EndMoved, EndRefused} }

var errMoved = status.Error(codes.Unavailable, "the configuration changed where resources of this stream come from: connect again")

// Reroute has every stream and every held poll compare where its names live, since the
// router answers by another plan from now on. Those whose names moved end at random
// moments within spread. Reroute returns at once.
func (s *Server) Reroute(spread time.Duration) {
	s.moveSpread.Store(int64(max(0, spread)))
	s.plans.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		st.ring()
	}
	for _, p := range s.polls {
		p.ring()
	}
}

// movesIn gives the moment, from now, at which a stream or a poll ends that has to move.
func (s *Server) movesIn() time.Duration {
	return rand.N(time.Duration(s.moveSpread.Load()) + 1) //nolint:gosec // spreading, not secrecy
}

// reroute compares where the stream's names live with the plan in force, if that is
// another one than the stream has.
func (st *stream) reroute() {
	plan := st.server.plans.Load()
	if plan == st.plan {
		return
	}
	st.plan = plan
	if st.routes == nil || st.departure != nil {
		return
	}
	next := st.routes.Reopen()
	if next == nil {
		return
	}
	reason, moved := st.compare(next)
	if !moved {
		st.routes.Close()
		st.routes = next
		st.mu.Lock()
		st.status.scope = next.Scope()
		st.mu.Unlock()
		return
	}
	next.Close()
	st.server.observer.Moved(st.variant.String())
	st.departure = time.AfterFunc(st.server.movesIn(), func() {
		if st.end(errMoved) == errMoved { //nolint:errorlint // the very error: whether this ended the stream
			st.server.observer.MoveEnded(reason)
		}
	})
	st.mu.Lock()
	st.status.leaving = true
	st.mu.Unlock()
}

// compare reports whether another plan leads any of the stream's names elsewhere, and why
// the stream has to end then.
func (st *stream) compare(next Routes) (reason MoveEnd, moved bool) {
	for _, t := range st.types {
		for _, c := range st.stores() {
			for name := range c.Subscriptions(t.url) {
				if reason, moved = lives(next, t.url, name, c.Store()); moved {
					return reason, true
				}
			}
		}
		for name, code := range t.listed.denied {
			if code == codes.ResourceExhausted {
				continue
			}
			if reason, moved = lives(next, t.url, name, nil); moved {
				return reason, true
			}
		}
		for name := range t.unserved {
			if reason, moved = lives(next, t.url, name, nil); moved {
				return reason, true
			}
		}
	}
	return "", false
}

// lives compares the store of a name, nil where the relay refuses it, with the one that
// routes lead to.
func lives(routes Routes, typeURL, name string, at *cache.Store) (reason MoveEnd, moved bool) {
	store, _, err := locate(routes, typeURL, name)
	switch {
	case refusal(err) != nil:
		store = nil
	case status.Code(err) == codes.PermissionDenied:
		return EndRefused, true
	case err != nil:
		return EndMoved, true
	}
	return EndMoved, store != at
}

// counted notes how many subscriptions there are more.
func (st *stream) counted(t *typeState, delta int) {
	t.subscriptions += delta
	st.mu.Lock()
	t.status.Subscriptions = t.subscriptions
	st.status.scope = st.routes.Scope()
	st.mu.Unlock()
	st.server.observer.Subscribed(t.url, delta)
}

// reroute compares where the poll's names live with the plan in force, if that is another
// one than the poll has. It reports whether the poll has to move.
func (p *poll) reroute() (moved bool) {
	plan := p.server.plans.Load()
	if plan == p.plan {
		return false
	}
	p.plan = plan
	next := p.routes.Reopen()
	if next == nil {
		return false
	}
	if p.compare(next) {
		next.Close()
		p.server.observer.Moved(REST)
		return true
	}
	p.routes.Close()
	p.routes = next
	return false
}

// compare reports whether another plan leads any of the poll's names elsewhere.
func (p *poll) compare(next Routes) bool {
	typeURL := p.request.GetTypeUrl()
	for _, name := range p.asked() {
		var at *cache.Store
		for _, c := range p.places {
			if c.Subscribed(typeURL, name) {
				at = c.Store()
			}
		}
		if _, moved := lives(next, typeURL, name, at); moved {
			return true
		}
	}
	return false
}
