package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// startControlPlane runs go-control-plane's caches and server.
func startControlPlane(t testing.TB) *gocontrolplane.ControlPlane {
	t.Helper()
	cp := gocontrolplane.New()
	if err := cp.Start(t.Context(), net.JoinHostPort("127.0.0.1", strconv.Itoa(ports.Free(t)))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cp.Close)
	return cp
}

func cluster(name string, timeout time.Duration) *clusterv3.Cluster {
	return &clusterv3.Cluster{Name: name, ConnectTimeout: durationpb.New(timeout)}
}

func update(t testing.TB, cp *gocontrolplane.ControlPlane, name string, c *clusterv3.Cluster) {
	t.Helper()
	if _, err := cp.UpdateResource(name, c); err != nil {
		t.Fatal(err)
	}
}

// fleet is many clients with a connection each.
type fleet struct {
	clients []*xdsclient.Client
	mu      sync.Mutex
	sent    map[string]int // resources received, by name
	removed int
}

func startFleet(t testing.TB, addr string, n int, subscribe func(i int, c *xdsclient.Client)) *fleet {
	t.Helper()
	f := &fleet{sent: make(map[string]int)}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	for i := range n {
		conn, err := xdsclient.Dial("passthrough:///"+addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := xdsclient.New(xdsclient.Options{
			Conn:       conn,
			Node:       &corev3.Node{Id: fmt.Sprint("client-", i)},
			OnResponse: f.count,
		})
		subscribe(i, c)
		f.clients = append(f.clients, c)
		wg.Go(func() {
			defer conn.Close()
			if err := c.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	return f
}

func (f *fleet) count(r *xdsclient.Response) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range r.Changes {
		if c.Resource != nil {
			f.sent[c.Name]++
		} else if c.Kind == xdsclient.Removed || c.Kind == xdsclient.Absent {
			f.removed++
		}
	}
	return nil
}

// reset gives what was received until now, and begins anew.
func (f *fleet) reset() (sent map[string]int, removed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sent, removed = f.sent, f.removed
	f.sent, f.removed = make(map[string]int), 0
	return sent, removed
}

// await waits until every client is as cond says.
func (f *fleet) await(t testing.TB, what string, cond func(*xdsclient.Client) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	for i, c := range f.clients {
		if err := c.Wait(ctx, cond); err != nil {
			t.Fatalf("%s: never happened to client %d: %v", what, i, err)
		}
	}
}

// TestThousandClients: 1,000 clients with all clusters and ten of a hundred
// endpoints each cost a real go-control-plane one stream, with each subscription
// once; one change goes up once and down a thousand times.
func TestThousandClients_SUB10_RES1_GLOB2_STR7_ACK4(t *testing.T) {
	const clients, names, each = 1000, 100, 10
	cp := startControlPlane(t)
	for i := range 20 {
		update(t, cp, fmt.Sprint("cluster-", i), cluster(fmt.Sprint("cluster-", i), time.Second))
	}
	for i := range names {
		name := fmt.Sprint("endpoints-", i)
		if _, err := cp.UpdateResource(name, &endpointv3.ClusterLoadAssignment{ClusterName: name}); err != nil {
			t.Fatal(err)
		}
	}
	relay := startRelay(t, nil, cp.Addr())
	f := startFleet(t, relay.addr, clients, func(i int, c *xdsclient.Client) {
		c.Subscribe(clusterType, xdsclient.Wildcard)
		for j := range each {
			c.Subscribe(endpointType, fmt.Sprint("endpoints-", (i*each+j)%names))
		}
	})
	f.await(t, "the first state", func(c *xdsclient.Client) bool {
		return c.Len(clusterType) == 20 && c.Len(endpointType) == each
	})
	stats := cp.Stats()
	if len(stats.Streams) != 1 || stats.Opened != 1 {
		t.Fatalf("the control plane sees %d streams and saw %d, want 1", len(stats.Streams), stats.Opened)
	}
	for typeURL, want := range map[string]int{clusterType: 1, endpointType: names} {
		got := stats.Streams[0].Types[typeURL].Names
		if len(got) != want {
			t.Errorf("SUB-10: %d subscriptions to %s, want %d", len(got), typeURL, want)
		}
		for name, times := range got {
			if times != 1 {
				t.Errorf("SUB-10: %q was asked for %d times", name, times)
			}
		}
	}
	f.reset()

	update(t, cp, "cluster-7", cluster("cluster-7", 2*time.Second))
	want := cp.Versions(clusterType)
	f.await(t, "the change", func(c *xdsclient.Client) bool { return maps.Equal(c.Versions(clusterType), want) })
	if up := cp.Stats().Resources - stats.Resources; up != 1 {
		t.Errorf("RES-1: %d resources came from the control plane, want 1", up)
	}
	if sent, removed := f.reset(); !maps.Equal(sent, map[string]int{"cluster-7": clients}) || removed != 0 {
		t.Errorf("RES-1: %v and %d removals went to the clients, want cluster-7 %d times", sent, removed, clients)
	}
	if stats := cp.Stats(); stats.Nacks != 0 || len(stats.Streams) != 1 {
		t.Errorf("%d NACKs, %d streams", stats.Nacks, len(stats.Streams))
	}
	relay.consistent(t)
}

// TestSplitResumption_RES12_RES17: a resumption that takes several requests leads
// to no removal, though go-control-plane says of each version that came without
// its subscription that it is removed.
func TestSplitResumption_RES12_RES17(t *testing.T) {
	cp := startControlPlane(t)
	var names []string
	for i := range 210 {
		name := fmt.Sprintf("%s-%03d", strings.Repeat("n", 150), i)
		names = append(names, name)
		if _, err := cp.UpdateResource(name, &endpointv3.ClusterLoadAssignment{ClusterName: name}); err != nil {
			t.Fatal(err)
		}
	}
	relay := startRelay(t, func(c *config.Config) { c.Upstreams[0].MaxRequestSize = 64 * config.KiB }, cp.Addr())
	f := startFleet(t, relay.addr, 1, func(_ int, c *xdsclient.Client) { c.Subscribe(endpointType, names...) })
	f.await(t, "the first state", func(c *xdsclient.Client) bool { return c.Len(endpointType) == len(names) })

	cp.Stop()
	f.reset()
	if err := cp.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := cp.Await(ctx, func(s gocontrolplane.Stats) bool {
		return len(s.Streams) == 1 && s.Streams[0].Subscribed() == len(names)
	}); err != nil {
		t.Fatal(err)
	}
	changed := &endpointv3.ClusterLoadAssignment{ClusterName: names[0], Endpoints: []*endpointv3.LocalityLbEndpoints{{Priority: 1}}}
	if _, err := cp.UpdateResource(names[0], changed); err != nil {
		t.Fatal(err)
	}
	want := cp.Versions(endpointType)
	f.await(t, "a change after the resumption", func(c *xdsclient.Client) bool { return maps.Equal(c.Versions(endpointType), want) })
	if sent, removed := f.reset(); removed != 0 || !maps.Equal(sent, map[string]int{names[0]: 1}) {
		t.Errorf("RES-12: sent %d resources and %d removals, want the one that changed", len(sent), removed)
	}
}
