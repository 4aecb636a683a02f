package relay

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	loadv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/config"
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
