package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/loads"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
)

// scopedByCluster gives each cluster of clients a scope.
func scopedByCluster(c *config.Config) {
	c.Aggregation.Rules = []config.Rule{rule("clusters", `node.cluster != ""`, "node.cluster")}
}

// Clients of several scopes report over real sockets, come and go, while the control plane
// breaks streams, dies and returns: per cluster, locality, endpoint, metric and category the
// sums at the control plane are what the clients said, exactly.
func TestLoadReports_LRS1_Exact(t *testing.T) {
	t.Parallel()
	p := newLoadPlane(t)
	relay := startRelay(t, scopedByCluster, p.addr)
	r := rand.New(rand.NewPCG(1, 2))
	var said loads.Book
	scopes := []string{"web", "api", "batch"}
	var clients []*loadClient
	for i := range 12 {
		c := newLoadClient(t, relay.addr, fmt.Sprint("node-", i), scopes[i%len(scopes)], &said)
		c.join()
		if !c.told.GetSendAllClusters() || c.told.GetLoadReportingInterval().AsDuration() != 100*time.Millisecond {
			t.Fatalf("told %v", c.told)
		}
		clients = append(clients, c)
	}
	if now, _ := p.loads.Streams(); now != len(scopes) {
		t.Errorf("%d streams for %d scopes", now, len(scopes))
	}
	for round := range 5 {
		for range 40 {
			clients[r.IntN(len(clients))].report(load(r)...)
		}
		for range 3 { // some leave right after a report, and come back
			c := clients[r.IntN(len(clients))]
			c.report(load(r)...)
			c.leave()
			c.join()
		}
		p.awaitBook(t, fmt.Sprint("round ", round), &said)
	}

	// Nothing is under way now, so that nothing can be lost: the protocol has no
	// acknowledgement.
	_, before := p.loads.Streams()
	p.loads.Break()
	waitFor(t, "new streams", func() bool { now, ever := p.loads.Streams(); return now == len(scopes) && ever == before+len(scopes) })
	for _, c := range clients {
		c.report(load(r)...)
	}
	p.awaitBook(t, "after the streams broke", &said)

	p.stop()
	waitFor(t, "the loss", func() bool { return relay.metric(t, "xdsrelay_loadreport_upstream_streams", "") == 0 })
	for i, c := range clients {
		c.report(load(r)...)
		if i%4 == 0 {
			c.leave()
		}
	}
	p.restart(t)
	for i, c := range clients {
		if i%4 == 0 {
			c.join()
		}
		c.report(load(r)...)
	}
	p.awaitBook(t, "after the control plane was away", &said)

	for _, c := range clients {
		c.report(load(r)...)
		c.leave()
	}
	p.awaitBook(t, "when all have left", &said)
	waitFor(t, "the end of the streams", func() bool { now, _ := p.loads.Streams(); return now == 0 })
	p.checkLoads(t)
}

// The relay stops: what clients said by then is sent before it ends.
func TestLoadReports_LRS1_Stop(t *testing.T) {
	t.Parallel()
	p := newLoadPlane(t)
	p.loads.Want(&loadv3.LoadStatsResponse{SendAllClusters: true, LoadReportingInterval: durationpb.New(time.Hour)})
	relay := startRelay(t, scopedByCluster, p.addr)
	var said loads.Book
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 4 {
		c := newLoadClient(t, relay.addr, fmt.Sprint("node-", i), "web", &said)
		c.join()
		c.report(load(r)...)
	}
	waitFor(t, "the reports", func() bool { return relay.metric(t, "xdsrelay_loadreport_received_total", "") == 4 })
	relay.stop()
	p.awaitBook(t, "when the relay has stopped", &said)
	p.checkLoads(t)
}

