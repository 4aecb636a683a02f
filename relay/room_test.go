package relay

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/quota"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// scoped is a session that a test uses for a while.
func scoped(t *testing.T, h *hub, scope string) *session {
	t.Helper()
	s, err := h.acquire(claim{}, sessionKey{plane: "plane", of: h.planes["plane"], scope: scope}, asItself, nil)
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
			if _, err := h.acquire(claim{}, sessionKey{plane: "plane", of: h.planes["plane"], scope: "more"}, asItself, nil); !errors.Is(err, errNoRoom) {
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

// While less than a tenth of the scopes is free, those of one address or identity are no more than its share. Scopes
// that nobody uses count for nobody.
func TestRoomShares_LIM1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := testHub(t, false)
		h.room.most, h.room.share = 40, 0.05
		fleet := quota.ClientOf(&keyer.Peer{SPIFFE: "spiffe://td/fleet", Addr: "10.0.0.1:1"})
		other := quota.ClientOf(&keyer.Peer{Addr: "10.0.0.2:1"})
		enter := func(kind claimKind, from quota.Client, scope string) (*session, error) {
			return h.acquire(claim{kind: kind, from: from}, sessionKey{plane: "plane", of: h.planes["plane"], scope: scope}, asItself, nil)
		}
		admitted := func(kind claimKind, from quota.Client, scope string) *session {
			t.Helper()
			s, err := enter(kind, from, scope)
			if err != nil {
				t.Fatalf("%s: %v", scope, err)
			}
			return s
		}
		refused := func(from quota.Client, scope string) {
			t.Helper()
			if _, err := enter(newcomer, from, scope); !errors.Is(err, downstream.ErrShareOfScopes) {
				t.Errorf("%s: %v", scope, err)
			}
		}
		var all []*session
		for i := range 36 {
			all = append(all, admitted(newcomer, fleet, fmt.Sprint("fleet ", i)))
		}
		refused(fleet, "one more")
		admitted(newcomer, fleet, "fleet 0") // which is there
		h.release(all[0])
		admitted(newcomer, other, "other 0")
		admitted(newcomer, other, "other 1")
		refused(other, "other 2")
		refused(fleet, "one more")
		h.release(all[1])
		h.release(all[2]) // nobody uses these: both the fleet and another client may use others
		h.release(all[3])
		all[1] = admitted(newcomer, fleet, "one more")
		refused(fleet, "fleet 2") // though it is there, nobody uses it
		admitted(moved, fleet, "moved")
		h.release(all[1])
		refused(fleet, "fleet 2")
		admitted(newcomer, quota.Client{}, "the relay's own")
		admitted(newcomer, quota.ClientOf(&keyer.Peer{Addr: "10.0.0.3:1"}), xdstpScope)
		if h.room.used != 37 {
			t.Errorf("%d sessions are used, want 37", h.room.used)
		}
	})
}

// A session that was discarded counts for nobody, whoever still holds it.
func TestRoomOfDiscarded_LIM1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := testHub(t, false)
		h.room.most, h.room.share = 8, 0.25
		unused, used := scoped(t, h, "unused"), scoped(t, h, "used")
		h.release(unused)
		for _, s := range []*session{unused, used} {
			h.discard(func(one *session) bool { return one == s })
		}
		(&loadSource{h, unused}).Hold()()
		h.release(used)
		if h.room.used != 0 {
			t.Errorf("LIM-1: %d sessions are used, want none", h.room.used)
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
		if _, err := h.acquire(claim{}, sessionKey{plane: "plane", of: h.planes["plane"], scope: "more"}, asItself, nil); !errors.Is(err, errNoRoom) {
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
	r.reload(func(c *config.Config) { c.Limits.Scopes = 3 })
	r.join("m").holds(contents{"x": "1"})
	r.reload(func(c *config.Config) { c.Limits.Share = 30 })
	shared := r.join("o")
	shared.comesTo("nothing", func() bool {
		return status.Code(shared.ended) == codes.Unavailable && strings.Contains(shared.ended.Error(), "limits.share")
	})
	r.shows("/metrics", `xdsrelay_downstream_limited_total{limit="share"} 1`)
	if got := first.lost(); got != "" {
		t.Errorf("a client that was there lost %s", got)
	}
}

// No default refuses a scope of its own to each of 50,000 Envoys of one identity behind one address, and others
// find room beside them.
func TestScopesOfDefaults_LIM1(t *testing.T) {
	const envoys = 50_000
	l := config.Default().Limits
	r := room{most: l.Scopes, share: l.Share.Part()}
	sessions := make(map[sessionKey]*session)
	come := func(n int, peer keyer.Peer) (refused error) {
		who := claim{from: quota.ClientOf(&peer)}
		for range n {
			key := sessionKey{plane: "plane", scope: fmt.Sprint(len(sessions))}
			if r.full(key, len(sessions)) {
				return errNoRoom
			}
			if err := r.admit(who, key, sessions); err != nil {
				return err
			}
			sessions[key] = &session{key: key, users: 1, of: who.from}
		}
		return nil
	}
	if err := come(envoys, keyer.Peer{SPIFFE: "spiffe://td/fleet", Addr: "10.0.0.1:1"}); err != nil {
		t.Fatalf("LIM-1: after %d scopes of one identity: %v", len(sessions), err)
	}
	if err := come(envoys/2, keyer.Peer{SPIFFE: "spiffe://td/others", Addr: "10.0.0.2:1"}); err != nil {
		t.Errorf("LIM-1: after %d scopes in all, of two identities: %v", len(sessions), err)
	}
}
