package downstream

import (
	"net/http"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// spread is the time over which streams end in these tests that have to move.
const spread = 20 * time.Second

// reroute puts another plan in force.
func (h *harness) reroute(change func(r *testRouter)) {
	h.Helper()
	h.quiet()
	h.router.mu.Lock()
	change(h.router)
	h.router.plan++
	h.router.mu.Unlock()
	h.server.Reroute(spread)
	h.quiet()
}

// moveTo has opaque names live in another scope, whose versions are not to be believed
// from then on.
func (h *harness) moveTo(p *plane) {
	h.Helper()
	h.reroute(func(r *testRouter) {
		r.distrusted = map[*cache.Store]bool{p.store: true}
		r.byName = func(string, string) (*cache.Store, error) { return p.store, nil }
	})
}

// with is a resource whose version does not say what is in it.
func with(typeURL, name, version, content string) *discovery.Resource {
	r := resourceOf(typeURL, name, version)
	r.Resource.Value = []byte(name + "@" + content)
	return r
}

// refuseNodes is a router's answer to nodes that clients may not present.
func refuseNodes(*corev3.Node) error { return status.Error(codes.PermissionDenied, "not its node") }

func TestReroute_AGG1_OPS4(t *testing.T) {
	runAll(t, []scenario{
		{"a plan that leads nowhere else is adopted", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.client()
			c.subscribe(clusterType, "*", nameIn("a", "x"))
			c.wants("Cluster +a=1", "Cluster -"+nameIn("a", "x"))
			h.reroute(func(*testRouter) {})
			h.advance(spread + time.Second)
			c.wants()
			if s := h.status(); s.Leaving || h.seen.count("moved") != 0 {
				h.Errorf("the stream counts as moved: %+v", s)
			}
			h.opaque.set(clusterType, "2", "a")
			c.wants("Cluster +a=2")
		}},
		{"a stream whose names live elsewhere is served as before, and ends within the spread", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			h.other.set(clusterType, "1", "a")
			c := h.client()
			c.subscribe(clusterType, "*")
			c.wants("Cluster +a=1")
			began := time.Now()
			h.moveTo(h.other)
			if s := h.status(); !s.Leaving || h.seen.count("moved") != 1 || h.seen.count("ended: moved") != 0 {
				h.Errorf("the stream does not count as moved: %+v", s)
			}
			h.opaque.set(clusterType, "2", "a")
			c.wants("Cluster +a=2")
			c.subscribe(endpointType, "e") // goes where the stream's plan leads
			c.wants("ClusterLoadAssignment -e")
			h.opaque.set(endpointType, "1", "e")
			c.wants("ClusterLoadAssignment +e=1")
			h.reroute(func(*testRouter) {}) // a further reload changes nothing about that
			h.advance(spread + time.Second)
			c.endedWith(codes.Unavailable, "connect again")
			if d := c.ended.Sub(began); d > spread+time.Millisecond {
				h.Errorf("the stream ended after %v, want at most %v", d, spread)
			}
			if h.seen.count("moved") != 1 || h.seen.count("ended: moved") != 1 {
				h.Errorf("%d moves and %d ends were counted", h.seen.count("moved"), h.seen.count("ended: moved"))
			}
		}},
		{"a client that leaves by itself is not counted as ended by the reload", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.client()
			c.subscribe(clusterType, "*")
			c.wants("Cluster +a=1")
			h.moveTo(h.other)
			c.cancel()
			h.advance(spread + time.Second)
			if h.seen.count("ended: moved") != 0 {
				h.Error("its end was counted")
			}
		}},
		{"AGG-2 a stream that the rules refuse ends", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.client()
			c.subscribe(clusterType, "*")
			c.wants("Cluster +a=1")
			h.reroute(func(r *testRouter) {
				r.byName = func(string, string) (*cache.Store, error) { return nil, &rules.RefusedError{Rule: "none"} }
			})
			h.advance(spread + time.Second)
			c.endedWith(codes.Unavailable, "connect again")
			if h.seen.count("ended: refused") != 1 {
				h.Error("AGG-2: its end was not counted")
			}
			again := h.client()
			again.subscribe(clusterType, "*")
			again.endedWith(codes.PermissionDenied, "none")
		}},
		{"ACC-5 a stream that may not present its node ends with PERMISSION_DENIED at once", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.client()
			c.subscribe(clusterType, "*")
			c.wants("Cluster +a=1")
			began := time.Now()
			h.reroute(func(r *testRouter) { r.unverified = refuseNodes })
			h.advance(time.Second)
			c.endedWith(codes.PermissionDenied, "not its node")
			if d := c.ended.Sub(began); d > time.Millisecond {
				h.Errorf("ACC-5: the stream ended after %v", d)
			}
			if h.seen.count("ended: unverified") != 1 || h.seen.count("moved") != 1 {
				h.Error("ACC-5: its end was not counted")
			}
			again := h.client()
			again.subscribe(clusterType, "*")
			again.endedWith(codes.PermissionDenied, "not its node")
		}},
		{"LOC-4 a stream with a name that is served only now ends", func(h *harness) {
			late := nameIn("late", "x")
			c := h.client()
			c.subscribe(clusterType, late)
			c.wants("Cluster -" + late + " !" + late + "=NotFound")
			state := h.state()
			state.asks(clusterType, late)
			state.wants("Cluster !" + late + "=NotFound")
			h.reroute(func(r *testRouter) { r.authorities = map[string]*cache.Store{"late": h.a.store} })
			h.advance(spread + time.Second)
			c.endedWith(codes.Unavailable, "connect again")
			state.endedWith(codes.Unavailable, "connect again")
		}},
		{"LOC-4 a stream with a name that is not served any more ends", func(h *harness) {
			name := nameIn("a", "x")
			h.a.set(clusterType, "1", name)
			c := h.client()
			c.subscribe(clusterType, name)
			c.wants("Cluster +" + name + "=1")
			h.reroute(func(r *testRouter) { r.authorities = nil })
			h.advance(spread + time.Second)
			c.endedWith(codes.Unavailable, "connect again")
		}},
		{"a stream that begins meanwhile goes by the new plan", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			h.other.set(clusterType, "2", "a")
			h.moveTo(h.other)
			c := h.client()
			c.subscribe(clusterType, "*")
			c.wants("Cluster +a=2")
			h.advance(spread + time.Second)
			c.wants()
		}},
	})
}