// The relay presents what the scope's xDS stream does, with the same token.
func TestLoadReports_LRS1_Node(t *testing.T) {
	t.Parallel()
	p := newLoadPlane(t)
	p.set(clusterType, "c1", true)
	relay := startRelay(t, func(c *config.Config) {
		scopedByCluster(c)
		c.Upstreams[0].Metadata = config.Headers{"authorization": {"Bearer secret"}}
	}, p.addr)
	c := newClient(t, relay.addr, "a")
	c.profile = &corev3.Node{Cluster: "web"}
	if err := c.connect(false); err != nil {
		t.Fatal(err)
	}
	c.subscribe(clusterType, []string{"*"}, nil)
	c.awaitHolding(t, clusterType, "c1")
	newLoadClient(t, relay.addr, "b", "web", nil).join()
	nodes, tokens := p.loads.Presented()
	if want := p.streamsNow()[0].shown; nodes[0].GetId() != want.GetId() || nodes[0].GetCluster() != "web" {
		t.Errorf("presented %v, and over xDS %v", nodes[0], want)
	}
	if len(tokens) != 1 || tokens[0] != "Bearer secret" {
		t.Errorf("%d tokens", len(tokens))
	}
}

// Polls and files have no such service.
func TestLoadReports_LRS2_NoStreams(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*config.Config){
		"REST": func(c *config.Config) { c.Upstreams[0].APIType = config.REST },
		"path": func(c *config.Config) { c.Upstreams[0].Endpoints, c.Upstreams[0].Path = nil, t.TempDir() },
		"off":  func(c *config.Config) { c.Upstreams[0].LoadReports = config.LoadReportsOff },
		"no default": func(c *config.Config) {
			c.Upstreams[0].Default, c.Upstreams[0].Authorities = false, []string{"a"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLoadPlane(t)
			relay := startRelay(t, change, p.addr)
			c := newLoadClient(t, relay.addr, "a", "web", nil)
			c.begin()
			c.wantEnd(codes.Unimplemented)
			if _, ever := p.loads.Streams(); ever != 0 {
				t.Errorf("the control plane was asked")
			}
			if n := relay.metric(t, "xdsrelay_loadreport_refused_total", ""); n != 1 && name != "no default" {
				t.Errorf("counted %d", n)
			}
		})
	}
}

// A reload turns reports off and on, and moves clients to another scope, whose streams end so
// that they come again. Nothing is lost.
func TestLoadReports_LRS1_Reload(t *testing.T) {
	t.Parallel()
	p := newLoadPlane(t)
	relay := startRelay(t, scopedByCluster, p.addr)
	var said loads.Book
	c, stays := newLoadClient(t, relay.addr, "a", "web", &said), newLoadClient(t, relay.addr, "b", "api", &said)
	c.join()
	stays.join()
	c.report(requests(3, 0))
	p.awaitBook(t, "before the move", &said) // what is under way when a stream ends is lost, whoever ends it
	relay.mustReload(t, func(c *config.Config) {
		c.Aggregation.Rules = []config.Rule{rule("clusters", `node.cluster != ""`, "node.cluster", `node.cluster == "web" ? node.id : ""`)}
	})
	c.wantEnd(codes.Unavailable)
	stays.wantEnd(codes.Unavailable)
	c.join()
	stays.join()
	c.report(requests(4, 0))
	relay.mustReload(t, func(c *config.Config) { c.Upstreams[0].Settle *= 2 }) // which is no reason to move
	stays.report(requests(5, 0))
	p.awaitBook(t, "after the move", &said)

	relay.mustReload(t, func(c *config.Config) { c.Upstreams[0].LoadReports = config.LoadReportsOff })
	c.wantEnd(codes.Unimplemented)
	stays.wantEnd(codes.Unimplemented)
	waitFor(t, "the end of the streams", func() bool { now, _ := p.loads.Streams(); return now == 0 })
	relay.mustReload(t, func(c *config.Config) { c.Upstreams[0].LoadReports = config.AggregateLoadReports })
	c.join()
	c.report(requests(6, 0))
	p.awaitBook(t, "after it was turned on again", &said)
}

