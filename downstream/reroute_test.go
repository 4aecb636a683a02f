package downstream

import (
	"errors"
	"slices"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
	"google.golang.org/grpc/codes"
)

// reroute puts another plan in force.
func (h *harness) reroute(change func(r *testRouter)) {
	h.Helper()
	h.quiet()
	h.router.mu.Lock()
	change(h.router)
	h.router.plan++
	h.router.mu.Unlock()
	h.server.Reroute()
	h.quiet()
}

// moveTo has opaque names live in another scope, of some types if any are given.
func (h *harness) moveTo(p *plane, types ...string) {
	h.Helper()
	h.reroute(func(r *testRouter) {
		r.byName = func(typeURL, _ string) (*cache.Store, error) {
			if len(types) == 0 || slices.Contains(types, typeURL) {
				return p.store, nil
			}
			return h.opaque.store, nil
		}
	})
}

// with is a resource whose version does not say what is in it.
func with(typeURL, name, version, content string) *discovery.Resource {
	r := resourceOf(typeURL, name, version)
	r.Resource.Value = []byte(name + "@" + content)
	return r
}

// late has the other scope's server be silent for too long.
func (h *harness) late() {
	h.Helper()
	h.other.store.Settle(time.Now().Add(time.Hour))
	h.quiet()
}

// besideStar has an authority's names live in the scope, and "*" of it mean one of them.
func (h *harness) besideStar(name string) {
	h.Helper()
	h.router.authorities["a"] = h.opaque.store
	h.opaque.starred = map[string]bool{name: true}
	h.opaque.set(clusterType, "1", name)
}

// isMoving holds what the admin port shows.
func (h *harness) isMoving(moved int64, moving bool) {
	h.Helper()
	if s := h.status(); s.Moved != moved || (s.Moving > 0) != moving {
		h.Errorf("moved %d times, %d things left to be told; want %d, and some: %t", s.Moved, s.Moving, moved, moving)
	}
}

