package deltaclient_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/xdsrelay/xdsrelay/internal/deltaclient"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// A client that follows all clusters, and comes back whenever its stream ends.
func ExampleClient_Follow() {
	clusters, _ := keyer.TypeURL("cds")
	dialer, stop := controlPlane(clusters)
	defer stop()
	conn, err := xdsclient.Dial("passthrough:///control-plane", nil, grpc.WithContextDialer(dialer))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }()

	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("too slow"))
	defer cancel()
	client := deltaclient.New(conn, xdsclient.Options{
		Node: &corev3.Node{Id: "example"},
		OnResponse: func(r *xdsclient.Response) error {
			for _, ch := range r.Changes {
				fmt.Println(ch.Kind, ch.Name)
			}
			cancel() // enough for an example
			return nil
		},
	})
	client.Subscribe(clusters)
	err = client.Follow(ctx, xdsclient.DefaultBackoff(), func(reason error, delay time.Duration) error {
		fmt.Println("stream lost:", reason, "next try in", delay)
		return nil // go on
	})
	fmt.Println(err)
	// Output:
	// added checkout
	// context canceled
}

// controlPlane serves one cluster, in memory.
func controlPlane(typeURL string) (dialer func(context.Context, string) (net.Conn, error), stop func()) {
	cache := cachev3.NewLinearCache(typeURL, cachev3.WithInitialResources(map[string]types.Resource{
		"checkout": &clusterv3.Cluster{Name: "checkout"},
	}))
	lis := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, serverv3.NewServer(context.Background(), cache, nil))
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(lis) })
	return func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }, func() {
		server.Stop()
		serving.Wait()
	}
}