// A reload changes where the control plane is: what was said goes to the new one.
func TestLoadReports_LRS1_Moved(t *testing.T) {
	t.Parallel()
	p, next := newLoadPlane(t), newLoadPlane(t)
	relay := startRelay(t, scopedByCluster, p.addr)
	c := newLoadClient(t, relay.addr, "a", "web", nil)
	c.join()
	relay.mustReload(t, func(c *config.Config) { c.Upstreams[0].Endpoints = config.Endpoints{{next.addr}} })
	waitFor(t, "a stream to the other control plane", func() bool { now, _ := next.loads.Streams(); return now == 1 })
	waitFor(t, "the end of the first one", func() bool { now, _ := p.loads.Streams(); return now == 0 })
	var said loads.Book
	c.said = &said
	c.report(requests(3, 0))
	next.awaitBook(t, "after the change", &said)
}

// Where the first endpoint is away another one takes the reports.
func TestLoadReports_LRS1_Failover(t *testing.T) {
	t.Parallel()
	p := newLoadPlane(t)
	away := ports.Listen(t)
	_ = away.Close()
	relay := startRelay(t, func(c *config.Config) {
		c.Upstreams[0].Endpoints = config.Endpoints{{away.Addr().String()}, {p.addr}}
	}, p.addr)
	var said loads.Book
	c := newLoadClient(t, relay.addr, "a", "", &said)
	c.join()
	c.report(requests(3, 0))
	waitFor(t, "the report", func() bool {
		for _, sums := range p.loads.Book.Now() {
			return sums["shop//a p0 issued"] == 3 || sums["shop///a p0 issued"] == 3
		}
		return false
	})
}

// A client that says what cannot be is refused with a reason, and the others are not.
func TestLoadReports_LRS1_Invalid(t *testing.T) {
	t.Parallel()
	p := newLoadPlane(t)
	relay := startRelay(t, scopedByCluster, p.addr)
	var said loads.Book
	liar, other := newLoadClient(t, relay.addr, "a", "web", nil), newLoadClient(t, relay.addr, "b", "web", &said)
	liar.join()
	other.join()
	bad := requests(1, 0)
	bad.UpstreamLocalityStats[0].TotalErrorRequests = 1 << 63
	liar.report(&endpointv3.ClusterStats{ClusterName: "cart", TotalDroppedRequests: 1}, bad)
	liar.wantEnd(codes.InvalidArgument)
	other.report(requests(2, 0))
	p.awaitBook(t, "the other's report", &said)

	nobody := newLoadClient(t, relay.addr, "", "", nil)
	nobody.node = nil
	relay.mustReload(t, func(c *config.Config) { c.Aggregation.Otherwise = config.Isolate })
	nobody.begin()
	nobody.wantEnd(codes.InvalidArgument)
	relay.mustReload(t, func(c *config.Config) { c.Aggregation.Otherwise = config.Refuse })
	stranger := newLoadClient(t, relay.addr, "c", "", nil)
	stranger.begin()
	stranger.wantEnd(codes.PermissionDenied)
}

