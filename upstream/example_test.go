package upstream_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// printer is a Store that wants every cluster and prints what comes.
type printer struct{ done context.CancelFunc }

func (printer) DemandChanged() <-chan struct{}                               { return nil }
func (printer) Streams() []wire.StreamID                                     { return []wire.StreamID{{}} }
func (printer) StreamWanted(stream wire.StreamID) bool                       { return stream == wire.StreamID{} }
func (printer) Shared() bool                                                 { return false }
func (printer) TakeDemand(wire.StreamID) (subs []wire.Subscription, ok bool) { return nil, true }
func (printer) Shed(wire.StreamID, string, int) bool                         { return false }
func (printer) LeaveOut(wire.StreamID, string, []string, []string)           {}
func (printer) Withhold(wire.StreamID, string, bool)                         {}
func (printer) Awaited() bool                                                { return true }
func (printer) Unasked(wire.StreamID) []string                               { return nil }
func (printer) OneStream(wire.StreamID, bool)                                {}
func (printer) Lacks(wire.StreamID, *wire.Response) ([]string, bool)         { return nil, false }
func (printer) Sequence() uint64                                             { return 0 }
func (printer) Heard() (heard, again bool)                                   { return false, false }
func (printer) Lost(wire.StreamID)                                           {}
func (printer) Settle(time.Time) time.Time                                   { return time.Time{} }

func (printer) Restart(wire.StreamID, int) []wire.Subscription {
	return []wire.Subscription{{TypeURL: resourcev3.ClusterType, Subscribe: []string{"*"}}}
}

func (p printer) Apply(_ wire.StreamID, r *wire.Response, _ time.Time) error {
	for _, res := range r.Resources {
		fmt.Println(res.Name)
	}
	p.done()
	return nil
}

// A session asks a control plane for what its Store wants and hands it what comes.
func ExampleUpstream_NewSession() {
	addr, stop := serve()
	defer stop()

	u, err := upstream.New(upstream.Config{Name: "control-plane", Endpoints: [][]string{{addr}}})
	if err != nil {
		log.Fatal(err)
	}
	defer u.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s, err := u.NewSession(upstream.SessionConfig{Node: &corev3.Node{Id: "relay"}, Store: printer{done: cancel}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Run(ctx))
	// Output:
	// backend
	// context canceled
}

// serve is a control plane with one cluster.
func serve() (addr string, stop func()) {
	snap, err := cachev3.NewSnapshot("1", map[resourcev3.Type][]types.Resource{
		resourcev3.ClusterType: {&clusterv3.Cluster{Name: "backend"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	cache := cachev3.NewSnapshotCache(true, cachev3.IDHash{}, nil)
	if err := cache.SetSnapshot(context.Background(), "relay", snap); err != nil {
		log.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	srv := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(srv, serverv3.NewServer(context.Background(), cache, nil))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(lis)
	}()
	return lis.Addr().String(), func() { srv.Stop(); <-done }
}
