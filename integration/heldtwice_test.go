package integration

import (
	"context"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// A cluster that an incremental client holds by "*" and by its name goes while the client is away. When the client comes
// back it is told so, direct and through a relay of either form to the control plane.
func TestGoneWhileAway_RES7_RES11_SUB8(t *testing.T) {
	servers := map[string]func(*testing.T, *testPlane) string{
		"direct": func(_ *testing.T, p *testPlane) string { return p.addr },
	}
	for _, api := range []config.APIType{config.AggregatedDeltaGRPC, config.AggregatedGRPC, config.GRPC, config.REST} {
		servers["relay, "+string(api)] = func(t *testing.T, p *testPlane) string {
			t.Helper()
			return startRelay(t, func(c *config.Config) {
				c.Upstreams[0].APIType, c.Upstreams[0].AbsentAfter = api, config.Duration(patience)
				if api == config.REST {
					c.Upstreams[0].Endpoints = [][]string{{p.RESTAddr()}}
				}
			}, p.addr).addr
		}
	}
	for name, serve := range servers {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t)
			p.Apply(plane.Change{Set: []plane.Resource{
				{Name: "x", Message: &clusterv3.Cluster{Name: "x"}}, {Name: "y", Message: &clusterv3.Cluster{Name: "y"}},
			}})
			conn, err := grpc.NewClient(serve(t, p), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			ctx, cancel := context.WithTimeout(t.Context(), patience/2)
			defer cancel()
			stays := openDelta(ctx, t, conn, "stays")
			stays.sends(&discovery.DeltaDiscoveryRequest{})
			away, end := context.WithCancel(ctx)
			leaves := openDelta(away, t, conn, "leaves")
			leaves.sends(&discovery.DeltaDiscoveryRequest{})
			stays.awaits("y", true)
			leaves.awaits("y", true)
			leaves.sends(&discovery.DeltaDiscoveryRequest{ResourceNamesSubscribe: []string{"x"}})
			leaves.awaits("x", true)
			end()
			p.Apply(plane.Change{Remove: []plane.Key{{TypeURL: clusterType, Name: "x"}}})
			stays.awaits("x", false)
			back := openDelta(ctx, t, conn, "leaves")
			back.sends(&discovery.DeltaDiscoveryRequest{ResourceNamesSubscribe: []string{"*", "x"}, InitialResourceVersions: leaves.versions})
			back.awaits("x", false)
			if len(back.errors) > 0 {
				t.Errorf("RES-7: the client was told of %v", back.errors)
			}
		})
	}
}

// deltaClient is an incremental client of clusters.
type deltaClient struct {
	*testing.T

	stream   discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	node     *corev3.Node
	versions map[string]string
	told     map[string]bool // names that it was told of, and whether they exist
	errors   []string
}

func openDelta(ctx context.Context, t *testing.T, conn *grpc.ClientConn, id string) *deltaClient {
	t.Helper()
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return &deltaClient{T: t, stream: stream, node: &corev3.Node{Id: id}, versions: make(map[string]string), told: make(map[string]bool)}
}

func (c *deltaClient) sends(r *discovery.DeltaDiscoveryRequest) {
	c.Helper()
	r.TypeUrl, r.Node = clusterType, c.node
	if err := c.stream.Send(r); err != nil {
		c.Fatal(err)
	}
}

// awaits takes and acknowledges responses until one tells whether a cluster exists. Each call forgets what the one
// before was told of the cluster.
func (c *deltaClient) awaits(name string, exists bool) {
	c.Helper()
	for is, told := c.told[name]; !told || is != exists; is, told = c.told[name] {
		r, err := c.stream.Recv()
		if err != nil {
			c.Fatalf("waiting for %s (there: %t): %v; errors %v", name, exists, err, c.errors)
		}
		for _, x := range r.GetResources() {
			c.told[x.GetName()], c.versions[x.GetName()] = true, x.GetVersion()
		}
		for _, x := range r.GetRemovedResources() {
			c.told[x] = false
			delete(c.versions, x)
		}
		for _, e := range r.GetResourceErrors() {
			c.errors = append(c.errors, e.String())
		}
		c.sends(&discovery.DeltaDiscoveryRequest{ResponseNonce: r.GetNonce()})
	}
	delete(c.told, name)
}
