package relay

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/loads"
)

// wantUnimplemented has a client try to report its load.
func (r *running) wantUnimplemented() {
	r.Helper()
	conn, err := grpc.NewClient(r.xds, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.Fatal(err)
	}
	defer conn.Close()
	stream, err := loadv3.NewLoadReportingServiceClient(conn).StreamLoadStats(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	_ = stream.Send(&loadv3.LoadStatsRequest{Node: &corev3.Node{Id: "n"}}) // Recv knows why it fails
	if _, err := stream.Recv(); status.Code(err) != codes.Unimplemented {
		r.Fatalf("the stream ended with %v", err)
	}
}

// What is known of whether a control plane takes load reports is as it was after a reload that
// is refused, and forgotten by one that changes how it is reached, or what it is.
func TestUnservedAcrossReloads_LRS2(t *testing.T) {
	const unserved, served = `xdsrelay_loadreport_upstream_unserved{upstream="a"} 1`, `xdsrelay_loadreport_upstream_unserved{upstream="a"} 0`
	a, b := newPlaneServer(t, contents{}), newPlaneServer(t, contents{})
	r := run(t, configOf(upstreamAt("a", a.address)))
	r.shows("/metrics", served)
	r.shows("/upstreams", `"load_reports": {
      "state": "idle",
      "clients": 0
    }`)
	r.wantUnimplemented()
	r.shows("/metrics", unserved)
	r.shows("/upstreams", `"state": "unserved"`)
	bad := upstreamAt("b", a.address)
	bad.Authorities, bad.TLS = []string{"b"}, &config.UpstreamTLS{CAFile: "missing.pem"}
	for name, change := range map[string]func(*config.Upstream){
		"reached in another way": func(u *config.Upstream) { u.Endpoints = [][]string{{b.address}} },
		"of another kind":        func(u *config.Upstream) { u.APIType = config.AggregatedGRPC },
	} {
		if err := r.try(func(c *config.Config) {
			change(&c.Upstreams[0])
			c.Upstreams = append(c.Upstreams, bad)
		}); err == nil {
			t.Fatalf("%s: no error", name)
		}
		r.shows("/metrics", unserved)
		r.reload(func(c *config.Config) { change(&c.Upstreams[0]) })
		r.shows("/metrics", served)
		r.wantUnimplemented() // it is asked again
		r.shows("/metrics", unserved)
	}
	r.reload(func(c *config.Config) { c.Upstreams[0].LoadReports = config.LoadReportsOff })
	r.shows("/upstreams", `"state": "off"`)
}

// A cluster that the access rules deny to a client is not named to it when it is told what to report, and not reported for it.
func TestLoadReports_ACC2(t *testing.T) {
	asked := loads.New(100 * time.Millisecond)
	asked.Want(&loadv3.LoadStatsResponse{Clusters: []string{"open", "denied"}, LoadReportingInterval: durationpb.New(100 * time.Millisecond)})
	p := newPlaneServerAt(t, anyPort, contents{"open": "1", "denied": "1"}, asked.Register)
	cfg := configOf(upstreamAt("a", p.address))
	cfg.Access.Otherwise, cfg.Access.Rules = config.Deny, allowing(`type == cds && name == "open"`)
	r := run(t, cfg)
	conn, err := grpc.NewClient(r.xds, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := loadv3.NewLoadReportingServiceClient(conn).StreamLoadStats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&loadv3.LoadStatsRequest{Node: &corev3.Node{Id: "n"}}); err != nil {
		t.Fatal(err)
	}
	told, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(told.GetClusters(), []string{"open"}) {
		t.Errorf("ACC-2: the client is told %q", told.GetClusters())
	}
	dropped := func(name string) *endpointv3.ClusterStats {
		return &endpointv3.ClusterStats{ClusterName: name, TotalDroppedRequests: 1, LoadReportInterval: durationpb.New(time.Second)}
	}
	if err := stream.Send(&loadv3.LoadStatsRequest{ClusterStats: []*endpointv3.ClusterStats{dropped("denied"), dropped("open")}}); err != nil {
		t.Fatal(err)
	}
	r.shows("/metrics", `xdsrelay_loadreport_dropped_entries_total{reason="denied",upstream="a"} 1`)
	r.reload(func(c *config.Config) { c.Access.Rules = allowing("type == cds") })
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "which clusters") {
		t.Errorf("after a reload that allows more the stream ended with %v", err)
	}
	for len(asked.Book.Now()) == 0 && ctx.Err() == nil {
		runtime.Gosched()
	}
	if got, want := asked.Book.Now()[""], (loads.Sums{"open/ dropped": 1}); !maps.Equal(got, want) {
		t.Errorf("ACC-2: the control plane is told %v, want %v", got, want)
	}
}
