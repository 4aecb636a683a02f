package relay

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/relay/resolve"
)

// testRouter routes the authority a to the upstream of testHub.
func testRouter(t *testing.T, h *hub) *router {
	t.Helper()
	now := testPlan(t)
	now.planes = h.planes
	rt := &router{hub: h}
	rt.now.Store(now)
	if err := now.authorities.Claim("a", "plane"); err != nil {
		t.Fatal(err)
	}
	h.own = newResolved(rt, config.Resolve{AlternativeAfter: config.Duration(time.Second)},
		nil, nil, nil, slog.New(slog.DiscardHandler))
	return rt
}

func TestNamed_LOC3_LOC4_LOC5_LIST4(t *testing.T) {
	const cluster, list = "/envoy.config.cluster.v3.Cluster/", "/envoy.config.cluster.v3.ClusterCollection/"
	synctest.Test(t, func(t *testing.T) {
		h := testHub(t, false)
		routes := testRouter(t, h).opens(t, nil)
		for _, tc := range []struct {
			name, spelling string
			resolved       bool
			key            string // "": as it is spelled
			unclaimed      bool
		}{
			{name: "LOC-3 a name of its authority's upstream", spelling: "xdstp://a" + cluster + "x"},
			{name: "LOC-4 of nobody's", spelling: "xdstp://n" + cluster + "x", unclaimed: true},
			{
				name: "LOC-5 with an alternative", spelling: "xdstp://a" + cluster + "x?b=1&a=2#alt=xdstp://n" + cluster + "%79",
				resolved: true, key: "xdstp://a" + cluster + "x?a=2&b=1#alt=xdstp://n" + cluster + "y",
			},
			{name: "LOC-5 only the alternative is somebody's", spelling: "xdstp://n" + cluster + "*#alt=xdstp://a" + cluster + "*", resolved: true},
			{name: "LOC-4 nor the alternative", spelling: "xdstp://n" + cluster + "x#alt=xdstp://m" + cluster + "x", unclaimed: true},
			{name: "LIST-4 an entry", spelling: "xdstp://a" + list + "x#entry=e", resolved: true},
		} {
			name, err := keyer.Parse(tc.spelling)
			if err != nil {
				t.Fatal(err)
			}
			store, key, err := routes.Named(name)
			switch {
			case errors.Is(err, downstream.ErrNoUpstream) != tc.unclaimed, (err != nil) != tc.unclaimed:
				t.Errorf("%s: error %v", tc.name, err)
			case tc.unclaimed && !strings.Contains(err.Error(), `"n"`):
				t.Errorf("%s: error %v, should name the authority", tc.name, err)
			}
			if tc.unclaimed {
				continue
			}
			if tc.key == "" {
				tc.key = tc.spelling
			}
			if key != tc.key {
				t.Errorf("%s: key %q, want %q", tc.name, key, tc.key)
			}
			for _, s := range h.all() {
				if s.store == store && s.key.resolved != tc.resolved {
					t.Errorf("%s: it lives in %+v", tc.name, s.key)
				}
			}
		}
		if n := len(h.all()); n != 2 {
			t.Errorf("%d sessions, want the upstream's and that of resolved names", n)
		}
		routes.Close()
		pass(linger + time.Second)
		if n := len(h.all()); n != 0 {
			t.Errorf("%d sessions after the linger", n)
		}
	})
}

// What resolves names hears when an upstream is away and when it is back, as long as it
// wants to.
func TestSource_LOC5(t *testing.T) {
	for _, away := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := testHub(t, away)
			from := sources{testRouter(t, h)}
			if u, ok := from.Upstream("a"); !ok || u.Name != "plane" {
				t.Errorf("the upstream of a is %+v, %t", u, ok)
			}
			if _, ok := from.Upstream("n"); ok {
				t.Error("an authority that nobody claims has an upstream")
			}
			var heard atomic.Int64
			source, err := from.Open(resolve.Upstream{Name: "plane", Of: h.planes["plane"]}, func() { heard.Add(1) })
			if err != nil {
				t.Fatal(err)
			}
			if at, _ := source.Away(); !at.IsZero() {
				t.Errorf("away since %v, and nothing was wanted", at)
			}
			c := delivery.Read(source.Store(), func() {})
			c.Update(&delivery.Change{TypeURL: clusterType, Subscribe: []cache.Name{{Spelling: "silent", Key: "silent"}}})
			pass(time.Second)
			// The plane that is there has said nothing yet.
			if at, open := source.Away(); at.IsZero() || open == away {
				t.Errorf("away since %v, a stream stands: %t", at, open)
			}
			pass(time.Minute)
			if at, _ := source.Away(); at.IsZero() == away || heard.Load() == 0 {
				t.Errorf("away since %v, should be away: %t; told %d times", at, away, heard.Load())
			}
			c.Leave()
			source.Close()
			heard.Store(0)
			if s := h.all()[0]; h.users(s) != 0 {
				t.Errorf("%d users are left", h.users(s))
			}
			visit(t, h, xdstpScope)
			if heard.Load() != 0 {
				t.Error("told after it was closed")
			}
			h.close()
			if _, err := from.Open(resolve.Upstream{Name: "plane", Of: h.planes["plane"]}, func() {}); !errors.Is(err, errClosed) {
				t.Errorf("opened after the end: %v", err)
			}
		})
	}
}

// A name with an alternative whose upstream is away, all the way through the hub: it is
// in the store of resolved names, and asked for where it leads.
func TestResolvedSession_LOC5_OPS4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := testHub(t, false)
		routes := testRouter(t, h).opens(t, &corev3.Node{Id: "n"})
		name, err := keyer.Parse("xdstp://a/envoy.config.cluster.v3.Cluster/x#alt=xdstp://a/envoy.config.cluster.v3.Cluster/y")
		if err != nil {
			t.Fatal(err)
		}
		store, key, err := routes.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		c := delivery.Join(store, func() {}, delivery.Form{})
		c.Update(&delivery.Change{TypeURL: clusterType, Subscribe: []cache.Name{{Spelling: key, Key: key}}})
		pass(time.Minute)
		sessions := h.all()
		if len(sessions) != 2 {
			t.Fatalf("%d sessions, want 2", len(sessions))
		}
		for _, s := range sessions {
			want := "xdstp://a/envoy.config.cluster.v3.Cluster/x"
			if s.key.resolved {
				want = key
			}
			if infos := s.store.Resources(clusterType, want); len(infos) != 1 {
				t.Errorf("%+v has %d entries of %q", s.key, len(infos), want)
			}
		}
		routes.Tell(store, ack.Outcome{Kind: ack.Rejected, TypeURL: clusterType, Of: ack.Span{First: 1, Last: 1}, Reason: "nobody brought it"})
		c.Leave()
		routes.Close()
	})
}
