package downstream

import (
	"context"
	"fmt"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"
)

// Responses that a client does not acknowledge, or does not read, keep little of what was replaced since (SUR-9): the relay
// keeps of a response where its content stands in the cache, and hands gRPC one response after the other.
func TestUnacknowledged_SUR9(t *testing.T) {
	const resources, size, rounds = 16, 128 << 10, 20
	names := make([]string, resources)
	for i := range names {
		names[i] = fmt.Sprint("r", i)
	}
	for _, c := range []struct {
		name   string
		method string
		first  any
	}{
		{"incremental, by name", "DeltaAggregatedResources", &request{TypeUrl: clusterType, ResourceNamesSubscribe: names}},
		{"incremental, all", "DeltaAggregatedResources", &request{TypeUrl: clusterType, ResourceNamesSubscribe: []string{"*"}}},
		{"state of the world, by name", "StreamAggregatedResources", &discovery.DiscoveryRequest{TypeUrl: endpointType, ResourceNames: names}},
		{"state of the world, all", "StreamAggregatedResources", &discovery.DiscoveryRequest{TypeUrl: clusterType}},
	} {
		for _, reads := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, reads: %t", c.name, reads), func(t *testing.T) {
				bubble(t, func(h *harness) {
					version := 0
					update := func() {
						version++
						for _, typeURL := range []string{clusterType, endpointType} {
							var all []*discovery.Resource
							for _, name := range names {
								all = append(all, &discovery.Resource{
									Name: name, Version: fmt.Sprint(version), Resource: &anypb.Any{TypeUrl: typeURL, Value: make([]byte, size)},
								})
							}
							h.opaque.put(typeURL, all...)
						}
						h.advance(10 * time.Second)
					}
					ctx, cancel := context.WithCancel(h.Context())
					defer cancel()
					stream, err := h.dial().NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
						"/envoy.service.discovery.v3.AggregatedDiscoveryService/"+c.method, grpc.MaxCallRecvMsgSize(64<<20))
					if err != nil {
						t.Fatal(err)
					}
					if err := stream.SendMsg(c.first); err != nil {
						t.Fatal(err)
					}
					update()
					responses := 0
					if reads {
						go func() {
							for stream.RecvMsg(new(discovery.DiscoveryResponse)) == nil { // the forms have the same fields
								responses++
							}
						}()
					}
					update()
					before := live()
					for range rounds {
						update()
					}
					kept := live() - before
					t.Logf("%d KiB are kept, %d responses", kept>>10, responses)
					if reads && responses < rounds {
						h.Errorf("only %d responses were sent", responses)
					}
					if kept > 8<<20 {
						h.Errorf("SUR-9: %d KiB are kept", kept>>10)
					}
				})
			})
		}
	}
}
