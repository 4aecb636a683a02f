package relay

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// scoped is a session that a test uses for a while.
func scoped(t *testing.T, h *hub, scope string) *session {
	t.Helper()
	s, err := h.acquire(newcomer, sessionKey{plane: "plane", of: h.planes["plane"], scope: scope}, asItself, nil)
	if err != nil {
		t.Fatalf("%s: %v", scope, err)
	}
	return s
}

// There is room for so many scopes. Those that nobody uses make room, the one first that was used for
// the shortest time.
func TestRoom_LIM1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := testHub(t, false)
		h.room.most = 4
		used := scoped(t, h, "used")
		for _, is := range []struct {
			scope string
			while time.Duration
		}{{"long", 3 * time.Second}, {"short", 2 * time.Second}, {"longest", 4 * time.Second}} {
			s := scoped(t, h, is.scope)
			pass(is.while)
			h.mu.Lock()
			s.polled = true // so that it stays for the linger
			h.mu.Unlock()
			h.release(s)
		}
		pass(pollPause) // after this long it makes room nevertheless
		for _, gone := range []string{"short", "long", "longest"} {
			scoped(t, h, "in place of "+gone)
			if s := h.sessions[sessionKey{plane: "plane", of: h.planes["plane"], scope: gone}]; s != nil {
				t.Errorf("%q is there", gone)
			}
			if n := len(h.all()); n != 4 {
				t.Errorf("%d sessions, want 4", n)
			}
		}
		refused := func() {
			t.Helper()
			if _, err := h.acquire(newcomer, sessionKey{plane: "plane", of: h.planes["plane"], scope: "more"}, asItself, nil); !errors.Is(err, errNoRoom) {
				t.Errorf("a scope too many: %v", err)
			}
		}
		refused()
		if again := scoped(t, h, "used"); again != used {
			t.Error("a scope that is there has another session")
		}
		scoped(t, h, xdstpScope) // for all clients, and the configuration's
		h.room.most = 6
		scoped(t, h, "with more room")
		refused()
		h.room.most = 0
		scoped(t, h, "without a limit")
		for i := range 3 {
			s := scoped(t, h, fmt.Sprint("leaves ", i))
			h.release(s)
			if s.at == 0 {
				t.Error("a session that nobody uses is not known as such")
			}
			if scoped(t, h, fmt.Sprint("leaves ", i)) != s || s.at != 0 {
				t.Error("a session that is used again is known as one that is not")
			}
		}
		if len(h.room.idle) != 0 {
			t.Errorf("%d sessions that nobody uses", len(h.room.idle))
		}
	})
}

// A scope whose control plane is away makes no room: nobody could fill it again (OPS-1).
func TestRoomOfWhatStays_LIM1_OPS1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := testHub(t, true)
		h.room.most = 1
		learn(t, visit(t, h, "s"))
		pass(time.Second)
		if _, err := h.acquire(newcomer, sessionKey{plane: "plane", of: h.planes["plane"], scope: "more"}, asItself, nil); !errors.Is(err, errNoRoom) {
			t.Errorf("a scope too many: %v", err)
		}
		if len(h.all()) != 1 {
			t.Error("the session is gone")
		}
		pass(linger)
		if len(h.room.idle) != 1 {
			t.Error("a session is not looked at again")
		}
	})
}

// A client for whose scope there is no room ends with UNAVAILABLE, and a reload may make room.
func TestReloadScopes_LIM1(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1"})
	cfg := configOf(upstreamAt("a", a.address))
	cfg.Limits.Scopes = 1
	r := run(t, cfg)
	first := r.join("n")
	first.holds(contents{"x": "1"})
	more := r.join("m")
	more.comesTo("nothing", func() bool {
		return status.Code(more.ended) == codes.Unavailable && strings.Contains(more.ended.Error(), "limits.scopes")
	})
	r.shows("/metrics", `xdsrelay_downstream_limited_total{limit="scopes"} 1`)
	r.join("n").holds(contents{"x": "1"})
	r.reload(func(c *config.Config) { c.Limits.Scopes = 2 })
	r.join("m").holds(contents{"x": "1"})
	if got := first.lost(); got != "" {
		t.Errorf("a client that was there lost %s", got)
	}
}
