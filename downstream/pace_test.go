package downstream

import (
	"fmt"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// paced is a server with the waits that operators have.
func paced(c *Config) {
	c.Limits = Limits{AckWait: DefaultAckWait, RemovalWait: 200 * time.Millisecond, WarmWait: 500 * time.Millisecond}
}

// runPaced runs scenarios against servers with these waits.
func runPaced(t *testing.T, scenarios []scenario) {
	t.Helper()
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) { bubble(t, s.run, paced) })
	}
}

const tick = time.Millisecond

func TestAckWait_ADS2(t *testing.T) {
	runPaced(t, []scenario{
		{"a response waits 200 ms for the ACK of the last", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.slowClient()
			c.subscribe(clusterType)
			c.wants("Cluster +a=1")
			h.opaque.set(clusterType, "2", "a")
			h.advance(DefaultAckWait - tick)
			c.wants()
			h.advance(tick)
			c.wants("Cluster +a=2")
		}},
		{"with eight outstanding changes merge, and one response goes each second", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.slowClient()
			c.subscribe(clusterType)
			c.wants("Cluster +a=1")
			for i := 2; i <= 8; i++ {
				h.opaque.set(clusterType, fmt.Sprint(i), "a")
				h.advance(DefaultAckWait)
				c.wants(fmt.Sprintf("Cluster +a=%d", i))
			}
			for i := range 40 { // far more than a response may be kept of
				for j := range 3 {
					h.opaque.set(clusterType, fmt.Sprintf("%d-%d", i, j), "a")
					h.advance(300 * time.Millisecond)
					c.wants()
				}
				h.advance(100 * time.Millisecond)
				c.wants(fmt.Sprintf("Cluster +a=%d-2", i))
			}
		}},
		{"an ACK lets the next one go at once, in however many it was the last", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.slowClient()
			c.subscribe(clusterType)
			last := c.wants("Cluster +a=1")[0]
			for i := 2; i <= 12; i++ {
				h.opaque.set(clusterType, fmt.Sprint(i), "a")
				h.advance(time.Second)
				last = c.wants(fmt.Sprintf("Cluster +a=%d", i))[0]
			}
			c.ack(last)
			h.opaque.set(clusterType, "13", "a")
			last = c.wants("Cluster +a=13")[0]
			h.opaque.set(clusterType, "14", "a")
			c.wants()
			c.ack(last)
			c.wants("Cluster +a=14")
		}},
		{"a type that is never acknowledged delays no other one", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			h.opaque.set(routeType, "1", "r")
			c := h.slowClient()
			c.subscribe(clusterType)
			c.wants("Cluster +a=1")
			c.subscribe(routeType, "r")
			c.ack(c.wants("RouteConfiguration +r=1")[0])
			h.opaque.set(routeType, "2", "r")
			c.wants("RouteConfiguration +r=2")
		}},
		{"a quiet client has no alarm set for it", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.client()
			c.subscribe(clusterType)
			c.wants("Cluster +a=1")
			h.server.mu.Lock()
			defer h.server.mu.Unlock()
			for _, m := range h.server.members {
				if m.(*stream).alarm.timer != nil {
					h.Error("an alarm is set, and nothing waits")
				}
			}
		}},
	})
}

