package gocontrolplane

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

const (
	cds = resourcev3.ClusterType
	eds = resourcev3.EndpointType
)

// kinds gives a control plane with either kind of cache.
func kinds() map[string]*ControlPlane {
	return map[string]*ControlPlane{"linear": New(), "snapshot": NewSnapshot()}
}

// started starts a control plane on a free port for the time of a test.
func started(t *testing.T, c *ControlPlane) *ControlPlane {
	t.Helper()
	if err := c.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func cluster(name, stat string) *clusterv3.Cluster {
	return &clusterv3.Cluster{Name: name, AltStatName: stat}
}

func endpoints(name string) *endpointv3.ClusterLoadAssignment {
	return &endpointv3.ClusterLoadAssignment{ClusterName: name}
}

func set(t *testing.T, c *ControlPlane, name string, message proto.Message) (version string) {
	t.Helper()
	version, err := c.UpdateResource(name, message)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

func remove(t *testing.T, c *ControlPlane, typeURL, name string) {
	t.Helper()
	if err := c.DeleteResource(typeURL, name); err != nil {
		t.Fatal(err)
	}
}

// client is one incremental ADS stream.
type client struct {
	*testing.T
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
}

func dial(t *testing.T, c *ControlPlane) (context.Context, discoveryv3.AggregatedDiscoveryServiceClient) {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+c.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return deadline(t), discoveryv3.NewAggregatedDiscoveryServiceClient(conn)
}

// deadline is what no test should need.
func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func connect(t *testing.T, c *ControlPlane) *client {
	t.Helper()
	ctx, ads := dial(t, c)
	stream, err := ads.DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return &client{t, stream}
}

func (c *client) send(req *discoveryv3.DeltaDiscoveryRequest) {
	c.Helper()
	req.Node = &corev3.Node{Id: "node"}
	if err := c.stream.Send(req); err != nil {
		c.Fatal(err)
	}
}

func (c *client) subscribe(typeURL string, names ...string) {
	c.Helper()
	c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: names})
}

func (c *client) unsubscribe(typeURL string, names ...string) {
	c.Helper()
	c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesUnsubscribe: names})
}

// expect takes the next response, acknowledges it, and compares what is in it.
// Silence before it is shown by what is not in it.
func (c *client) expect(typeURL string, resources map[string]string, removed ...string) {
	c.Helper()
	resp, err := c.stream.Recv()
	if err != nil {
		c.Fatal(err)
	}
	got := make(map[string]string)
	for _, r := range resp.GetResources() {
		got[r.GetName()] = r.GetVersion()
	}
	if resources == nil {
		resources = map[string]string{}
	}
	if diff := cmp.Diff(resources, got); diff != "" || resp.GetTypeUrl() != typeURL {
		c.Errorf("a response for %s with other resources (-want +got):\n%s", resp.GetTypeUrl(), diff)
	}
	if gone := slices.Sorted(slices.Values(resp.GetRemovedResources())); !slices.Equal(gone, removed) {
		c.Errorf("removed %q, expected %q", gone, removed)
	}
	c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: resp.GetNonce()})
}

func names[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
