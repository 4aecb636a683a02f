package relay

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/retry"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

const (
	// stuckAfter is how long a lock or a loop may make no progress (SUR-5).
	stuckAfter = 10 * time.Second
	// roundPause is the time between two rounds, and visitsAtOnce how many sessions are visited
	// before a short rest: with 100,000 sessions a round takes a minute.
	roundPause   = 2 * time.Second
	visitsAtOnce = 100
	visitsRest   = 50 * time.Millisecond
)

// watchdog notices locks that nobody releases and loops that do not turn (SUR-5). It costs them
// nothing: one goroutine visits one after the other. It takes the lock and releases it, or has the
// loop run an empty function. A loop that waits for work runs that at once. The visit that does not
// end says what is stuck. Its methods may be called from any goroutine.
type watchdog struct {
	mu    sync.Mutex
	at    string    // guarded by mu; what is visited now; "": nothing
	since time.Time // guarded by mu; of the visit
	taken uint64    // guarded by mu; streams that the senders had taken at moved
	moved time.Time // guarded by mu; when the senders' queue was seen to move last, or empty
	rests time.Time // guarded by mu; when the senders' queue was looked at last
}

// visit notes what is visited now, and does it.
func (w *watchdog) visit(what string, f func()) {
	w.note(what)
	defer w.note("") // a visit that panics has ended as well
	f()
}

func (w *watchdog) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.since = what, time.Now()
}

// senders notes whether the queue of streams with something to send moves.
func (w *watchdog) senders(taken uint64, waiting bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rests = time.Now(); !waiting || taken != w.taken || w.moved.IsZero() {
		w.taken, w.moved = taken, w.rests
	}
}

// stuck says what makes no progress, and since when; "" if nothing is known to be.
func (w *watchdog) stuck(now time.Time) (what string, since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.at != "" && now.Sub(w.since) >= stuckAfter:
		return w.at, w.since
	case w.rests.Sub(w.moved) >= stuckAfter:
		return "the senders", w.moved
	}
	return "", time.Time{}
}

// watch visits everything again and again until ctx ends. It does not wait for a visit that does not
// end: the process could not stop.
func (r *Relay) watch(ctx context.Context) {
	done := make(chan struct{})
	go func() { // not waited for, if it is stuck
		defer close(done)
		r.panics.Loop(ctx, logs.PartBackground, func() { r.rounds(ctx) })
	}()
	select {
	case <-done:
	case <-ctx.Done():
		timer := time.NewTimer(stuckAfter)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		}
	}
}

func (r *Relay) rounds(ctx context.Context) {
	for retry.Sleep(ctx, roundPause) {
		r.round(ctx)
	}
}

// round visits each lock and loop once.
func (r *Relay) round(ctx context.Context) {
	w := &r.watchdog
	var sessions []*session
	w.visit("the lock of the sessions", func() { sessions = r.hub.list() })
	w.visit("the lock of the streams", r.server.Turn)
	w.senders(r.server.Sending())
	w.visit("the lock of the cache", func() { r.cache.Unwatched() })
	w.visit("the loop that fetches ahead", func() { r.ahead.turn(ctx) })
	for i, s := range sessions {
		if i%visitsAtOnce == visitsAtOnce-1 && !retry.Sleep(ctx, visitsRest) {
			return
		}
		name := fmt.Sprintf("upstream %q, scope %.256q", s.key.plane, s.key.scope)
		w.visit("the lock of the store of "+name, s.store.Turn)
		w.visit("the loop of the session of "+name, func() { s.client.turn(ctx, s.done) })
	}
}

// turn waits until the feed's loop has turned, ctx ends, or the session has ended. A feed that is
// being replaced does not count.
func (s *supply) turn(ctx context.Context, done <-chan struct{}) {
	f, ok := s.current().(interface {
		Turn(ctx context.Context, gone func() bool)
	})
	if !ok {
		return
	}
	now := s.current()
	f.Turn(ctx, func() bool {
		select {
		case <-done:
			return true
		default:
			return s.current() != now
		}
	})
}

// serveLive answers whether each lock and loop made progress.
func (a adminPort) serveLive(w http.ResponseWriter, _ *http.Request) {
	now := time.Now()
	what, since := a.relay.watchdog.stuck(now)
	if what == "" {
		admin.Text(w, http.StatusOK, "ok\n")
		return
	}
	admin.Text(w, http.StatusServiceUnavailable, fmt.Sprintf("no progress since %s: %s\n", since.UTC().Format(time.RFC3339), what))
}