func TestRemovalWait_ADS4(t *testing.T) {
	everything := func(h *harness, c *client) {
		h.Helper()
		h.opaque.set(clusterType, "1", "a", "b")
		h.opaque.set(endpointType, "1", "a")
		h.opaque.set(routeType, "1", "r")
		c.subscribe(clusterType)
		c.subscribe(endpointType, "a")
		c.subscribe(routeType, "r")
		c.wants("Cluster +a=1 +b=1", "ClusterLoadAssignment +a=1", "RouteConfiguration +r=1")
	}
	runPaced(t, []scenario{
		{"removals of clusters and endpoints wait for what follows", func(h *harness) {
			c := h.client()
			everything(h, c)
			h.opaque.unset(clusterType, "a")
			h.opaque.unset(endpointType, "a")
			h.advance(100 * time.Millisecond)
			c.wants()
			h.opaque.set(routeType, "2", "r") // away from a
			c.wants("RouteConfiguration +r=2")
			h.advance(100*time.Millisecond - tick)
			c.wants()
			h.advance(tick)
			c.wants("Cluster -a", "ClusterLoadAssignment -a")
		}},
		{"ADS-5 removals of routes wait too, those of listeners do not", func(h *harness) {
			c := h.client()
			h.opaque.set(listenerType, "1", "l")
			c.subscribe(listenerType, "l")
			c.wants("Listener +l=1")
			everything(h, c)
			h.opaque.unset(routeType, "r")
			h.opaque.unset(listenerType, "l")
			c.wants("Listener -l")
			h.advance(200*time.Millisecond - tick)
			c.wants()
			h.advance(tick)
			c.wants("RouteConfiguration -r")
		}},
		{"RES-6 that a name does not exist is told at once", func(h *harness) {
			c := h.client()
			everything(h, c)
			c.subscribe(endpointType, "none")
			c.wants("ClusterLoadAssignment -none")
		}},
		{"a removal waits until what came with it was accepted", func(h *harness) {
			c := h.client()
			everything(h, c)
			c.acking = false
			h.opaque.unset(clusterType, "a")
			h.opaque.set(routeType, "2", "r")
			route := c.wants("RouteConfiguration +r=2")[0]
			h.advance(4 * time.Second)
			c.wants()
			c.ack(route)
			c.wants("Cluster -a")
		}},
		{"but not for longer than five seconds", func(h *harness) {
			c := h.client()
			everything(h, c)
			c.acking = false
			h.opaque.unset(clusterType, "a")
			h.opaque.set(routeType, "2", "r")
			c.wants("RouteConfiguration +r=2")
			h.advance(5*time.Second + 200*time.Millisecond - tick)
			c.wants()
			h.advance(tick)
			c.wants("Cluster -a")
		}},
		{"routes that never rest do not keep a cluster", func(h *harness) {
			c := h.client()
			everything(h, c)
			h.opaque.unset(clusterType, "a")
			for i := range 20 {
				h.opaque.set(routeType, fmt.Sprint("n", i), "r")
				h.advance(20 * time.Millisecond)
			}
			removed := 0
			for _, r := range c.take() {
				removed += len(r.RemovedResources)
			}
			if removed != 1 {
				h.Errorf("%d removals after 400 ms, want 1", removed)
			}
		}},
		{"a removal that is taken back in time is never told", func(h *harness) {
			c := h.client()
			everything(h, c)
			h.opaque.unset(clusterType, "a")
			h.advance(100 * time.Millisecond)
			h.opaque.set(clusterType, "2", "a")
			c.wants("Cluster +a=2")
			h.advance(time.Second)
			c.wants()
		}},
		{"RES-11 what a returning client holds and does not exist waits likewise", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			warm := h.client()
			warm.subscribe(clusterType)
			warm.wants("Cluster +a=1")
			h.opaque.settle()
			c := h.client()
			c.send(&request{TypeUrl: clusterType, InitialResourceVersions: map[string]string{"a": "1", "gone": "1"}})
			c.wants()
			h.advance(200*time.Millisecond - tick)
			c.wants()
			h.advance(tick)
			c.wants("Cluster -gone")
		}},
		{"a list goes on holding what was removed for as long", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			h.opaque.set(routeType, "1", "r")
			c := h.state()
			c.asks(clusterType)
			c.asks(routeType, "r")
			c.wants("Cluster a@1 b@1", "RouteConfiguration r@1")
			h.opaque.unset(clusterType, "a")
			h.opaque.set(clusterType, "2", "b")
			c.wants("Cluster a@1 b@2")
			h.opaque.set(routeType, "2", "r")
			c.wants("RouteConfiguration r@2")
			h.advance(200*time.Millisecond - tick)
			c.wants()
			h.advance(tick)
			c.wants("Cluster b@2")
		}},
		{"over several stores removals wait for the later types of all", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			h.a.set(routeType, "1", ofARoute)
			c := h.client()
			c.subscribe(clusterType)
			c.subscribe(routeType, ofARoute)
			c.wants("Cluster +a=1", "RouteConfiguration +"+ofARoute+"=1")
			c.acking = false
			h.a.set(routeType, "2", ofARoute)
			route := c.wants("RouteConfiguration +" + ofARoute + "=2")[0]
			h.opaque.unset(clusterType, "a")
			h.advance(time.Second)
			c.wants()
			c.ack(route)
			c.wants("Cluster -a")
		}},
	})
}