func TestReroute_RES11_ADS1_LOC4(t *testing.T) {
	runAll(t, []scenario{
		{"RES-11 a collection is sent the difference by content, not by version", func(h *harness) {
			h.opaque.put(routeType, with(routeType, "same", "1", "x"), with(routeType, "other", "1", "x"), with(routeType, "gone", "1", "x"))
			h.other.put(routeType, with(routeType, "same", "1", "x"), with(routeType, "other", "1", "y"), with(routeType, "new", "1", "x"))
			c := h.client()
			c.subscribe(routeType, "*")
			c.wants("RouteConfiguration +gone=1 +other=1 +same=1")
			h.moveTo(h.other)
			c.wants("RouteConfiguration +new=1 +other=1")
			h.isMoving(1, true) // nobody knows yet whether there is more
			h.late()
			c.wants("RouteConfiguration -gone")
			h.isMoving(1, false)
			if n := h.opaque.store.Clients(); n != 0 {
				h.Errorf("%d clients are left in the old scope", n)
			}
			h.opaque.put(routeType, with(routeType, "same", "2", "z"))
			h.other.put(routeType, with(routeType, "other", "2", "z"))
			c.wants("RouteConfiguration +other=2")
			if h.seen.count("moved") != 1 {
				h.Error("the move was not counted")
			}
		}},
		{"RES-11 RES-6 names are sent the difference", func(h *harness) {
			h.opaque.put(routeType, with(routeType, "same", "1", "x"), with(routeType, "other", "1", "x"), with(routeType, "gone", "1", "x"))
			h.other.put(routeType, with(routeType, "same", "1", "x"), with(routeType, "other", "1", "y"))
			c := h.client()
			c.subscribe(routeType, "same", "other", "gone")
			c.wants("RouteConfiguration +gone=1 +other=1 +same=1")
			h.moveTo(h.other)
			c.wants("RouteConfiguration +other=1 -gone")
			h.isMoving(1, false)
		}},
		{"RES-7 what nobody answers is kept until the server had its time", func(h *harness) {
			h.opaque.set(routeType, "1", "r")
			h.other.silent = true
			c := h.client()
			c.subscribe(routeType, "r")
			c.wants("RouteConfiguration +r=1")
			h.moveTo(h.other)
			c.wants()
			h.isMoving(1, true)
			h.late()
			c.wants("RouteConfiguration -r")
			h.other.silent = false
			h.other.set(routeType, "2", "r")
			c.wants("RouteConfiguration +r=2")
		}},
		{"OPS-1 no clock runs while the new control plane is away", func(h *harness) {
			h.opaque.set(routeType, "1", "r")
			c := h.client()
			c.subscribe(routeType, "r", "*")
			c.wants("RouteConfiguration +r=1")
			h.other.away = true
			h.moveTo(h.other)
			h.late()
			c.wants()
			h.other.away = false
			h.other.set(routeType, "1", "r")
			c.wants()
			h.isMoving(1, true)
		}},
		{"ADS-1 clusters go last, when the routes that took their place are acknowledged", func(h *harness) {
			h.opaque.set(clusterType, "1", "c1")
			h.opaque.set(routeType, "1", "r")
			h.other.set(clusterType, "1", "c2")
			h.other.set(routeType, "2", "r")
			c := h.slowClient()
			c.subscribe(clusterType, "*")
			c.subscribe(routeType, "r")
			for _, r := range c.wants("Cluster +c1=1", "RouteConfiguration +r=1") {
				c.ack(r)
			}
			h.moveTo(h.other)
			got := c.wants("Cluster +c2=1", "RouteConfiguration +r=2") // endpoints and routes do not wait for the quiet time
			h.other.settle()
			c.wants()
			for _, r := range got {
				c.wants()
				c.ack(r)
			}
			c.wants("Cluster -c1")
			h.isMoving(1, false)
		}},
		{"RES-11 moved again before the first move is finished", func(h *harness) {
			h.opaque.put(routeType, with(routeType, "a", "1", "x"), with(routeType, "b", "1", "x"))
			h.other.silent = true
			c := h.client()
			c.subscribe(routeType, "*", "b")
			c.take()
			h.moveTo(h.other)
			c.wants()
			h.a.put(routeType, with(routeType, "a", "1", "y"), with(routeType, "b", "1", "x"))
			h.moveTo(h.a)
			c.wants("RouteConfiguration +a=1")
			h.a.settle()
			h.isMoving(2, false)
		}},
		{"LOC-4 an authority that nobody claims any more, and one that somebody does again", func(h *harness) {
			h.a.set(clusterType, "1", ofA("r"))
			c := h.client()
			c.subscribe(clusterType, ofA("r"))
			c.wants("Cluster +" + ofA("r") + "=1")
			h.reroute(func(r *testRouter) { delete(r.authorities, "a") })
			c.wants("Cluster -" + ofA("r") + " !" + ofA("r") + "=NotFound")
			h.other.set(clusterType, "1", ofA("r"))
			h.reroute(func(r *testRouter) { r.authorities["a"] = h.other.store })
			c.wants("Cluster +" + ofA("r") + "=1")
			c.unsubscribe(clusterType, ofA("r"))
			h.reroute(func(r *testRouter) { delete(r.authorities, "a") })
			c.wants()
		}},
		{"GLOB-5 a glob moves with its members", func(h *harness) {
			h.a.set(clusterType, "1", ofA("d/x"), ofA("d/y"))
			h.other.set(clusterType, "1", ofA("d/x"))
			c := h.client()
			c.subscribe(clusterType, ofA("d/*"), ofA("d/y"))
			c.take()
			h.reroute(func(r *testRouter) { r.authorities["a"] = h.other.store })
			c.wants("Cluster -" + ofA("d/y"))
			h.late()
			c.wants()
			h.isMoving(1, false)
		}},
		{"GLOB-5 a glob moves away from \"*\", which alone has told of a member", func(h *harness) {
			h.besideStar(ofA("d/x"))
			c := h.client()
			c.subscribe(clusterType, "*")
			c.wants("Cluster +" + ofA("d/x") + "=1")
			h.opaque.silent = true
			c.subscribe(clusterType, ofA("d/*"))
			c.wants()
			h.other.set(clusterType, "1", ofA("d/y"))
			h.reroute(func(r *testRouter) { r.authorities["a"] = h.other.store })
			h.late()
			c.wants("Cluster +"+ofA("d/y")+"=1", "Cluster -"+ofA("d/x"))
			h.isMoving(1, false)
		}},
		{"SUB-6 a glob moves away from \"*\", and who of them told last is not known", func(h *harness) {
			h.besideStar(ofA("d/x"))
			c := h.client()
			c.subscribe(clusterType, "*", ofA("d/*"))
			c.take()
			h.other.set(clusterType, "1", ofA("d/x"))
			h.reroute(func(r *testRouter) { r.authorities["a"] = h.other.store })
			c.wants("Cluster +" + ofA("d/x") + "=1")
		}},
		{"SUB-6 \"*\" moves away from a glob, and who of them told last is not known", func(h *harness) {
			h.besideStar(ofA("d/x"))
			c := h.client()
			c.subscribe(clusterType, "*", ofA("d/*"))
			c.take()
			h.moveTo(h.other)
			c.wants("Cluster +" + ofA("d/x") + "=1")
			h.late()
			c.wants()
			h.isMoving(1, false)
		}},
		{"SUB-6 a glob moves with \"*\", and nothing is sent again", func(h *harness) {
			h.besideStar(ofA("d/x"))
			c := h.client()
			c.subscribe(clusterType, "*", ofA("d/*"))
			c.take()
			h.other.starred = h.opaque.starred
			h.other.set(clusterType, "1", ofA("d/x"))
			h.reroute(func(r *testRouter) {
				r.authorities["a"] = h.other.store
				r.byName = func(string, string) (*cache.Store, error) { return h.other.store, nil }
			})
			c.wants()
		}},
		{"LOC-4 a glob is refused when \"*\" moves away from it", func(h *harness) {
			h.besideStar(ofA("d/x"))
			c := h.client()
			c.subscribe(clusterType, "*", ofA("d/*"))
			c.take()
			h.other.starred = h.opaque.starred
			h.other.set(clusterType, "1", ofA("d/x"))
			h.reroute(func(r *testRouter) {
				delete(r.authorities, "a")
				r.byName = func(string, string) (*cache.Store, error) { return h.other.store, nil }
			})
			c.wants("Cluster -" + ofA("d/*") + " !" + ofA("d/*") + "=NotFound")
			if n := h.opaque.store.Clients(); n != 0 {
				h.Errorf("%d clients are left where nothing is subscribed to", n)
			}
		}},
		{"SUB-8 names move apart from \"*\", and back", func(h *harness) {
			h.opaque.put(routeType, with(routeType, "a", "1", "x"), with(routeType, "b", "1", "x"))
			h.other.put(routeType, with(routeType, "a", "1", "y"))
			c := h.client()
			c.subscribe(routeType, "*", "a")
			c.take()
			h.opaque.settle()
			h.reroute(func(r *testRouter) {
				r.byName = func(_, name string) (*cache.Store, error) {
					if name == "a" {
						return h.other.store, nil
					}
					return h.opaque.store, nil
				}
			})
			c.wants("RouteConfiguration +a=1")
			h.opaque.put(routeType, with(routeType, "a", "2", "z"))
			c.wants() // it is served from the other scope
			h.other.put(routeType, with(routeType, "a", "3", "w"))
			c.wants("RouteConfiguration +a=3")
			h.moveTo(h.opaque)
			c.wants("RouteConfiguration +a=2")
			c.unsubscribe(routeType, "a")
			c.wants("RouteConfiguration +a=2")
		}},
		{"ACK-7 a rejection of what came from the old scope is not the new one's", func(h *harness) {
			h.opaque.set(routeType, "1", "r")
			h.other.set(routeType, "2", "r")
			c := h.slowClient()
			c.subscribe(routeType, "r")
			first := c.wants("RouteConfiguration +r=1")
			h.moveTo(h.other)
			c.wants()
			c.nack(first[0], "no")
			c.wants("RouteConfiguration +r=2")
			if got := h.router.rejections(); len(got) != 0 {
				h.Errorf("rejections: %v", got)
			}
		}},
		{"AGG-2 refused by the new plan", func(h *harness) {
			h.opaque.set(routeType, "1", "r")
			c := h.client()
			c.subscribe(routeType, "r")
			c.take()
			h.reroute(func(r *testRouter) {
				r.byName = func(string, string) (*cache.Store, error) { return nil, &rules.RefusedError{Rule: "none"} }
			})
			c.endedWith(codes.PermissionDenied, "none")
			if h.seen.count("refused") != 1 {
				h.Error("the end was not counted")
			}
		}},
		{"names that nobody can look up now end the stream", func(h *harness) {
			h.a.set(clusterType, "1", ofA("r"))
			c := h.client()
			c.subscribe(clusterType, ofA("r"))
			c.take()
			h.reroute(func(r *testRouter) { r.failure = errors.New("away") })
			c.endedWith(codes.Unavailable, "away")
			if h.seen.count("failed") != 1 {
				h.Error("the end was not counted")
			}
		}},
		{"a plan that changes nothing for a stream", func(h *harness) {
			h.opaque.set(routeType, "1", "r")
			c := h.client()
			c.subscribe(routeType, "*", "r")
			c.take()
			h.reroute(func(*testRouter) {})
			c.wants()
			h.isMoving(0, false)
		}},
	})
}

