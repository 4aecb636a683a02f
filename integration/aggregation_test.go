package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/config"
)

// nodesOf are the node IDs that the plane's streams presented.
func nodesOf(p *testPlane) []string {
	var ids []string
	for _, st := range p.streamsNow() {
		ids = append(ids, st.node)
	}
	slices.Sort(ids)
	return ids
}

func TestAggregation_AGG2_AGG3_SUB10(t *testing.T) {
	for _, tt := range []struct {
		policy config.Policy
		nodes  []string // presented upstream, with clients on the nodes a, a and b
	}{
		{config.Share, []string{"xdsrelay~"}},
		{config.Isolate, []string{"a", "b"}},
	} {
		t.Run("AGG-2 "+string(tt.policy), func(t *testing.T) {
			p := newPlane(t)
			p.set(clusterType, "c1", true)
			relay := startRelay(t, func(c *config.Config) { c.Aggregation.Otherwise = tt.policy }, p.addr)
			for _, node := range []string{"a", "a", "b"} {
				c := newClient(t, relay.addr, node)
				if err := c.connect(true); err != nil {
					t.Fatal(err)
				}
				c.subscribe(clusterType, []string{"*"}, nil)
				c.awaitHolding(t, clusterType, "c1")
			}
			if got := nodesOf(p); !slices.EqualFunc(got, tt.nodes, strings.HasPrefix) {
				t.Errorf("AGG-3: the control plane sees the nodes %v, want %v", got, tt.nodes)
			}
		})
	}
	t.Run("AGG-2 refuse", func(t *testing.T) {
		p := newPlane(t)
		p.set(clusterType, universe[clusterType][4], false)
		relay := startRelay(t, func(c *config.Config) { c.Aggregation.Otherwise = config.Refuse }, p.addr)
		c := newClient(t, relay.addr, "a")
		if err := c.connect(true); err != nil {
			t.Fatal(err)
		}
		c.subscribe(clusterType, []string{universe[clusterType][4]}, nil)
		c.awaitHolding(t, clusterType, universe[clusterType][4]) // xdstp names belong to nobody
		c.subscribe(clusterType, []string{"*"}, nil)
		c.await(t, "the refusal", func() bool { return !c.connected() })
		if err := c.ended(); status.Code(err) != codes.PermissionDenied {
			t.Errorf("AGG-2: the stream ended with %v, want PermissionDenied", err)
		}
	})
}

// TestClientFeaturesUpstream: what goes up is what the relay can do, and what of the
// client's is no matter of the protocol. An isolated client's node goes up as it is.
func TestClientFeaturesUpstream_AGG3_STR2_RES13(t *testing.T) {
	p := newPlane(t)
	p.set(clusterType, "c1", true)
	relay := startRelay(t, func(c *config.Config) { c.Aggregation.Otherwise = config.Isolate }, p.addr)
	c := newClient(t, relay.addr, "a")
	const lb = "envoy.lb.does_not_support_overprovisioning"
	c.profile, c.features = &corev3.Node{Cluster: "edge"}, []string{lb, "xds.config.resource-in-sotw", "xds.endpoint.x"}
	if err := c.connect(false); err != nil {
		t.Fatal(err)
	}
	c.subscribe(clusterType, []string{"*"}, nil)
	c.awaitHolding(t, clusterType, "c1")
	node := p.streamsNow()[0].requests[0].GetNode()
	if node.GetId() != "a" || node.GetCluster() != "edge" {
		t.Errorf("AGG-3: the control plane sees %v", node)
	}
	// The ttl is the relay's own word, whatever the client says.
	if got, want := node.GetClientFeatures(), []string{lb, "xds.config.resource-in-sotw", "xds.config.supports-resource-in-sotw", ttlFeature, "xds.endpoint.x"}; !slices.Equal(got, want) {
		t.Errorf("AGG-3 TTL-1 RES-13: client features upstream %v, want %v", got, want)
	}
}

// TestWildcardBesideNames holds SUB-12 on the wire: a resource that is only named
// never reaches the clients of "*", because a second stream carries the names.
func TestWildcardBesideNames_SUB12_SUB8(t *testing.T) {
	p := newPlane(t)
	for i := range 4 {
		p.set(clusterType, fmt.Sprint("member-", i), true)
	}
	p.set(clusterType, "apart", false)
	relay := startRelay(t, nil, p.addr)
	star, named, both := newClient(t, relay.addr, "star"), newClient(t, relay.addr, "named"), newClient(t, relay.addr, "both")
	for c, subs := range map[*client][]string{star: {"*"}, named: {"apart", "member-1"}, both: {"*", "apart", "member-1"}} {
		if err := c.connect(true); err != nil {
			t.Fatal(err)
		}
		c.subscribe(clusterType, subs, nil)
	}
	members := []string{"member-0", "member-1", "member-2", "member-3"}
	star.awaitHolding(t, clusterType, members...)
	named.awaitHolding(t, clusterType, "apart", "member-1")
	both.awaitHolding(t, clusterType, append(slices.Clone(members), "apart")...)
	p.set(clusterType, "apart", false)
	p.set(clusterType, "member-1", true)
	for _, c := range []*client{star, named, both} {
		c.await(t, "the changes", func() bool {
			return maps.Equal(c.state(clusterType), p.holds(clusterType, c.wanted(clusterType)))
		})
	}
	for _, r := range star.responses() {
		for _, x := range r.Resources {
			if x.Name == "apart" {
				t.Error("SUB-12: a resource that somebody else named reached a client of the wildcard")
			}
		}
	}
	if streams := p.streamsNow(); len(streams) != 2 {
		t.Errorf("SUB-12: %d streams, want 2", len(streams))
	}
	both.subscribe(clusterType, nil, []string{"apart", "member-1"})
	both.awaitHolding(t, clusterType, members...) // SUB-8: "apart" is taken away, "member-1" stays
	relay.consistent(t)
}
