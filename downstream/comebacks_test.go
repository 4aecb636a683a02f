package downstream

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// streamsOf are the methods of the streams of one type.
var streamsOf = map[string]string{
	clusterType:  "/envoy.service.cluster.v3.ClusterDiscoveryService/",
	endpointType: "/envoy.service.endpoint.v3.EndpointDiscoveryService/",
	routeType:    "/envoy.service.route.v3.RouteDiscoveryService/",
}

// returns opens a stream of one type, incremental, of a client that holds a resource. Empty: it holds none.
func (h *harness) returns(typeURL, nodeID, held, name string) *client {
	h.Helper()
	c := h.deltaOn(streamsOf[typeURL] + map[string]string{clusterType: "DeltaClusters", endpointType: "DeltaEndpoints", routeType: "DeltaRoutes"}[typeURL])
	c.acking = true
	r := &request{Node: node(nodeID), TypeUrl: typeURL, ResourceNamesSubscribe: []string{name}}
	if held != "" {
		r.InitialResourceVersions = map[string]string{held: "1"}
	}
	c.send(r)
	return c
}

// moved has a cluster replaced, and a route moved to the new one, while a client is away.
func (h *harness) moved() {
	h.Helper()
	h.opaque.put(clusterType, edsCluster(h, "new", "2"))
	h.opaque.set(endpointType, "2", "new")
	h.opaque.set(routeType, "2", "r")
	everything(h.client()) // the relay knows all of it
	h.opaque.settle()
}

// A client with a stream for each type gets its new routes when it has accepted the clusters that it lacked, and their
// endpoints, on other streams. It loses clusters later than streams come back (WARM-4, ADS-4).
func TestComesBackStreamByStream_WARM4_ADS4(t *testing.T) {
	const route = "RouteConfiguration +r=2"
	runPaced(t, []scenario{
		{"the stream of routes is first", func(h *harness) {
			h.moved()
			routes := h.returns(routeType, "n", "r", "r")
			routes.wants()
			clusters := h.returns(clusterType, "n", "old", "*")
			clusters.wants("Cluster +new=2")
			routes.wants()
			h.returns(endpointType, "n", "", "new").wants("ClusterLoadAssignment +new=2")
			routes.wants(route)
			h.advance(time.Second - tick)
			clusters.wants()
			h.advance(tick)
			clusters.wants("Cluster -old")
		}},
		{"the stream of routes is last", func(h *harness) {
			h.moved()
			h.returns(clusterType, "n", "old", "*").wants("Cluster +new=2")
			endpoints := h.returns(endpointType, "n", "", "new")
			endpoints.wants("ClusterLoadAssignment +new=2")
			h.returns(routeType, "n", "r", "r").wants(route)
		}},
		{"in the state of the world", func(h *harness) {
			h.moved()
			routes := h.stateOn(streamsOf[routeType]+"StreamRoutes", true)
			routes.asksWith(routeType, "before", "r")
			routes.wants()
			clusters := h.stateOn(streamsOf[clusterType]+"StreamClusters", true)
			clusters.asksWith(clusterType, "before")
			if n := len(clusters.take()); n != 1 {
				h.Errorf("%d lists of clusters", n)
			}
			h.stateOn(edsStream, true).asksWith(endpointType, "before", "old")
			routes.wants()
			h.stateOn(edsStream, true).asks(endpointType, "new")
			if n := len(routes.take()); n != 1 {
				h.Errorf("%d responses with the route", n)
			}
		}},
		{"it asks for the endpoints of the cluster when it comes back", func(h *harness) {
			h.moved()
			routes := h.stateOn(streamsOf[routeType]+"StreamRoutes", true)
			routes.asksWith(routeType, "before", "r")
			h.stateOn(streamsOf[clusterType]+"StreamClusters", true).asksWith(clusterType, "before")
			routes.wants()
			h.stateOn(edsStream, true).asksWith(endpointType, "before", "new")
			if n := len(routes.take()); n != 1 {
				h.Errorf("%d responses with the route", n)
			}
		}},
		{"nothing is new to it but the route", func(h *harness) {
			h.moved()
			routes := h.returns(routeType, "n", "r", "r")
			clusters := h.deltaOn(streamsOf[clusterType] + "DeltaClusters")
			clusters.send(&request{Node: node("n"), TypeUrl: clusterType, ResourceNamesSubscribe: []string{"*"}, InitialResourceVersions: map[string]string{"new": "2"}})
			clusters.wants()
			routes.wants(route)
		}},
		{"no stream of clusters comes", func(h *harness) {
			h.moved()
			routes := h.returns(routeType, "n", "r", "r")
			h.returns(clusterType, "other", "new", "*").take()
			h.advance(500*time.Millisecond - tick)
			routes.wants()
			h.advance(tick)
			routes.wants(route)
		}},
		{"a client that begins", func(h *harness) {
			h.moved()
			h.returns(clusterType, "n", "", "*").wants("Cluster +new=2")
			h.returns(routeType, "n", "", "r").wants(route)
		}},
		{"nothing is kept of streams that ended", func(h *harness) {
			h.moved()
			for _, typeURL := range []string{clusterType, endpointType, routeType} {
				c := h.returns(typeURL, "n", "old", "old")
				c.take()
				c.cancel()
			}
			h.quiet()
			if c := &h.server.shared.comebacks; c.some.Load() != 0 || len(c.nodes) != 0 {
				h.Errorf("LIM-1: %d nodes are kept without a stream", c.some.Load())
			}
		}},
		{"nothing is kept for long", func(h *harness) {
			h.moved()
			routes := h.returns(routeType, "n", "r", "r")
			routes.wants()
			clusters := h.returns(clusterType, "n", "old", "*")
			clusters.take()
			routes.cancel()
			h.quiet()
			c := &h.server.shared.comebacks
			if c.some.Load() != 1 || len(c.nodes) != 1 || len(c.nodes["n"].waiting) != 0 {
				h.Errorf("%d nodes, and one has %d streams that wait", c.some.Load(), len(c.nodes["n"].waiting))
			}
			h.returns(routeType, "begins", "", "r").take()
			h.advance(comebackWindow)
			if c.some.Load() != 0 || len(c.nodes) != 0 {
				h.Errorf("%d nodes are kept", c.some.Load())
			}
		}},
	})
}

// What is kept of a node is bounded, whatever its streams ask for (LIM-1).
func TestComebackIsBounded_LIM1(t *testing.T) {
	var c comebacks
	names, endpoints := make([]string, 2*maxComeback), make(map[string]struct{})
	for i := range names {
		names[i] = string(rune(i + 1))
		endpoints["new"+names[i]] = struct{}{}
	}
	c.begins("n", nil, xds.RankEndpoint, names)
	c.sends("n", endpoints, false)
	if b := c.nodes["n"]; len(b.has) != maxComeback || len(b.lacks) != maxComeback {
		t.Errorf("%d and %d names", len(b.has), len(b.lacks))
	}
}
