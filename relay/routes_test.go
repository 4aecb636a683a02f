package relay

import (
	"testing"
	"testing/synctest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

func TestReroute_AGG1_AGG3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuledRouter(t)
		h := rt.hub
		rt.reload(t, rules.Isolate)
		routes := rt.Open(&corev3.Node{Id: "n"}, &keyer.Peer{})
		scoped := func() *cache.Store {
			t.Helper()
			s, err := routes.Scoped(clusterType, cache.Wildcard)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		users := func(s *cache.Store) int {
			for _, session := range h.all() {
				if session.store == s {
					return h.users(session)
				}
			}
			return 0
		}
		alone := scoped()
		if routes.Reroute() {
			t.Error("the same plan counts as another one")
		}
		rt.reload(t, rules.Share)
		if scoped() != alone {
			t.Error("a plan is followed before the stream looks again")
		}
		if !routes.Reroute() || routes.Reroute() {
			t.Error("another plan is not noticed, or twice")
		}
		if users(alone) != 1 {
			t.Errorf("AGG-3: %d users before the move is carried out", users(alone))
		}
		shared := scoped()
		if shared == alone || scoped() != shared || users(shared) != 1 {
			t.Errorf("AGG-1: the same store, or held %d times", users(shared))
		}
		routes.Settle(func(s *cache.Store) bool { return s == shared })
		if users(alone) != 0 || users(shared) != 1 {
			t.Errorf("AGG-3: %d users of the old scope and %d of the new one", users(alone), users(shared))
		}
		routes.Rejected(alone, clusterType, 1, "late") // it is nobody's
		rt.reload(t, rules.Share)
		if !routes.Reroute() || scoped() != shared || users(shared) != 1 {
			t.Errorf("AGG-1: a plan that changes nothing for the client moves it, or is counted %d times", users(shared))
		}
		routes.Settle(func(*cache.Store) bool { return false })
		if users(shared) != 0 || scoped() != shared || users(shared) != 1 {
			t.Error("AGG-3: what was let go is not held anew")
		}
		routes.Close()
		if users(shared) != 0 {
			t.Errorf("AGG-3: %d users are left", users(shared))
		}
	})
}

// Scopes take part in what their contents are called, those of xdstp names do not: they
// mean the same to everybody (ACK-4, NAME-2).
func TestSourceOf_ACK4_NAME2(t *testing.T) {
	p := &plane{name: "plane"}
	seen := make(map[string]sessionKey)
	for _, key := range []sessionKey{
		{plane: "plane", scope: "a"}, {plane: "plane", scope: "b"}, {plane: "other", scope: "a"},
		{plane: "plane", scope: "a", basis: "t"}, {plane: "plane", scope: `a" "t`},
	} {
		scope := p.sourceOf(key).Scope
		if twin, twice := seen[scope]; twice || scope == "" {
			t.Errorf("%v is called %q, as %v", key, scope, twin)
		}
		seen[scope] = key
	}
	if scope := p.sourceOf(sessionKey{plane: "plane", scope: xdstpScope}).Scope; scope != "" {
		t.Errorf("the scope of xdstp names is called %q", scope)
	}
}
