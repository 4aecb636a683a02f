package loadreport

import (
	"testing"
	"testing/synctest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

func encoded(t *testing.T, r *loadv3.LoadStatsRequest) []byte {
	t.Helper()
	b, err := proto.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The node is cut out of a request wherever it stands, also if it came in parts, and nothing else is.
func TestNodeIn_LRS1(t *testing.T) {
	id, cluster := encoded(t, &loadv3.LoadStatsRequest{Node: &corev3.Node{Id: "a"}}), encoded(t, &loadv3.LoadStatsRequest{Node: &corev3.Node{Cluster: "c"}})
	stats := encoded(t, &loadv3.LoadStatsRequest{ClusterStats: []*endpointv3.ClusterStats{{ClusterName: "x"}}})
	for name, c := range map[string]struct {
		request []byte
		want    *corev3.Node
	}{
		"none":             {stats, nil},
		"last":             {append(append([]byte{}, stats...), id...), &corev3.Node{Id: "a"}},
		"in parts":         {append(append(append([]byte{}, id...), stats...), cluster...), &corev3.Node{Id: "a", Cluster: "c"}},
		"not of that form": {protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 7), nil},
	} {
		got, err := nodeIn(c.request)
		node := new(corev3.Node)
		if err == nil {
			err = proto.Unmarshal(got, node)
		}
		if err != nil || c.want == nil && got != nil || c.want != nil && !proto.Equal(node, c.want) {
			t.Errorf("%s: %v, %v", name, node, err)
		}
	}
	for _, cut := range [][]byte{{0x0a}, {0x0a, 5, 1}, {0xff}} {
		if _, err := nodeIn(cut); err == nil {
			t.Errorf("%x is no request, and no error", cut)
		}
	}
}

// Only so many reports are decoded at a time as there are processors: a decoded one takes far more than its bytes (LIM-3).
func TestReportsTakeTurns_LIM3(t *testing.T) {
	bubble(t, func(r *rig) {
		t := r.t
		scope, _ := r.scope()
		client := r.join(scope)
		s := NewServer(nil, nil, nil, nil)
		for range cap(s.turns) {
			s.turns <- struct{}{}
		}
		done := make(chan error, 1)
		go func() { done <- s.report(client, encoded(t, issued(3)), false) }()
		synctest.Wait()
		if n := len(scope.sums.clusters); n != 0 {
			t.Errorf("LIM-3: %d clusters were reported before it was the report's turn", n)
		}
		<-s.turns
		if err := <-done; err != nil || len(scope.sums.clusters) != 1 {
			t.Errorf("%v, %d clusters are reported", err, len(scope.sums.clusters))
		}
		if len(s.turns) != cap(s.turns)-1 {
			t.Errorf("%d turns are taken", len(s.turns))
		}
		if err := s.report(client, encoded(t, new(loadv3.LoadStatsRequest)), true); err != nil || r.counts.get().received != 1 {
			t.Errorf("%v: a first request without a report counts as one", err)
		}
		client.Leave()
	})
}
