package relay

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Clients that call what the relay does not have are counted and logged.
func TestUnknownMethod_LIM4(t *testing.T) {
	r := run(t, configOf(upstreamAt("a", "127.0.0.1:1")))
	conn, err := grpc.NewClient(r.xds, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const method = "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus"
	if err := conn.Invoke(t.Context(), method, new(emptypb.Empty), new(emptypb.Empty)); status.Code(err) != codes.Unimplemented {
		t.Errorf("the call ended with %v", err)
	}
	r.shows("/metrics", "xdsrelay_downstream_unknown_methods_total 1", `xdsrelay_downstream_failed_handshakes_total{reason="closed"} 0`)
	if !strings.Contains(r.log.String(), "method="+method) {
		t.Errorf("the log has\n%s", r.log.String())
	}
}
