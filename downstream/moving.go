package downstream

import (
	"log/slog"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// MoveEnd is why a stream ended whose subscriptions were to be moved. It is a metric's
// label.
type MoveEnd string

// The reasons.
const (
	EndStranded MoveEnd = "stranded" // it holds what its variant has no word to remove (RES-3)
	EndRefused  MoveEnd = "refused"  // the aggregation rules refuse the client now (AGG-2)
	EndFailed   MoveEnd = "failed"   // nobody could say where its names live now
)

// MoveEnds lists every MoveEnd.
func MoveEnds() []MoveEnd { return []MoveEnd{EndStranded, EndRefused, EndFailed} }

// partingTime is what a client is given to unsubscribe from what is not in its lists any
// more, before its stream ends since it still holds that.
const partingTime = time.Second

// moved notes that the stream's subscriptions live elsewhere now, or where they did.
func (st *stream) moved() {
	st.moving = true
	for _, t := range st.types {
		t.given = false
	}
	st.mu.Lock()
	st.status.moved++
	st.mu.Unlock()
	st.server.observer.Moved(st.variant.String())
	st.log(slog.LevelDebug).Debug("stream moved", "scope", st.routes.Scope())
}

// arrange puts what is left of other scopes into its order (cache.Arrange).
func (st *stream) arrange() cache.Arrangement {
	if !st.moving && st.shown == st.plan {
		return cache.Arrangement{}
	}
	var a cache.Arrangement
	if st.moving {
		a = cache.Arrange(st.order, st.settled)
		st.moving = a.Left > 0
	}
	st.mu.Lock()
	st.status.moving, st.shown = a.Left, st.plan
	st.mu.Unlock()
	return a
}

// settled reports whether the client has acknowledged all of a type that was there for it
// when it was first given everything after the move.
func (st *stream) settled(typeURL string, given bool) bool {
	t := st.typed(typeURL)
	if !t.given {
		if !given {
			return false
		}
		t.given, t.givenAt = true, t.sent
	}
	return t.acked >= t.givenAt || t.released
}

// strand notes a name that is not served any more and that the client holds.
func (t *typeState) strand(spelling string) {
	if t.listed.stranded == nil {
		t.listed.stranded = make(map[string]bool)
	}
	t.listed.stranded[spelling] = true
}

// stranded gives something of another scope that the client has no word for that it is
// gone, and still subscribes to.
func (st *stream) stranded() (typeURL, name string, found bool) {
	for _, t := range st.types {
		for name := range t.listed.stranded {
			return t.url, name, true
		}
	}
	if !st.moving {
		return "", "", false
	}
	for _, c := range st.order {
		if typeURL, name, found = c.Stranded(); found {
			return typeURL, name, true
		}
	}
	return "", "", false
}

// part ends the stream of a client that holds what it cannot be told is gone. Usually it
// lets go of that by itself, once it was sent the lists that do not need it any more: it
// gets the chance. It returns how long that lasts, zero if there is nothing to wait for.
func (st *stream) part(a cache.Arrangement, now time.Time) (time.Duration, error) {
	typeURL, name, found := st.stranded()
	if !found || a.Lists > 0 {
		st.listed, st.parting = time.Time{}, time.Time{}
		return 0, nil
	}
	if st.listed.IsZero() {
		st.listed = now
		for _, t := range st.types {
			t.listedAt = t.sent
		}
	}
	if st.parting.IsZero() {
		if st.listsBusy(now) {
			return 0, nil
		}
		st.parting = now
	}
	if left := st.parting.Add(partingTime).Sub(now); left > 0 {
		return left, nil
	}
	st.server.observer.MoveEnded(EndStranded)
	return 0, status.Errorf(codes.Unavailable,
		"moved to another scope, which has no %q of type %s: start afresh", clip(name), clip(typeURL))
}

// listsBusy reports whether a list of a full-state type that has nothing of another scope is
// not acknowledged, nor overdue. Later ones do not count: where updates never rest there
// always is one.
func (st *stream) listsBusy(now time.Time) bool {
	if !now.Before(st.listed.Add(st.server.limits.Load().AckTimeout)) {
		return false
	}
	for _, t := range st.types {
		if st.server.config.FullState[t.url] && t.busy() && t.acked < t.listedAt {
			return true
		}
	}
	return false
}
