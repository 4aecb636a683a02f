package relay

import (
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// opens gives the routes of a client without a certificate.
func (r *router) opens(t *testing.T, node *corev3.Node) *routes {
	t.Helper()
	opened, err := r.open(node, &keyer.Peer{})
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// reopens gives routes by the plan in force, nil if the routes are by it.
func reopens(t *testing.T, routes downstream.Routes) downstream.Routes {
	t.Helper()
	next, err := routes.Reopen()
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// A stream keeps its plan until it ends or adopts the next one: Reopen gives routes by the
// plan in force, which hold sessions of their own.
func TestReopen_AGG1_AGG3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuledRouter(t)
		h := rt.hub
		rt.reload(t, rules.Isolate)
		opened := rt.opens(t, &corev3.Node{Id: "n"})
		scoped := func(r downstream.Routes) *cache.Store {
			t.Helper()
			s, err := r.Scoped(clusterType, cache.Wildcard)
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
		alone := scoped(opened)
		if reopens(t, opened) != nil {
			t.Error("the same plan counts as another one")
		}
		rt.reload(t, rules.Share)
		if scoped(opened) != alone {
			t.Error("AGG-1: routes follow a plan that they are not of")
		}
		next := reopens(t, opened)
		if next == nil || reopens(t, next) != nil {
			t.Fatal("AGG-1: another plan is not noticed, or twice")
		}
		shared := scoped(next)
		if shared == alone || users(alone) != 1 || users(shared) != 1 {
			t.Errorf("AGG-3: %d users of the old scope and %d of the new one", users(alone), users(shared))
		}
		opened.Close()
		if users(alone) != 0 || scoped(next) != shared || users(shared) != 1 {
			t.Errorf("AGG-3: %d users of the old scope and %d of the new one", users(alone), users(shared))
		}
		next.Tell(alone, ack.Outcome{Kind: ack.Rejected, TypeURL: clusterType, Of: ack.Span{First: 1, Last: 1}, Reason: "late"}) // the client has left that store
		rt.reload(t, rules.Share)
		again := reopens(t, next)
		if again == nil || scoped(again) != shared || users(shared) != 2 {
			t.Errorf("AGG-1: a plan that changes nothing leads elsewhere, or has %d users", users(shared))
		}
		next.Close()
		again.Close()
		if users(shared) != 0 {
			t.Errorf("AGG-3: %d users are left", users(shared))
		}
	})
}

// ACK-4: for the drain time and five minutes after a reload that changes who serves a name,
// versions that clients present for it are not believed.
func TestDistrust_ACK4(t *testing.T) {
	now := time.Now()
	a, b := new(plane), new(plane)
	base := func() *plan {
		return &plan{
			planes:      map[string]*plane{"a": a, "b": b},
			authorities: keyer.Authorities{Default: "a"},
			claims:      map[string][]string{"a": {"default"}, "b": {"x"}},
			scoping:     []any{[]config.Rule{{Name: "r"}}, config.Share},
		}
	}
	for _, tc := range []struct {
		name             string
		change           func(*plan)
		scoped, ofA, ofB bool
	}{
		{"nothing", func(*plan) {}, false, false, false},
		{"a rule", func(p *plan) { p.scoping[0] = []config.Rule{{Name: "s"}} }, true, false, false},
		{"what becomes of the others", func(p *plan) { p.scoping[1] = config.Isolate }, true, false, false},
		{"the default", func(p *plan) {
			p.authorities.Default = "b"
			p.claims = map[string][]string{"a": nil, "b": {"default", "x"}}
		}, true, true, true},
		{"an authority", func(p *plan) { p.claims["b"] = []string{"x", "y"} }, false, false, true},
		{"another control plane under the name", func(p *plan) { p.planes["b"] = new(plane) }, true, false, true},
		{"one more control plane", func(p *plan) { p.planes["c"] = new(plane) }, false, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			next := base()
			tc.change(next)
			next.succeed(base(), now, time.Minute)
			last := base() // a reload that changes nothing more keeps what there is
			tc.change(last)
			last.planes = next.planes
			last.succeed(next, now.Add(time.Minute), time.Minute)
			for _, p := range []*plan{next, last} {
				for at, during := range map[time.Time]bool{now: true, now.Add(6*time.Minute - 1): true, now.Add(6 * time.Minute): false} {
					got := [3]bool{
						p.distrusts(sessionKey{plane: "a", scope: "s"}, at),
						p.distrusts(sessionKey{plane: "a"}, at), p.distrusts(sessionKey{plane: "b"}, at),
					}
					want := [3]bool{tc.scoped && during, tc.ofA && during, tc.ofB && during}
					if got != want {
						t.Errorf("%v after the reload: distrusted (scoped, of a, of b) %v, want %v", at.Sub(now), got, want)
					}
				}
			}
			if next.distrusts(resolvedKey(), now) {
				t.Error("names that the relay resolves by itself are distrusted")
			}
		})
	}
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

// The node matters where rules, the policy or access look at it. Only where all share everything it does not.
func TestNodeMatters_STR1(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*config.Config)
		want   bool
	}{
		"all share": {func(*config.Config) {}, false},
		"isolated":  {func(c *config.Config) { c.Aggregation.Otherwise = config.Isolate }, true},
		"a rule": {func(c *config.Config) {
			c.Aggregation.Rules = []config.Rule{{Name: "a", Match: "true", Scope: []string{}}}
		}, true},
		"verify": {func(c *config.Config) {
			c.Access.Verify = []config.VerifyRule{{Name: "a", Require: `node.cluster == "a"`}}
		}, true},
		"access": {func(c *config.Config) {
			c.Access.Rules = []config.AccessRule{{Name: "a", Match: `node.cluster == "a"`, Effect: config.Deny}}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configOf(upstreamAt("a", "127.0.0.1:1"))
			cfg.Aggregation.Otherwise = config.Share
			tt.change(cfg)
			p, err := newPlan(cfg)
			if err != nil {
				t.Fatal(err)
			}
			r := new(router)
			r.now.Store(p)
			if got := r.NodeMatters(&keyer.Peer{}); got != tt.want {
				t.Errorf("the node matters: %t, want %t", got, tt.want)
			}
		})
	}
}
