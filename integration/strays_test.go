package integration

import (
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

// TestStrays has clients that name what they want, as gRPC's do, follow changes of a control
// plane that says nothing to who names what does not exist. What a client let go of, since
// nothing refers to it any more, must not be what the relay goes on naming.
func TestStrays_SUB11(t *testing.T) {
	t.Parallel()
	for _, v := range []variant{sotwADS, deltaADS} {
		t.Run("SUB-11 "+v.name, func(t *testing.T) {
			t.Parallel()
			p := newPlane(t)
			p.Behave(func(b *plane.Behaviour) { b.AllOrNothing = true })
			relay := startRelayOver(t, upSotwADS, p, nil)
			followStrays(t, p, newVariantClient(t, v, relay.address(v), "client"))
			relay.consistent(t)
		})
	}
}

func followStrays(t *testing.T, p *testPlane, c xdsClient) {
	t.Helper()
	h := c.common()
	put := func(typeURL, name string, m proto.Message) (payload string) {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		p.put(typeURL, name, b)
		return string(b)
	}
	cluster := func(name, service string) string {
		return put(clusterType, name, &clusterv3.Cluster{
			Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
			EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{ServiceName: service},
		})
	}
	endpoints := func(name string, drops int) string {
		m := &endpointv3.ClusterLoadAssignment{ClusterName: name, Policy: &endpointv3.ClusterLoadAssignment_Policy{}}
		for range drops {
			m.Policy.DropOverloads = append(m.Policy.DropOverloads, &endpointv3.ClusterLoadAssignment_Policy_DropOverload{Category: "x"})
		}
		return put(endpointType, name, m)
	}
	route := func(name, cluster string) string {
		return put(routeType, name, &routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{{
			Name: name, Domains: []string{"*"},
			Routes: []*routev3.Route{{Action: &routev3.Route_Route{Route: &routev3.RouteAction{
				ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster},
			}}}},
		}}})
	}
	comes := func(typeURL, name, payload string) {
		t.Helper()
		if !h.happens(func() bool { return h.payloads(typeURL)[name] == payload }) {
			t.Fatalf("the client is not sent the last %q of %s", name, typeURL)
		}
	}

	endpoints("e1", 0)
	endpoints("e2", 0)
	cluster("c1", "e1")
	cluster("c2", "e2")
	route("r", "c1")
	for typeURL, names := range map[string][]string{clusterType: {"c1", "c2"}, endpointType: {"e1", "e2"}, routeType: {"r"}} {
		c.subscribe(typeURL, names, nil)
	}
	if err := c.connect(false); err != nil {
		t.Fatal(err)
	}
	for typeURL, names := range map[string][]string{clusterType: {"c1", "c2"}, endpointType: {"e1", "e2"}, routeType: {"r"}} {
		h.awaitHolding(t, typeURL, names...)
	}

	comes(routeType, "r", route("r", "c2"))
	c.subscribe(clusterType, nil, []string{"c1"})
	c.subscribe(endpointType, nil, []string{"e1"})
	p.unset(clusterType, "c1")
	p.unset(endpointType, "e1")
	comes(endpointType, "e2", endpoints("e2", 1))
	comes(clusterType, "c2", cluster("c2", "e3")) // which comes later

	c.subscribe(endpointType, []string{"e3"}, []string{"e2"})
	p.unset(endpointType, "e2")
	comes(endpointType, "e3", endpoints("e3", 0))
	comes(endpointType, "e3", endpoints("e3", 1))
}
