package integration

import (
	"context"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
)

const (
	serviceEntryType = "networking.istio.io/v1alpha3/ServiceEntry"
	mcpType          = "type.googleapis.com/istio.mcp.v1alpha1.Resource"
)

// mcpResource is a resource as Istio serves its own configuration: its type says only that.
func mcpResource(name string) *anypb.Any {
	metadata := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	return &anypb.Any{TypeUrl: mcpType, Value: protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), metadata)}
}

// The resources of a type that nobody knows may all be of another one: direct and through the relay, in each form to and
// from it, a client gets them as they are.
func TestOtherPayloadType_ACK6_VAR8(t *testing.T) {
	p := newPlane(t)
	p.Apply(plane.Change{Set: []plane.Resource{
		{Name: "shop/a", TypeURL: serviceEntryType, Payload: mcpResource("shop/a")},
		{Name: "shop/b", TypeURL: serviceEntryType, Payload: mcpResource("shop/b")},
	}})
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
				if err != nil || len(all) != 2 || all[0].GetTypeUrl() != mcpType || len(all[0].GetValue()) == 0 {
					t.Errorf("%s: %v, %v", form, all, err)
				}
			}
			delta, err := ads.DeltaAggregatedResources(ctx)
			if err == nil {
				err = delta.Send(&discovery.DeltaDiscoveryRequest{Node: &corev3.Node{Id: "d"}, TypeUrl: serviceEntryType, ResourceNamesSubscribe: []string{"*"}})
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
				err = state.Send(&discovery.DiscoveryRequest{Node: &corev3.Node{Id: "s"}, TypeUrl: serviceEntryType, ResourceNames: []string{"shop/a", "shop/b"}})
			}
			if err != nil {
				t.Fatal(err)
			}
			list, err := state.Recv()
			check("SotW", list.GetResources(), err)
		})
	}
}
