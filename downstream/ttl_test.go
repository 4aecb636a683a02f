package downstream

import (
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// announce subscribes to names with a node that announces features.
func (c *client) announce(features []string, names ...string) {
	c.send(&request{
		Node: &corev3.Node{Id: "n", ClientFeatures: features}, TypeUrl: clusterType, ResourceNamesSubscribe: names,
	})
}

// wantsTTL holds the one resource that came to what was to come.
func (c *client) wantsTTL(ttl time.Duration, payload bool) {
	c.h.Helper()
	got := c.take()
	if len(got) != 1 || len(got[0].Resources) != 1 {
		c.h.Fatalf("got %v, want one resource", got)
	}
	if x := got[0].Resources[0]; x.Name != "a" || x.Version != "1" || x.GetTtl().AsDuration() != ttl || (x.Resource != nil) != payload {
		c.h.Errorf("got %v, want a ttl of %v, payload: %t", x, ttl, payload)
	}
}

func TestTTL(t *testing.T) {
	runAll(t, []scenario{{"TTL-1 TTL-2 TTL-3 ttl, heartbeat and expiry, by what the node announces", func(h *harness) {
		able, plain, late := h.client(), h.client(), h.client()
		able.announce([]string{"envoy.lb.x", featureTTL}, "a")
		plain.announce([]string{"xds.config.supports-resource-in-sotw"}, "a")
		able.wants("Cluster -a")
		plain.wants("Cluster -a")

		r := resourceOf(clusterType, "a", "1")
		r.Ttl = durationpb.New(10 * time.Second)
		h.opaque.put(clusterType, r)
		able.wantsTTL(10*time.Second, true)
		plain.wantsTTL(0, true)
		h.advance(4 * time.Second)
		late.announce([]string{featureTTL}, "a")
		late.wantsTTL(6*time.Second, true)

		beat := &discovery.Resource{Name: "a", Version: "1", Ttl: durationpb.New(time.Minute)}
		h.opaque.apply(0, &wire.DeltaResponse{TypeURL: clusterType, Resources: []*wire.Resource{h.opaque.wire(beat)}})
		able.wantsTTL(time.Minute, false)
		late.wantsTTL(time.Minute, false)
		plain.wants()

		h.advance(time.Minute)
		h.opaque.store.Settle(time.Now())
		plain.wants("Cluster -a")
		able.wants()
		late.wants()
	}}})
}