// nameIn is a cluster's name in an authority.
func nameIn(authority, id string) string {
	return "xdstp://" + authority + "/envoy.config.cluster.v3.Cluster/" + id
}

// What a client brings from another scope proves nothing: the same version may stand for
// something else here.
func TestDistrust_ACK4_RES11_RES2(t *testing.T) {
	runAll(t, []scenario{
		{"RES-11 an incremental client is sent everything, and told what is not here", func(h *harness) {
			h.other.put(routeType, with(routeType, "a", "1", "here"), with(routeType, "b", "1", "here"))
			h.moveTo(h.other)
			c := h.client()
			c.send(&request{
				TypeUrl: routeType, ResourceNamesSubscribe: []string{"*"},
				InitialResourceVersions: map[string]string{"a": "1", "gone": "1"},
			})
			c.wants("RouteConfiguration +a=1 +b=1")
			h.other.settle()
			c.wants("RouteConfiguration -gone")
		}},
		{"RES-11 by name too", func(h *harness) {
			h.other.put(routeType, with(routeType, "a", "1", "here"))
			h.moveTo(h.other)
			warm := h.client() // so that the name is known when it is presented
			warm.subscribe(routeType, "a")
			warm.wants("RouteConfiguration +a=1")
			c := h.client()
			c.send(&request{
				TypeUrl: routeType, ResourceNamesSubscribe: []string{"a", "gone"},
				InitialResourceVersions: map[string]string{"a": "1", "gone": "1"},
			})
			c.wants("RouteConfiguration +a=1", "RouteConfiguration -gone")
		}},
		{"RES-11 also where the versions are just those of the collection", func(h *harness) {
			h.other.put(clusterType, with(clusterType, "a", "1", "here"))
			h.moveTo(h.other)
			warm := h.client()
			warm.subscribe(clusterType, "*")
			warm.wants("Cluster +a=1")
			h.other.settle()
			c := h.client()
			c.send(&request{
				TypeUrl: clusterType, ResourceNamesSubscribe: []string{"*"}, InitialResourceVersions: map[string]string{"a": "1"},
			})
			c.wants("Cluster +a=1")
		}},
		{"ACK-5 RES-2 a version of the state of the world matches nothing, and still delays the first list", func(h *harness) {
			h.other.put(clusterType, with(clusterType, "a", "1", "here"))
			h.moveTo(h.other)
			warm := h.state()
			warm.asks(clusterType)
			version := warm.take()[0].VersionInfo
			c := h.state()
			c.asksWith(clusterType, version)
			c.wants()
			h.other.settle()
			c.wants("Cluster a@here")
		}},
		{"ACK-4 afterwards versions count again", func(h *harness) {
			h.other.put(clusterType, with(clusterType, "a", "1", "here"))
			h.moveTo(h.other)
			h.reroute(func(r *testRouter) { r.distrusted = nil })
			c := h.client()
			c.send(&request{
				TypeUrl: clusterType, ResourceNamesSubscribe: []string{"*"}, InitialResourceVersions: map[string]string{"a": "1"},
			})
			c.wants()
		}},
	})
}

