package upstream

import (
	"slices"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// TestSUR2_SUB10_ComparisonAsksOnce: what came on the wildcard's stream and on that of the names is
// asked for once.
func TestSUR2_SUB10_ComparisonAsksOnce(t *testing.T) {
	const typeURL = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	resource := func(name string) *wire.Resource {
		r, err := wire.NewResource(&discovery.Resource{Name: name, Version: "1", Resource: &anypb.Any{TypeUrl: typeURL}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	var d delivered
	for stream, names := range map[wire.StreamID][]string{{}: {"a", "both"}, {Second: true}: {"both", "c"}} {
		r := &wire.DeltaResponse{TypeURL: typeURL}
		for _, name := range names {
			r.Resources = append(r.Resources, resource(name))
		}
		d.restarted(stream, []wire.Subscription{{TypeURL: typeURL, Subscribe: names}})
		d.received(stream, r, 1)
	}
	q := d.question(toCompare)
	if q == nil || len(q.parts) != 1 {
		t.Fatalf("the question is %+v", q)
	}
	p := q.parts[0]
	slices.Sort(p.names)
	if want := []string{"a", "both", "c"}; !slices.Equal(p.names, want) || len(p.held) != len(want) {
		t.Errorf("it asks for %q and holds %d, want %q", p.names, len(p.held), want)
	}
}
