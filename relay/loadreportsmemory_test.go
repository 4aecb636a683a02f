package relay

import (
	"context"
	"runtime"
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
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/xdsrelay/xdsrelay/config"
)

// encodedReport is a load report of about so many bytes that decodes to many times as many, as a client sends it.
func encodedReport(t *testing.T, node string, size int) *emptypb.Empty {
	t.Helper()
	one := &endpointv3.ClusterStats{UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{{}}}
	cluster, err := proto.Marshal(&loadv3.LoadStatsRequest{ClusterStats: []*endpointv3.ClusterStats{one}})
	if err != nil {
		t.Fatal(err)
	}
	first, err := proto.Marshal(&loadv3.LoadStatsRequest{Node: &corev3.Node{Id: node}})
	if err != nil {
		t.Fatal(err)
	}
	m := new(emptypb.Empty) // decodes to nothing, and is sent as it is
	m.ProtoReflect().SetUnknown(append(first, strings.Repeat(string(cluster), size/len(cluster))...))
	return m
}

// Load reports that are too large, and those of clients that may not present their nodes, are refused before anything
// but the node is decoded.
func TestLoadReportMemory_LIM1_LIM3_ACC5(t *testing.T) {
	for name, c := range map[string]struct {
		node  string
		bytes int
		code  codes.Code
		text  string
	}{
		"too large":            {"n", 8 << 20, codes.ResourceExhausted, "larger than max"},
		"not the client's own": {"n", 1<<20 - 1<<10, codes.PermissionDenied, "access.verify"},
		"with a large node":    {strings.Repeat("n", 64<<10), 512 << 10, codes.ResourceExhausted, "the node has 65"},
	} {
		t.Run(name, func(t *testing.T) {
			const reports = 16
			cfg := configOf(upstreamAt("a", nowhere))
			cfg.Limits.NodeBytes = 32 * config.KiB
			cfg.Access.Verify = []config.VerifyRule{{Name: "nobody", Require: `node.id == "nobody"`}}
			r := run(t, cfg)
			report := encodedReport(t, c.node, c.bytes)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range reports { // a connection that sends what nobody reads is slowed down
				conn, err := grpc.NewClient(r.xds, grpc.WithTransportCredentials(insecure.NewCredentials()))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				stream, err := loadv3.NewLoadReportingServiceClient(conn).StreamLoadStats(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				_ = stream.SendMsg(report) // Recv knows why it fails
				if _, err := stream.Recv(); status.Code(err) != c.code || !strings.Contains(err.Error(), c.text) {
					t.Fatalf("the stream ended with %v", err)
				}
			}
			runtime.ReadMemStats(&after)
			sent, took := uint64(reports*c.bytes), after.TotalAlloc-before.TotalAlloc
			t.Logf("%d KiB were sent, and %d KiB were allocated", sent>>10, took>>10)
			if took > 4*sent {
				t.Errorf("LIM-3: %d reports of %d KiB took %d KiB", reports, c.bytes>>10, took>>10)
			}
		})
	}
}

// A stream of load reports on which nothing comes ends as those of discovery do (LIM-1).
func TestLoadReportFirstRequest_LIM1(t *testing.T) {
	cfg := configOf(upstreamAt("a", nowhere))
	cfg.Limits.FirstRequest = config.Duration(time.Second)
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
	if _, err := stream.Recv(); status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "no request") {
		t.Errorf("the stream ended with %v", err)
	}
	r.shows("/metrics", `xdsrelay_downstream_limited_total{limit="first_request"} 1`)
}