func TestRESTReroute_REST1_ACK4_AGG2_ACC5(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  func(h *harness)
	}{
		{"REST-1 a held poll whose names live elsewhere ends with 304 within the spread", func(h *harness) {
			h.opaque.real(endpointType, "1", "a")
			h.other.real(endpointType, "1", "a")
			p := h.poller(endpointPath, "a")
			p.poll().accepts("200 a=1")
			p.poll().isHeld()
			h.moveTo(h.other)
			h.advance(mergeTime)
			if h.seen.count("moved") != 1 {
				h.Error("the move was not counted")
			}
			h.advance(spread)
			p.wants("304")
			if p.took > spread+time.Second {
				h.Errorf("it took %v", p.took)
			}
			p.poll().accepts("200 a=1") // another scope's, whatever the version
			p.poll().isHeld()           // and once only
		}},
		{"REST-1 a held poll that has nothing ends with an error", func(h *harness) {
			h.opaque.silent = true
			p := h.poller(endpointPath, "a")
			p.poll().isHeld()
			h.moveTo(h.other)
			h.advance(spread)
			p.refusedWith(http.StatusServiceUnavailable, "the configuration changed where resources of this stream come from: connect again")
		}},
		{"ACC-5 a held poll that may not present its node ends with 403 within the spread", func(h *harness) {
			h.opaque.real(endpointType, "1", "a")
			p := h.poller(endpointPath, "a")
			p.poll().accepts("200 a=1")
			p.poll().isHeld()
			h.reroute(func(r *testRouter) { r.unverified = refuseNodes })
			h.advance(mergeTime)
			h.advance(spread)
			p.refusedWith(http.StatusForbidden, "not its node")
			if p.took > spread+time.Second {
				h.Errorf("ACC-5: it took %v", p.took)
			}
			p.poll().refusedWith(http.StatusForbidden, "not its node")
		}},
		{"REST-1 a plan that leads nowhere else is adopted", func(h *harness) {
			h.opaque.real(endpointType, "1", "a")
			p := h.poller(endpointPath, "a")
			p.poll().accepts("200 a=1")
			p.poll().isHeld()
			h.reroute(func(*testRouter) {})
			h.advance(mergeTime)
			p.isHeld()
			if h.seen.count("moved") != 0 {
				h.Error("a move was counted")
			}
			h.opaque.real(endpointType, "2", "a")
			p.accepts("200 a=2")
		}},
		{"ACK-4 while versions are not believed each content is sent once, then again when they are", func(h *harness) {
			h.opaque.real(endpointType, "1", "a")
			h.a.real(endpointType, "9", "a")
			same := h.a.exists[endpointType]["a"]
			same.Version = "1"
			h.a.put(endpointType, same) // of a store whose digests do not say of which scope they are
			p := h.poller(endpointPath, "a")
			p.poll().accepts("200 a=1")
			h.moveTo(h.a)
			p.poll().accepts("200 a=9")
			p.poll().isHeld()
			h.advance(restWait)
			p.wants("304")
			h.reroute(func(r *testRouter) { r.distrusted = nil })
			p.poll().accepts("200 a=9")
			p.poll().isHeld()
		}},
		{"ACK-3 what was rejected meanwhile is not sent again", func(h *harness) {
			h.other.real(endpointType, "1", "a")
			h.moveTo(h.other)
			p := h.poller(endpointPath, "a")
			p.poll().rejects("200 a=1", "no")
			p.poll().isHeld()
			h.other.real(endpointType, "2", "a")
			p.accepts("200 a=2")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { restBubble(t, tt.run) })
	}
}
