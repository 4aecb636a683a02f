package integration

import (
	"context"
	"maps"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
)

const (
	serviceEntryType = "networking.istio.io/v1alpha3/ServiceEntry"
	filterChainType  = "type.googleapis.com/envoy.config.listener.v3.FilterChain"
	mcpType          = "type.googleapis.com/istio.mcp.v1alpha1.Resource"
)

// mcpResource is a resource as Istio serves its own configuration: its type says only that.
func mcpResource(name string) *anypb.Any {
	metadata := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	return &anypb.Any{TypeUrl: mcpType, Value: protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), metadata)}
}

// The resources of a type that nobody knows may all be of another one.
func TestOtherPayloadType_ACK6_VAR8(t *testing.T) {
	testPasses(t, serviceEntryType, "*", mcpResource)
}

// The name of a filter chain is not in the first field of the payload, as that of other resources is.
func TestFilterChains_ADS6(t *testing.T) {
	testPasses(t, filterChainType, "", func(name string) *anypb.Any {
		chain, err := anypb.New(&listenerv3.FilterChain{Name: name, FilterChainMatch: &listenerv3.FilterChainMatch{ServerNames: []string{"x"}}})
		if err != nil {
			t.Fatal(err)
		}
		return chain
	})
}

// testPasses checks that a client gets two resources as they are: direct and through the relay, in each form to and from
// it. An incremental client subscribes to the names if glob is empty.
func testPasses(t *testing.T, typeURL, glob string, resource func(name string) *anypb.Any) {
	t.Helper()
	names := []string{"shop/a", "shop/b"}
	subscribed := names
	if glob != "" {
		subscribed = []string{glob}
	}
	p := newPlane(t)
	want := make(map[string]bool)
	for _, name := range names {
		payload := resource(name)
		want[string(payload.GetValue())] = true
		p.Apply(plane.Change{Set: []plane.Resource{{Name: name, TypeURL: typeURL, Payload: payload}}})
	}
	payloadType := resource("").GetTypeUrl()
	servers := map[string]string{"direct": p.addr}
	for _, up := range []config.APIType{config.AggregatedDeltaGRPC, config.AggregatedGRPC} {
		servers[string(up)] = startRelay(t, func(c *config.Config) { c.Upstreams[0].APIType = up }, p.addr).addr
	}
	for name, addr := range servers {
		t.Run(name, func(t *testing.T) {
			conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			ads := discovery.NewAggregatedDiscoveryServiceClient(conn)
			check := func(form string, all []*anypb.Any, err error) {
				t.Helper()
				got := make(map[string]bool)
				for _, packed := range all {
					got[string(packed.GetValue())] = packed.GetTypeUrl() == payloadType
				}
				if err != nil || !maps.Equal(got, want) {
					t.Errorf("%s: %v, %v", form, all, err)
				}
			}
			delta, err := ads.DeltaAggregatedResources(ctx)
			if err == nil {
				err = delta.Send(&discovery.DeltaDiscoveryRequest{Node: &corev3.Node{Id: "d"}, TypeUrl: typeURL, ResourceNamesSubscribe: subscribed})
			}
			if err != nil {
				t.Fatal(err)
			}
			first, err := delta.Recv()
			var all []*anypb.Any
			for _, r := range first.GetResources() {
				all = append(all, r.GetResource())
			}
			check("incremental", all, err)
			state, err := ads.StreamAggregatedResources(ctx)
			if err == nil {
				err = state.Send(&discovery.DiscoveryRequest{Node: &corev3.Node{Id: "s"}, TypeUrl: typeURL, ResourceNames: names})
			}
			if err != nil {
				t.Fatal(err)
			}
			list, err := state.Recv()
			check("SotW", list.GetResources(), err)
		})
	}
}

// addressType is Istio's type for workloads and services. A ztunnel on demand names a virtual address, and the server adds
// resources of other names.
const addressType = "type.googleapis.com/istio.workload.Address"

// A client that is served 1:1 gets what the server adds to the names that it asked for, as without the relay.
func TestServerAddsToNames_SUB15(t *testing.T) {
	const pod, service = "Kubernetes//Pod/shop/web-1", "shop/web.shop.svc.cluster.local"
	resource := func(name, version string) *discovery.Resource {
		return &discovery.Resource{Name: name, Version: version, Resource: &anypb.Any{TypeUrl: addressType, Value: []byte(name + version)}}
	}
	script := plane.Script{Delta: func(g plane.DeltaStream) error {
		answers := []*discovery.DeltaDiscoveryResponse{
			{Nonce: "1", Resources: []*discovery.Resource{resource(pod, "1"), resource(service, "1")}},
			{Nonce: "2", Resources: []*discovery.Resource{resource(pod, "2")}},
			{Nonce: "3", RemovedResources: []string{pod}},
		}
		for asked := false; ; {
			r, err := g.Recv()
			if err != nil {
				return err
			}
			asked = asked || slices.Contains(r.GetResourceNamesSubscribe(), "/10.96.0.7")
			if !asked || len(answers) == 0 {
				continue
			}
			answers[0].TypeUrl = addressType
			if err := g.Send(answers[0]); err != nil {
				return err
			}
			answers = answers[1:]
		}
	}}
	lis := ports.Listen(t)
	script.Serve(lis)
	t.Cleanup(script.Stop)
	addr := lis.Addr().String()
	relay := startRelay(t, func(c *config.Config) {
		c.Upstreams[1].Name = "ztunnels"
		c.Aggregation.Rules = []config.Rule{{Name: "ztunnels", Match: `node.id.startsWith("ztunnel~")`, Scope: []string{"node.id"}, Upstream: "ztunnels"}}
		c.Passthrough = []config.PassRule{{Upstream: "ztunnels"}}
	}, addr, addr)
	want := []string{"+" + pod + "@1", "+" + service + "@1", "+" + pod + "@2", "-" + pod}
	for name, addr := range map[string]string{"direct": addr, "relay": relay.addr} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			conn := dial(t, addr)
			defer func() { _ = conn.Close() }()
			g, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
			if err != nil {
				t.Fatal(err)
			}
			all := []string{"*"}
			requests := []*discovery.DeltaDiscoveryRequest{
				{Node: &corev3.Node{Id: "ztunnel~10.0.0.1~zt.istio-system~local"}, ResourceNamesSubscribe: all, ResourceNamesUnsubscribe: all},
				{ResourceNamesSubscribe: []string{"/10.96.0.7"}},
			}
			var got []string
			for len(got) < len(want) {
				for _, r := range requests {
					r.TypeUrl = addressType
					if err := g.Send(r); err != nil {
						t.Fatal(err)
					}
				}
				r, err := g.Recv()
				if err != nil {
					t.Fatalf("after %q: %v", got, err)
				}
				for _, resource := range r.GetResources() {
					got = append(got, "+"+resource.GetName()+"@"+resource.GetVersion())
				}
				for _, gone := range r.GetRemovedResources() {
					got = append(got, "-"+gone)
				}
				requests = []*discovery.DeltaDiscoveryRequest{{ResponseNonce: r.GetNonce()}}
			}
			if !slices.Equal(got, want) {
				t.Errorf("the client got %q, want %q", got, want)
			}
		})
	}
}