func TestRerouteStates_RES2_RES3_ADS1_ACK5(t *testing.T) {
	runAll(t, []scenario{
		{"RES-2 ADS-1 one whole list when it is complete, and one without the rest", func(h *harness) {
			h.opaque.set(clusterType, "1", "c1")
			h.opaque.set(routeType, "1", "r")
			h.other.set(clusterType, "1", "c2")
			h.other.set(routeType, "2", "r")
			c := h.state()
			c.asks(clusterType)
			c.asks(routeType, "r")
			c.wants("Cluster c1@1", "RouteConfiguration r@1")
			h.moveTo(h.other)
			c.wants() // whether these are all is not known
			h.late()
			c.wants("Cluster c1@1 c2@1", "RouteConfiguration r@2", "Cluster c2@1")
			h.isMoving(1, false)
		}},
		{"ACK-4 equal names and versions, and another version_info", func(h *harness) {
			h.opaque.put(clusterType, with(clusterType, "c", "1", "x"))
			h.other.put(clusterType, with(clusterType, "c", "1", "y"))
			c := h.state()
			c.asks(clusterType)
			before := c.wants("Cluster c@x")
			h.moveTo(h.other)
			h.late()
			after := c.wants("Cluster c@y")
			if before[0].VersionInfo == after[0].VersionInfo {
				h.Errorf("ACK-4: both are called %q", after[0].VersionInfo)
			}
		}},
		{"RES-2 an empty scope empties the list", func(h *harness) {
			h.opaque.set(listenerType, "1", "l")
			c := h.state()
			c.asks(listenerType)
			c.wants("Listener l@1")
			h.moveTo(h.other)
			c.wants()
			h.late()
			c.wants("Listener")
			h.isMoving(1, false)
		}},
		{"RES-3 what there is no word for ends the stream", func(h *harness) {
			h.opaque.set(endpointType, "1", "e")
			c := h.state()
			c.asks(endpointType, "e")
			c.wants("ClusterLoadAssignment e@1")
			h.moveTo(h.other)
			c.wants()
			h.advance(partingTime)
			c.endedWith(codes.Unavailable, "moved to another scope, which has no \"e\"")
			if h.seen.count("stranded") != 1 {
				h.Error("the end was not counted")
			}
		}},
		{"RES-3 a client that unsubscribes when its list says so stays", func(h *harness) {
			h.opaque.set(clusterType, "1", "c1")
			h.opaque.set(endpointType, "1", "c1")
			h.other.set(clusterType, "1", "c2")
			h.other.set(endpointType, "1", "c2")
			c := h.state()
			c.asks(clusterType)
			c.asks(endpointType, "c1")
			c.wants("Cluster c1@1", "ClusterLoadAssignment c1@1")
			h.moveTo(h.other)
			h.advance(2 * partingTime)
			c.wants()
			h.late()
			c.wants("Cluster c2@1") // of the endpoints nothing can come that c1 would have to stay for
			c.asks(endpointType, "c2")
			c.wants("ClusterLoadAssignment c2@1")
			h.advance(2 * partingTime)
			c.wants()
			h.isMoving(1, false)
		}},
		{"RES-3 a client is given its time from when it has acknowledged the list", func(h *harness) {
			h.opaque.set(clusterType, "1", "c1")
			h.opaque.set(endpointType, "1", "c1")
			h.other.set(clusterType, "1", "c2")
			h.other.set(endpointType, "1", "c2")
			h.opaque.set(routeType, "1", "r")
			h.other.set(routeType, "2", "r")
			c := h.stateOn(adsStream, false)
			c.asks(clusterType)
			c.asks(endpointType, "c1")
			c.asks(routeType, "r")
			for _, r := range c.wants("Cluster c1@1", "ClusterLoadAssignment c1@1", "RouteConfiguration r@1") {
				c.ack(r)
			}
			h.moveTo(h.other)
			h.late()
			for _, r := range c.wants("Cluster c1@1 c2@1", "RouteConfiguration r@2") {
				c.ack(r)
			}
			list := c.wants("Cluster c2@1")
			h.advance(3 * partingTime)
			c.wants()
			c.ack(list[0])
			h.advance(partingTime / 2)
			c.asks(endpointType, "c2")
			c.wants("ClusterLoadAssignment c2@1")
			h.advance(2 * partingTime)
			c.wants()
			h.isMoving(1, false)
		}},
		{"RES-3 a client that acknowledges nothing is not waited for any longer", func(h *harness) {
			h.opaque.set(clusterType, "1", "c1")
			h.opaque.set(endpointType, "1", "c1")
			h.other.set(clusterType, "1", "c2")
			c := h.stateOn(adsStream, false)
			c.asks(clusterType)
			c.asks(endpointType, "c1")
			for _, r := range c.wants("Cluster c1@1", "ClusterLoadAssignment c1@1") {
				c.ack(r)
			}
			h.moveTo(h.other)
			h.late()
			c.wants("Cluster c2@1")
			h.advance(h.server.limits.Load().AckTimeout)
			h.other.set(clusterType, "2", "c2")
			h.advance(2 * partingTime)
			c.endedWith(codes.Unavailable, "start afresh")
		}},
		{"RES-3 names are sent as what they are there", func(h *harness) {
			h.opaque.put(endpointType, with(endpointType, "same", "1", "x"), with(endpointType, "other", "1", "x"))
			h.other.put(endpointType, with(endpointType, "same", "1", "x"), with(endpointType, "other", "1", "y"))
			c := h.state()
			c.asks(endpointType, "same", "other")
			c.take()
			h.moveTo(h.other)
			c.wants("ClusterLoadAssignment other@y")
			h.isMoving(1, false)
		}},
		{"RES-3 what the old scope removed without a word is held, too", func(h *harness) {
			h.opaque.set(endpointType, "1", "e")
			c := h.state()
			c.asks(endpointType, "e")
			c.wants("ClusterLoadAssignment e@1")
			h.opaque.unset(endpointType, "e")
			c.wants()
			h.moveTo(h.other)
			h.advance(partingTime)
			c.endedWith(codes.Unavailable, "start afresh")
		}},
		{"LOC-4 RES-3 a name that is refused now, and is held", func(h *harness) {
			h.a.set(endpointType, "1", "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/e")
			c := h.state()
			c.asks(endpointType, "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/e")
			c.take()
			h.reroute(func(r *testRouter) { delete(r.authorities, "a") })
			h.advance(partingTime)
			c.endedWith(codes.Unavailable, "start afresh")
		}},
		{"LOC-4 RES-2 a list without the name that is refused now", func(h *harness) {
			h.a.set(clusterType, "1", ofA("l"))
			h.opaque.set(clusterType, "1", "m")
			c := h.state()
			c.asks(clusterType, ofA("l"), "m")
			c.take()
			h.reroute(func(r *testRouter) { delete(r.authorities, "a") })
			c.wants("Cluster m@1 !" + ofA("l") + "=NotFound")
			h.reroute(func(r *testRouter) { r.authorities["a"] = h.a.store })
			c.wants("Cluster m@1 " + ofA("l") + "@1")
		}},
	})
}

