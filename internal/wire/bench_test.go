package wire

import (
	"fmt"
	"strconv"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
)

func response(n, payloadSize int) *discoveryv3.DeltaDiscoveryResponse {
	p := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: clusterType, Nonce: "1", SystemVersionInfo: "v1"}
	for i := range n {
		p.Resources = append(p.Resources, &discoveryv3.Resource{
			Name: "cluster-" + strconv.Itoa(i), Version: "v" + strconv.Itoa(i), Resource: payload(payloadSize),
		})
	}
	return p
}

func resources(b *testing.B, n, payloadSize int) []*Resource {
	b.Helper()
	var r Response
	if err := r.Decode(encoded.Bytes(response(n, payloadSize))); err != nil {
		b.Fatal(err)
	}
	return r.Resources
}

// BenchmarkDecode reports what one resource costs, against the generated types.
func BenchmarkDecode(b *testing.B) {
	const n = 1000
	for _, size := range []int{100, 1024} {
		in := encoded.Bytes(response(n, size))
		decoders := map[string]func() error{
			"wire":  func() error { return new(Response).Decode(in) },
			"proto": func() error { return proto.Unmarshal(in, new(discoveryv3.DeltaDiscoveryResponse)) },
		}
		for name, decode := range decoders {
			b.Run(fmt.Sprintf("%s/payload=%d", name, size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := decode(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/resource")
			})
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		for _, size := range []int{100, 1024} {
			rs := resources(b, n, size)
			b.Run(fmt.Sprintf("resources=%d/payload=%d", n, size), func(b *testing.B) {
				b.ReportAllocs()
				var builder Builder
				for b.Loop() {
					for _, r := range rs {
						builder.Add(r)
					}
					builder.Finish(clusterType, "v1", "1")
				}
			})
		}
	}
}

func BenchmarkBuildAs(b *testing.B) {
	r := resources(b, 1, 1024)[0]
	b.ReportAllocs()
	var builder Builder
	for b.Loop() {
		builder.AddAs(r, "another name")
		builder.Finish(clusterType, "v1", "1")
	}
}

func heartbeats(b *testing.B, n int) []*Resource {
	b.Helper()
	rs := resources(b, n, 0)
	for i, r := range rs {
		rs[i] = newResource(b, &discoveryv3.Resource{Name: r.Name, Version: r.Version})
	}
	return rs
}

// BenchmarkSend builds a response and sends it through grpc's server and client
// to a codec that throws it away: what a shared piece of some size costs, all
// the way, is what coalesceBelow was chosen by.
func BenchmarkSend(b *testing.B) {
	const n = 1000
	responses := [][]*Resource{heartbeats(b, n)}
	for _, size := range []int{0, 64, 192, 1024} {
		responses = append(responses, resources(b, n, size))
	}
	for _, rs := range responses {
		b.Run(fmt.Sprintf("resources=%d/framed=%d", n, rs[n/2].Size()), func(b *testing.B) {
			stream := openStream(b, serve(b, func(s grpc.ServerStream) error {
				var builder Builder
				for {
					for _, r := range rs {
						builder.Add(r)
					}
					if err := s.SendMsg(builder.Finish(clusterType, "v1", "1")); err != nil {
						return nil
					}
				}
			}, grpc.WithDefaultCallOptions(grpc.ForceCodecV2(discard{Codec().(codec)}))))
			var r Response
			for b.Loop() {
				if err := stream.RecvMsg(&r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/resource")
		})
	}
}

// discard receives without decoding.
type discard struct{ codec }

func (discard) Unmarshal(mem.BufferSlice, any) error { return nil }