// The service has its name of v2, too.
func TestLoadReports_LRS1_V2(t *testing.T) {
	t.Parallel()
	p := newLoadPlane(t)
	relay := startRelay(t, scopedByCluster, p.addr)
	c := newLoadClient(t, relay.addr, "a", "web", nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		"/envoy.service.load_stats.v2.LoadReportingService/StreamLoadStats")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg(&loadv3.LoadStatsRequest{Node: c.node}); err != nil {
		t.Fatal(err)
	}
	var told loadv3.LoadStatsResponse
	if err := stream.RecvMsg(&told); err != nil || !told.GetSendAllClusters() {
		t.Fatalf("told %v, %v", &told, err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(&told); !errors.Is(err, io.EOF) {
		t.Errorf("ended with %v", err)
	}
}

// An Envoy that reported to another relay before reports with its first request.
func TestLoadReports_LRS1_FirstRequest(t *testing.T) {
	t.Parallel()
	p := newLoadPlane(t)
	relay := startRelay(t, scopedByCluster, p.addr)
	var said loads.Book
	c := newLoadClient(t, relay.addr, "a", "web", &said)
	c.first = []*endpointv3.ClusterStats{requests(3, 0)}
	c.join()
	c.report(requests(4, 0))
	p.awaitBook(t, "both reports", &said)
	p.checkLoads(t)
}

// A client that does not read what it is told holds up neither others nor the relay's end.
func TestLoadReports_LRS1_NotReading(t *testing.T) {
	t.Parallel()
	p := newLoadPlane(t)
	many := &loadv3.LoadStatsResponse{LoadReportingInterval: durationpb.New(100 * time.Millisecond)}
	for i := range 20_000 {
		many.Clusters = append(many.Clusters, fmt.Sprint("a cluster with a name of quite some length, so that there is no room for all of them ", i))
	}
	p.loads.Want(many)
	relay := startRelay(t, scopedByCluster, p.addr)
	deaf := newLoadClient(t, relay.addr, "a", "web", nil)
	deaf.begin()
	var said loads.Book
	c := newLoadClient(t, relay.addr, "b", "web", &said)
	c.join()
	c.report(requests(4, 0))
	p.awaitBook(t, "the other's report", &said)
	leaves := newLoadClient(t, relay.addr, "c", "web", nil)
	leaves.begin()
	waitFor(t, "all clients", func() bool { return relay.metric(t, "xdsrelay_loadreport_clients", "") == 3 })
	if err := leaves.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end of one that does not read", func() bool { return relay.metric(t, "xdsrelay_loadreport_clients", "") == 2 })
	close(relay.force) // or it would wait for a while: nobody can tell the client to go
	relay.stop()
}

// The admin port says whether reports flow.
func TestLoadReports_LRS1_Status(t *testing.T) {
	t.Parallel()
	p := newLoadPlane(t)
	relay := startRelay(t, scopedByCluster, p.addr)
	type loads struct {
		State    string    `json:"state"`
		Clients  int       `json:"clients"`
		Interval string    `json:"interval"`
		LastSent time.Time `json:"last_sent"`
	}
	type upstream struct {
		Loads    loads `json:"load_reports"`
		Sessions []struct {
			Loads *loads `json:"load_reports"`
		} `json:"sessions"`
	}
	now := func() upstream {
		_, page := relay.get(t, "/upstreams")
		var all []upstream
		if err := json.Unmarshal([]byte(page), &all); err != nil || len(all) != 1 {
			t.Fatalf("%v: %s", err, page)
		}
		return all[0]
	}
	if got := now(); got.Loads != (loads{State: "idle"}) || len(got.Sessions) != 0 {
		t.Errorf("before a client reports: %+v", got)
	}
	begun := time.Now()
	a, b := newLoadClient(t, relay.addr, "a", "web", nil), newLoadClient(t, relay.addr, "b", "api", nil)
	a.join()
	b.join()
	var last upstream
	waitFor(t, "reports of both scopes", func() bool {
		last = now()
		for _, s := range last.Sessions {
			if s.Loads == nil || s.Loads.State != "reporting" || s.Loads.Interval != "100ms" || s.Loads.LastSent.Before(begun) {
				return false
			}
		}
		return len(last.Sessions) == 2
	})
	if got := last.Loads; got.State != "reporting" || got.Clients != 2 || got.Interval != "100ms" || got.LastSent.Before(begun) {
		t.Errorf("while reports flow: %+v", last.Loads)
	}
	p.stop()
	waitFor(t, "the loss", func() bool { last = now(); return last.Loads.State == "connecting" })
	if last.Loads.Clients != 2 || last.Loads.LastSent.IsZero() {
		t.Errorf("while the control plane is away: %+v", last.Loads)
	}
}
