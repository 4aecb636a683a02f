package wire_test

import (
	"fmt"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// One response of a control plane becomes responses for two clients, of which
// one asked for the resource by another spelling of its name.
func Example() {
	const typeURL = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	fromServer, err := proto.Marshal(&discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: typeURL,
		Nonce:   "server-7",
		Resources: []*discoveryv3.Resource{{
			Name:     "xdstp://a/envoy.config.cluster.v3.Cluster/c?x=1&y=2",
			Version:  "v1",
			Resource: &anypb.Any{TypeUrl: typeURL, Value: []byte("opaque")},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	var r wire.Response
	if err := r.Decode(fromServer); err != nil {
		fmt.Println(err)
		return
	}

	var b wire.Builder
	b.Add(r.Resources[0])
	first := b.Finish(r.TypeURL, r.Version, "1")
	b.AddAs(r.Resources[0], "xdstp://a/envoy.config.cluster.v3.Cluster/c?y=2&x=1")
	second := b.Finish(r.TypeURL, r.Version, "9")

	for _, m := range []*wire.Message{first, second} {
		var seen discoveryv3.DeltaDiscoveryResponse
		if err := proto.Unmarshal(m.Bytes(), &seen); err != nil {
			fmt.Println(err)
			return
		}
		res := seen.Resources[0]
		fmt.Printf("%s %s %s %s\n", seen.Nonce, res.Name, res.Version, res.Resource.Value)
	}
	// Output:
	// 1 xdstp://a/envoy.config.cluster.v3.Cluster/c?x=1&y=2 v1 opaque
	// 9 xdstp://a/envoy.config.cluster.v3.Cluster/c?y=2&x=1 v1 opaque
}

// A broken response can be told from a broken connection, and refused.
func ExampleResponse_Decode() {
	var r wire.Response
	err := r.Decode([]byte("\x12\x03\x1a\x01\xff" + "\x2a\x03n-1"))
	fmt.Println(err)
	fmt.Println("nonce", r.Nonce)
	// Output:
	// wire: cannot decode resources[0].name: invalid UTF-8
	// nonce n-1
}

func ExampleNewResource() {
	r, err := wire.NewResource(&discoveryv3.Resource{
		Name:     "listener",
		Resource: &anypb.Any{TypeUrl: "example/Listener", Value: []byte("opaque")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.TypeURL(), r.Digest())
	// Output: example/Listener 4d0af8db2596b0aeab9a66e550e0ee7a
}

func ExampleCodec() {
	srv := grpc.NewServer(grpc.ForceServerCodecV2(wire.Codec()))
	defer srv.Stop()
	fmt.Println(wire.Codec().Name())
	// Output: proto
}
