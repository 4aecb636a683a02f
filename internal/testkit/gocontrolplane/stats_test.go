package gocontrolplane

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/status"
)

func TestStats(t *testing.T) {
	for kind, c := range kinds() {
		t.Run(kind, func(t *testing.T) {
			started(t, c)
			a := set(t, c, "a", endpoints("a"))
			client := connect(t, c)
			client.subscribe(cds)
			client.expect(cds, nil)
			client.subscribe(eds, "a", "b", "b")
			client.expect(eds, map[string]string{"a": a})
			client.unsubscribe(eds, "a")
			client.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: eds, ResponseNonce: "2", ErrorDetail: &status.Status{Message: "no"}})

			if err := c.Await(deadline(t), func(s Stats) bool { return s.Nacks == 1 }); err != nil {
				t.Fatal(err)
			}
			got := c.Stats()
			counts := Counts{Requests: 6, Acks: 2, Nacks: 1, Responses: 2, Resources: 1}
			want := Stats{
				Opened: 1, Nodes: map[string]int{"node": 1}, Counts: counts,
				Streams: []Stream{{
					ID: 1, Delta: true, Node: got.Streams[0].Node, Nack: "no", Counts: counts,
					Types: map[string]Subscriptions{
						cds: {Names: map[string]int{"*": 1}, Unsubscribed: map[string]int{}},
						eds: {Names: map[string]int{"b": 2}, Unsubscribed: map[string]int{"a": 1}},
					},
				}},
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(Subscriptions{}), cmp.Comparer(func(a, b *corev3.Node) bool { return a == b })); diff != "" {
				t.Errorf("other statistics (-want +got):\n%s", diff)
			}
			if n := got.Subscribed(); n != 2 {
				t.Errorf("%d subscriptions, expected 2", n)
			}
			c.Stop()
			if diff := cmp.Diff(counts, c.Stats().Counts); diff != "" {
				t.Errorf("a closed stream counts differently (-want +got):\n%s", diff)
			}
		})
	}
}

// SUB-2: the wildcard of a SotW stream, in its legacy form and after it.
func TestStatsOfSotW(t *testing.T) {
	c := started(t, New())
	ctx, ads := dial(t, c)
	stream, err := ads.StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct{ names, want []string }{
		{nil, []string{"*"}},
		{nil, []string{"*"}},
		{[]string{"*", "a"}, []string{"*", "a"}},
		{[]string{"a"}, []string{"a"}},
		{nil, nil},
	} {
		if err := stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: cds, ResourceNames: step.names}); err != nil {
			t.Fatal(err)
		}
		if err := c.Await(ctx, func(s Stats) bool { return s.Requests == i+1 }); err != nil {
			t.Fatal(err)
		}
		of := c.Stats().Streams[0].Types[cds]
		if diff := cmp.Diff(step.want, names(of.Names)); diff != "" {
			t.Errorf("after request %d other subscriptions (-want +got):\n%s", i+1, diff)
		}
	}
}
