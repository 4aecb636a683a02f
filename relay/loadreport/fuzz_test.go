package loadreport

import (
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/proto"
)

// Whatever a client sends, it is added as a whole or refused, and nothing of it is left once
// it was sent and the client has gone.
func FuzzReport_LRS1(f *testing.F) {
	for _, r := range []*loadv3.LoadStatsRequest{
		issued(3), metric2(), oneLocality(&endpointv3.UpstreamLocalityStats{TotalRequestsInProgress: 1, Priority: 7}), {},
	} {
		b, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r loadv3.LoadStatsRequest
		if proto.Unmarshal(b, &r) != nil {
			t.Skip("no message")
		}
		s := idle(t)
		c := join(t, s)
		refused := c.Report(&r) != nil
		if refused && (len(s.sums.clusters) > 0 || len(s.gauges) > 0) {
			t.Fatal("something of a refused report was added")
		}
		_ = c.Report(&r)
		out, stats := s.take()
		if _, err := proto.Marshal(&loadv3.LoadStatsRequest{ClusterStats: stats}); err != nil {
			t.Fatal(err)
		}
		s.settle(out, false)
		out, _ = s.take()
		s.settle(out, true)
		c.Leave()
		if used := s.room.used.Load(); used != 0 || len(s.gauges) > 0 {
			t.Fatalf("%d bytes and %d gauges are left", used, len(s.gauges))
		}
	})
}