const ofARoute = "xdstp://a/envoy.config.route.v3.RouteConfiguration/r"

// edsCluster is a cluster of type EDS, whose payload tells its version.
func edsCluster(tb testFataler, name, version string) *discovery.Resource {
	payload, err := anypb.New(&clusterv3.Cluster{
		Name: name, AltStatName: version, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return &discovery.Resource{Name: name, Version: version, Resource: payload}
}

type testFataler interface{ Fatal(args ...any) }

func TestWarming_WARM3(t *testing.T) {
	runPaced(t, []scenario{
		{"endpoints go again behind a cluster that changed", func(h *harness) {
			h.opaque.put(clusterType, edsCluster(h, "c", "1"))
			h.opaque.set(endpointType, "1", "c", "d")
			c := h.client()
			c.subscribe(clusterType)
			c.subscribe(endpointType, "c", "d")
			c.wants("Cluster +c=1", "ClusterLoadAssignment +c=1 +d=1")
			h.opaque.put(clusterType, edsCluster(h, "c", "2"))
			c.wants("Cluster +c=2", "ClusterLoadAssignment +c=1")
		}},
		{"not for other types of cluster", func(h *harness) {
			h.opaque.set(clusterType, "1", "c")
			h.opaque.set(endpointType, "1", "c")
			c := h.client()
			c.subscribe(clusterType)
			c.subscribe(endpointType, "c")
			c.wants("Cluster +c=1", "ClusterLoadAssignment +c=1")
			h.opaque.set(clusterType, "2", "c")
			c.wants("Cluster +c=2")
		}},
		{"also where the client presented their version", func(h *harness) {
			h.opaque.put(clusterType, edsCluster(h, "c", "2"))
			h.opaque.set(endpointType, "1", "c", "d")
			keeper := h.client()
			keeper.subscribe(endpointType, "c", "d") // so that they are known
			keeper.take()
			c := h.client()
			c.send(&request{TypeUrl: clusterType, InitialResourceVersions: map[string]string{"c": "1"}})
			c.send(&request{
				TypeUrl: endpointType, ResourceNamesSubscribe: []string{"c", "d"},
				InitialResourceVersions: map[string]string{"c": "1", "d": "1"},
			})
			c.wants("Cluster +c=2", "ClusterLoadAssignment +c=1")
		}},
		{"of a glob's member too, and across stores", func(h *harness) {
			glob := "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/d/*"
			member := "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/d/m"
			cluster := func(version string) *discovery.Resource {
				payload, err := anypb.New(&clusterv3.Cluster{
					Name: "c", AltStatName: version, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
					EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{ServiceName: member},
				})
				if err != nil {
					h.Fatal(err)
				}
				return &discovery.Resource{Name: "c", Version: version, Resource: payload}
			}
			h.opaque.put(clusterType, cluster("1"))
			h.a.set(endpointType, "1", member)
			c := h.client()
			c.subscribe(clusterType)
			c.subscribe(endpointType, glob)
			c.wants("Cluster +c=1", "ClusterLoadAssignment +"+member+"=1")
			h.opaque.put(clusterType, cluster("2"))
			c.wants("Cluster +c=2", "ClusterLoadAssignment +"+member+"=1")
		}},
		{"behind a cluster of another store, whichever delivers last", func(h *harness) {
			name := "xdstp://a/envoy.config.cluster.v3.Cluster/c"
			cluster := func(version string) *discovery.Resource {
				r := edsCluster(h, "c", version)
				r.Name = name
				return r
			}
			h.a.put(clusterType, cluster("1"))
			h.opaque.set(clusterType, "1", "static")
			h.opaque.set(endpointType, "1", "c")
			c := h.client()
			c.subscribe(clusterType, "*", name)
			c.subscribe(endpointType, "c")
			c.take()
			h.a.put(clusterType, cluster("2"))
			c.wants("Cluster +"+name+"=2", "ClusterLoadAssignment +c=1")
		}},
		{"a client of the state of the world asks by itself (WARM-1)", func(h *harness) {
			h.opaque.put(clusterType, edsCluster(h, "c", "1"))
			h.opaque.set(endpointType, "1", "c")
			c := h.state()
			c.asks(clusterType)
			c.asks(endpointType, "c")
			c.take()
			h.opaque.put(clusterType, edsCluster(h, "c", "2"))
			if got := c.take(); len(got) != 1 || got[0].TypeUrl != clusterType {
				h.Errorf("got %v, want the cluster", got)
			}
		}},
	})
}

func TestWarming_WARM4(t *testing.T) {
	begun := func(h *harness) *client {
		h.Helper()
		h.opaque.put(clusterType, edsCluster(h, "old", "1"))
		h.opaque.set(endpointType, "1", "old")
		h.opaque.set(routeType, "1", "r")
		h.opaque.set(listenerType, "1", "l")
		c := h.client()
		c.subscribe(clusterType)
		c.subscribe(endpointType, "old")
		c.subscribe(listenerType)
		c.subscribe(routeType, "r")
		c.wants("Cluster +old=1", "ClusterLoadAssignment +old=1", "Listener +l=1", "RouteConfiguration +r=1")
		return c
	}
	runPaced(t, []scenario{
		{"routes and listeners wait for the endpoints of a new cluster", func(h *harness) {
			c := begun(h)
			h.opaque.put(clusterType, edsCluster(h, "new", "1"))
			h.opaque.set(listenerType, "2", "l")
			h.opaque.set(routeType, "2", "r")
			c.wants("Cluster +new=1")
			h.advance(100 * time.Millisecond)
			c.wants()
			h.opaque.set(endpointType, "1", "new")
			c.acking = false
			c.subscribe(endpointType, "new")
			endpoints := c.wants("ClusterLoadAssignment +new=1")[0]
			c.ack(endpoints)
			c.wants("Listener +l=2", "RouteConfiguration +r=2")
		}},
		{"of one that was removed before", func(h *harness) {
			c := begun(h)
			for _, version := range []string{"2", "4", "6"} {
				h.opaque.unset(clusterType, "old")
				h.opaque.unset(endpointType, "old")
				h.advance(200 * time.Millisecond)
				c.wants("Cluster -old", "ClusterLoadAssignment -old")
				c.unsubscribe(endpointType, "old")
				c.take()
				h.opaque.put(clusterType, edsCluster(h, "old", version))
				h.opaque.set(routeType, version, "r")
				c.wants("Cluster +old=" + version)
				h.opaque.set(endpointType, version, "old")
				c.subscribe(endpointType, "old")
				c.wants("ClusterLoadAssignment +old="+version, "RouteConfiguration +r="+version)
			}
		}},
		{"of one that changed, after others did, before it was sent", func(h *harness) {
			c := begun(h)
			c.acking = false
			h.opaque.set(clusterType, "1", "static")
			first := c.wants("Cluster +static=1")[0]
			h.opaque.put(clusterType, edsCluster(h, "new", "1"))
			h.opaque.set(clusterType, "2", "static")
			h.opaque.put(clusterType, edsCluster(h, "new", "2"))
			c.wants()
			c.ack(first)
			clusters := c.wants("Cluster +new=2 +static=2")[0]
			c.ack(clusters)
			h.opaque.set(routeType, "2", "r")
			c.wants()
			h.opaque.set(endpointType, "1", "new")
			c.subscribe(endpointType, "new")
			c.ack(c.wants("ClusterLoadAssignment +new=1")[0])
			c.wants("RouteConfiguration +r=2")
		}},
		{"of one that goes out although clusters before it are not acknowledged", func(h *harness) {
			c := begun(h)
			c.acking = false
			h.opaque.set(clusterType, "1", "static")
			c.wants("Cluster +static=1")
			h.opaque.put(clusterType, edsCluster(h, "new", "1"))
			c.wants()
			h.opaque.set(routeType, "2", "r")
			c.wants("Cluster +new=1")
			h.opaque.set(endpointType, "1", "new")
			c.subscribe(endpointType, "new")
			c.ack(c.wants("ClusterLoadAssignment +new=1")[0])
			c.wants("RouteConfiguration +r=2")
		}},
		{"not of one that came back before the client was told of its removal", func(h *harness) {
			c := begun(h)
			h.opaque.unset(clusterType, "old")
			c.wants()
			h.opaque.put(clusterType, edsCluster(h, "old", "2"))
			h.opaque.set(routeType, "2", "r")
			c.wants("Cluster +old=2", "ClusterLoadAssignment +old=1", "RouteConfiguration +r=2")
		}},
		{"for 500 ms at most, and later clusters do not prolong it", func(h *harness) {
			c := begun(h)
			h.opaque.put(clusterType, edsCluster(h, "new", "1"))
			h.opaque.set(routeType, "2", "r")
			c.wants("Cluster +new=1")
			h.advance(400 * time.Millisecond)
			h.opaque.put(clusterType, edsCluster(h, "newer", "1"))
			c.wants("Cluster +newer=1")
			h.advance(100*time.Millisecond - tick)
			c.wants()
			h.advance(tick)
			c.wants("RouteConfiguration +r=2")
		}},
		{"other types of cluster and changed clusters do not count", func(h *harness) {
			c := begun(h)
			h.opaque.set(clusterType, "1", "static")
			h.opaque.set(routeType, "2", "r")
			c.wants("Cluster +static=1", "RouteConfiguration +r=2")
			h.opaque.put(clusterType, edsCluster(h, "old", "2"))
			h.opaque.set(routeType, "3", "r")
			c.wants("Cluster +old=2", "ClusterLoadAssignment +old=1", "RouteConfiguration +r=3")
		}},
		{"a client that has neither listeners nor routes waits for nothing", func(h *harness) {
			h.opaque.put(clusterType, edsCluster(h, "c", "1"))
			h.opaque.set(listenerType, "1", "l")
			c := h.client()
			c.subscribe(clusterType)
			c.subscribe(listenerType)
			c.wants("Cluster +c=1", "Listener +l=1")
		}},
		{"the state of the world, likewise", func(h *harness) {
			h.opaque.put(clusterType, edsCluster(h, "old", "1"))
			h.opaque.set(endpointType, "1", "old", "new")
			h.opaque.set(routeType, "1", "r")
			c := h.state()
			c.asks(clusterType)
			c.asks(endpointType, "old")
			c.asks(routeType, "r")
			c.take()
			h.opaque.put(clusterType, edsCluster(h, "new", "1"))
			h.opaque.set(routeType, "2", "r")
			if got := c.take(); len(got) != 1 || got[0].TypeUrl != clusterType || len(got[0].Resources) != 2 {
				h.Errorf("got %v, want the clusters", got)
			}
			c.asks(endpointType, "old", "new") // which asks for all of them again (WARM-1)
			c.wants("ClusterLoadAssignment old@1", "ClusterLoadAssignment new@1", "RouteConfiguration r@2")
			h.opaque.unset(clusterType, "new")
			h.advance(200 * time.Millisecond)
			c.take()
			c.asks(endpointType, "old")
			c.take()
			h.opaque.put(clusterType, edsCluster(h, "new", "3"))
			h.opaque.set(routeType, "3", "r")
			if got := c.take(); len(got) != 1 || got[0].TypeUrl != clusterType || len(got[0].Resources) != 2 {
				h.Errorf("got %v, want the clusters", got)
			}
			c.asks(endpointType, "old", "new")
			c.wants("ClusterLoadAssignment new@1 old@1", "RouteConfiguration r@3")
		}},
	})
}
