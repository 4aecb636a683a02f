package downstream_test

import (
	"context"
	"fmt"
	"net"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/anypb"
)

const typeURL = "type.googleapis.com/envoy.config.cluster.v3.Cluster"

// toOne routes every name to one store.
type toOne struct{ store *cache.Store }

func (r toOne) Open(*corev3.Node, *keyer.Peer) (downstream.Routes, error) { return r, nil }
func (r toOne) NodeMatters(*keyer.Peer) bool                              { return false }
func (r toOne) Scoped(string, string) (*cache.Store, error)               { return r.store, nil }
func (r toOne) Listens() bool                                             { return false }
func (r toOne) Tell(*cache.Store, ack.Outcome)                            {}
func (r toOne) Scope() string                                             { return "shared" }
func (r toOne) Reopen() (downstream.Routes, error)                        { return nil, nil }
func (r toOne) Access() downstream.Access                                 { return nil }
func (r toOne) Distrusts(*cache.Store, string) bool                       { return false }
func (r toOne) Accepted(*cache.Store, string) bool                        { return true }
func (r toOne) Close()                                                    {}
func (r toOne) Pause()                                                    {}
func (r toOne) Named(name keyer.Name) (*cache.Store, string, error) {
	return r.store, name.Canonical(), nil
}

// A server between a store, which a control plane's session would fill, and a
// client.
func ExampleNewServer() {
	store := cache.New(cache.Limits{}, nil).Open(cache.Source{Quiet: 15 * time.Second})
	server := downstream.NewServer(downstream.Config{Router: toOne{store}})
	lis := bufconn.Listen(1 << 16)
	served := make(chan error)
	go func() { served <- server.Serve(lis) }()

	conn, err := grpc.NewClient("passthrough:///relay",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	err = stream.Send(&discovery.DeltaDiscoveryRequest{
		TypeUrl: typeURL, Node: &corev3.Node{Id: "proxy"}, ResourceNamesSubscribe: []string{"backend"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	// What the session does when a client's wish arrives. The store also says so when the
	// first client comes, which may not have asked for anything yet.
	var wanted []wire.Subscription
	for len(wanted) == 0 {
		<-store.Session().DemandChanged()
		wanted = store.Session().Restart(wire.StreamID{}, 1<<20)
	}
	fmt.Println("wanted:", wanted[0].Subscribe)
	backend, err := wire.NewResource(&discovery.Resource{Name: "backend", Version: "7", Resource: &anypb.Any{TypeUrl: typeURL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = store.Session().Apply(wire.StreamID{}, &wire.Response{TypeURL: typeURL, Resources: []*wire.Resource{backend}}, time.Now())
	if err != nil {
		fmt.Println(err)
		return
	}

	r, err := stream.Recv()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("name:", r.Resources[0].Name, "version:", r.Resources[0].Version)
	fmt.Println("node:", server.Clients(nil, nil)[0].Node)

	server.Drain(context.Background(), 0)
	fmt.Println("served:", <-served)
	// Output:
	// wanted: [backend]
	// name: backend version: 7
	// node: proxy
	// served: <nil>
}
