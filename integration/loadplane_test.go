package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/loads"
)

// loadPlane is a control plane with the load reporting service. A scope is a node's cluster.
type loadPlane struct {
	*testPlane

	loads *loads.Server
}

func newLoadPlane(t *testing.T) *loadPlane {
	t.Helper()
	p := &loadPlane{emptyPlane(), loads.New(100 * time.Millisecond)}
	p.Beside(p.loads.Register)
	p.listen(t)
	return p
}

func (p *loadPlane) checkLoads(t testing.TB) {
	t.Helper()
	for _, fault := range p.loads.Faults() {
		t.Error(fault)
	}
}

// loadClient is a client that reports, with a raw stream.
type loadClient struct {
	t      testing.TB
	node   *corev3.Node
	conn   *grpc.ClientConn
	stream loadv3.LoadReportingService_StreamLoadStatsClient
	cancel context.CancelFunc
	said   *loads.Book
	first  []*endpointv3.ClusterStats // what it says with its node
	told   *loadv3.LoadStatsResponse  // last
}

func newLoadClient(t testing.TB, addr, id, cluster string, said *loads.Book) *loadClient {
	t.Helper()
	c := &loadClient{t: t, node: &corev3.Node{Id: id, Cluster: cluster}, conn: dial(t, addr), said: said}
	t.Cleanup(func() {
		if c.cancel != nil {
			c.cancel()
		}
		_ = c.conn.Close()
	})
	return c
}

// begin opens the stream, and presents the client.
func (c *loadClient) begin() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	c.cancel = cancel
	stream, err := loadv3.NewLoadReportingServiceClient(c.conn).StreamLoadStats(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	c.stream = stream
	if c.said != nil {
		c.said.Add(c.node.GetCluster(), c.first)
	}
	c.send(&loadv3.LoadStatsRequest{Node: c.node, ClusterStats: c.first})
}

func (c *loadClient) send(r *loadv3.LoadStatsRequest) {
	c.t.Helper()
	if err := c.stream.Send(r); err != nil {
		_, err = c.stream.Recv()
		c.t.Fatal(err)
	}
}

// join begins, and waits until it is told what to report.
func (c *loadClient) join() {
	c.t.Helper()
	c.begin()
	c.hear()
}

// hear waits for what it is told.
func (c *loadClient) hear() {
	c.t.Helper()
	told, err := c.stream.Recv()
	if err != nil {
		c.t.Fatal(err)
	}
	c.told = told
}

// report says something, and remembers it.
func (c *loadClient) report(clusters ...*endpointv3.ClusterStats) {
	c.t.Helper()
	if c.said != nil {
		c.said.Add(c.node.GetCluster(), clusters)
	}
	c.send(&loadv3.LoadStatsRequest{ClusterStats: clusters})
}

// leave ends the stream in order.
func (c *loadClient) leave() {
	c.t.Helper()
	if err := c.stream.CloseSend(); err != nil {
		c.t.Fatal(err)
	}
	for {
		if _, err := c.stream.Recv(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			c.t.Fatal(err)
		}
	}
	c.cancel()
}

// wantEnd waits for the stream's end.
func (c *loadClient) wantEnd(code codes.Code) {
	c.t.Helper()
	for {
		if _, err := c.stream.Recv(); err != nil {
			if status.Code(err) != code {
				c.t.Errorf("the stream ended with %v, want %v", err, code)
			}
			c.cancel()
			return
		}
	}
}

// load makes a report with a bit of everything.
func load(r *rand.Rand) []*endpointv3.ClusterStats {
	n := func() uint64 { return r.Uint64N(100) }
	var all []*endpointv3.ClusterStats
	for _, name := range [][2]string{{"shop", ""}, {"shop", "eds"}, {"cart", "cart"}} {
		if r.IntN(3) == 0 {
			continue
		}
		c := &endpointv3.ClusterStats{
			ClusterName: name[0], ClusterServiceName: name[1], TotalDroppedRequests: n(), LoadReportInterval: durationpb.New(time.Second),
			DroppedRequests: []*endpointv3.ClusterStats_DroppedRequests{{Category: "lb", DroppedCount: n()}, {Category: "throttle", DroppedCount: n()}},
		}
		for zone := range 3 {
			if r.IntN(3) == 0 {
				continue
			}
			l := &endpointv3.UpstreamLocalityStats{
				Locality: &corev3.Locality{Region: "eu", Zone: fmt.Sprint(zone)}, Priority: r.Uint32N(2),
				TotalSuccessfulRequests: n(), TotalErrorRequests: n(), TotalIssuedRequests: n(), TotalRequestsInProgress: n(),
				LoadMetricStats: []*endpointv3.EndpointLoadMetricStats{{MetricName: "queue", NumRequestsFinishedWithMetric: n(), TotalMetricValue: float64(n()) / 4}},
			}
			for host := range 2 {
				l.UpstreamEndpointStats = append(l.UpstreamEndpointStats, &endpointv3.UpstreamEndpointStats{
					Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
						Address: fmt.Sprintf("10.0.%d.%d", zone, host), PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80},
					}}},
					TotalIssuedRequests: n(),
				})
			}
			c.UpstreamLocalityStats = append(c.UpstreamLocalityStats, l)
		}
		all = append(all, c)
	}
	return all
}

// requests is a report of one locality.
func requests(issued, underWay uint64) *endpointv3.ClusterStats {
	return &endpointv3.ClusterStats{
		ClusterName: "shop", LoadReportInterval: durationpb.New(time.Second),
		UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{{
			Locality: &corev3.Locality{Zone: "a"}, TotalIssuedRequests: issued, TotalRequestsInProgress: underWay,
		}},
	}
}

// awaitBook waits until the control plane was told exactly what the clients said.
func (p *loadPlane) awaitBook(t testing.TB, what string, said *loads.Book) {
	t.Helper()
	want := said.Now()
	equal := func() bool {
		return maps.EqualFunc(p.loads.Book.Now(), want, func(a, b loads.Sums) bool { return maps.Equal(a, b) })
	}
	deadline := time.After(patienceOf(t))
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !equal() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: the control plane was told\n%v\nclients said\n%v", what, p.loads.Book.Now(), want)
		}
	}
}