// A plan that comes while a stream looks where its names live by the one before is looked
// at, too, whoever finds that out: a sender, or the reader with a request at hand.
func TestReroute_AGG2_WhileLooking(t *testing.T) {
	for name, begin := range map[string]func(h *harness, c *client){
		"sender": func(h *harness, _ *client) { h.server.Reroute() },
		"reader": func(h *harness, c *client) {
			h.server.plans.Add(1)
			c.unsubscribe(routeType, "another")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				h.opaque.set(routeType, "1", "r")
				h.other.set(routeType, "2", "r")
				looked := 0
				h.router.byName = func(string, string) (*cache.Store, error) {
					if looked < 2 {
						return h.opaque.store, nil
					}
					return h.other.store, nil
				}
				another := func() {
					h.router.mu.Lock()
					defer h.router.mu.Unlock()
					h.router.plan++
				}
				h.router.rerouting = func() {
					if looked++; looked == 1 {
						another()
						h.server.Reroute()
					}
				}
				c := h.client()
				c.subscribe(routeType, "r")
				c.wants("RouteConfiguration +r=1")
				another()
				begin(h, c)
				h.quiet()
				if s := h.status(); looked != 2 || s.Moving > 0 {
					t.Errorf("looked %d times, and %d things are left to be told", looked, s.Moving)
				}
				c.wants("RouteConfiguration +r=2")
			})
		})
	}
}
