package integration

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
)

// Where the relay follows redirects it has no parameters to go on with: names with some
// are refused, and what the client has under the name without them stays.
func TestDynamicParametersOfFollowedNames_DYN1_LOC1_ERR1(t *testing.T) {
	name := nameAt("a", clusterType, "x")
	p := newPlane(t)
	p.plain = true
	p.set(clusterType, name, false)
	r := startRelay(t, func(c *config.Config) {
		c.Upstreams[0].Authorities, c.Upstreams[0].Redirects = []string{"a"}, config.FollowRedirects
	}, p.addr)
	conn, err := grpc.NewClient(r.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	g, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	exchange := func(m *discovery.DeltaDiscoveryRequest) *discovery.DeltaDiscoveryResponse {
		t.Helper()
		m.TypeUrl = clusterType
		if err := g.Send(m); err != nil {
			t.Fatal(err)
		}
		got, err := g.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := exchange(&discovery.DeltaDiscoveryRequest{Node: &corev3.Node{Id: "client"}, ResourceNamesSubscribe: []string{name}})
	if len(got.GetResources()) != 1 {
		t.Fatalf("without parameters: %v", got)
	}
	got = exchange(&discovery.DeltaDiscoveryRequest{
		ResponseNonce:             got.GetNonce(),
		ResourceLocatorsSubscribe: []*discovery.ResourceLocator{locate(name + " env=prod"), locate(name + " env=test")},
	})
	if len(got.GetRemovedResources())+len(got.GetRemovedResourceNames()) > 0 {
		t.Errorf("something is removed: %v", got)
	}
	if !slices.ContainsFunc(got.GetResourceErrors(), func(e *discovery.ResourceError) bool {
		return e.GetResourceName().GetName() == name && e.GetErrorDetail().GetCode() == int32(codes.InvalidArgument) &&
			strings.Contains(e.GetErrorDetail().GetMessage(), "cannot be subscribed to with dynamic parameters")
	}) {
		t.Errorf("with parameters: %v", got)
	}
	r.consistent(t)
}
