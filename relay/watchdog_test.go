package relay

import (
	"context"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/notify"
)

// visits waits until the watchdog visits something, and returns what it says of it later.
func (r *running) visits(part string) string {
	r.Helper()
	w := &r.relay.watchdog
	for {
		w.mu.Lock()
		at := w.at
		w.mu.Unlock()
		if strings.Contains(at, part) {
			what, _ := w.stuck(time.Now().Add(stuckAfter))
			return what
		}
		runtime.Gosched() // a round begins every two seconds
	}
}

// A lock that is not released, and a loop that does not turn, are named. Idle ones are not.
func TestLive_SUR5(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1"})
	r := run(t, configOf(upstreamAt("a", a.address)))
	c := r.join("client")
	c.holds(contents{"x": "1"})
	s := r.sessionOf()
	unlock := holdLock(s.store)
	if got := r.visits("the lock of the store"); !strings.HasPrefix(got, `the lock of the store of upstream "a"`) {
		t.Errorf("stuck is %q", got)
	}
	unlock()
	r.relay.ahead.mu.Lock()
	notify.Signal(r.relay.ahead.bell)
	if got := r.visits("fetches ahead"); got != "the loop that fetches ahead" {
		t.Errorf("stuck is %q", got)
	}
	r.relay.ahead.mu.Unlock()
	s.client.replace(&hanging{feed: s.client.current(), began: make(chan struct{})})
	if got := r.visits("the loop of the session"); !strings.HasPrefix(got, `the loop of the session of upstream "a"`) {
		t.Errorf("stuck is %q", got)
	}
	r.shows("/livez", "ok\n") // not for ten seconds yet
}

// hanging is a feed whose loop does not turn.
type hanging struct {
	feed

	began chan struct{}
}

func (h *hanging) Run(ctx context.Context) error {
	close(h.began)
	<-ctx.Done()
	return ctx.Err()
}

func (h *hanging) Turn(ctx context.Context, _ func() bool) { <-ctx.Done() }

// What makes no progress for ten seconds is told until it does.
func TestWatchdog_SUR5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(Relay)
		page := func() (int, string) {
			w := httptest.NewRecorder()
			adminPort{relay: r}.serveLive(w, nil)
			return w.Code, w.Body.String()
		}
		live := func(want bool, what string) {
			t.Helper()
			if code, body := page(); (code == 200) != want || !strings.Contains(body, what) {
				t.Errorf("%d %s", code, body)
			}
		}
		live(true, "ok")
		release := make(chan struct{})
		go r.watchdog.visit("a lock", func() { <-release })
		synctest.Wait()
		<-time.After(stuckAfter - time.Nanosecond)
		live(true, "ok")
		<-time.After(time.Nanosecond)
		live(false, "no progress since 2000-01-01T00:00:00Z: a lock\n")
		close(release)
		synctest.Wait()
		live(true, "ok")

		r.watchdog.senders(7, true)
		for range 5 { // the queue moves
			<-time.After(stuckAfter / 2)
			r.watchdog.senders(r.watchdog.taken+1, true)
		}
		live(true, "ok")
		<-time.After(stuckAfter)
		live(true, "ok") // nobody has looked since
		r.watchdog.senders(r.watchdog.taken, true)
		live(false, "the senders")
		r.watchdog.senders(r.watchdog.taken, false)
		live(true, "ok")
	})
}

// holdLock takes a store's lock for writing until unlock is called.
func holdLock(s *cache.Store) (unlock func()) {
	held, release, released := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(released)
		s.Edit(func() {
			close(held)
			<-release
		})
	}()
	<-held
	return func() {
		close(release)
		<-released
	}
}
