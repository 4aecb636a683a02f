package integration

import (
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/xdsrelay/xdsrelay/config"
)

// TestRejectionReachesTheControlPlane: with nack_wait a client's NACK becomes the
// relay's own; it names the client and the reason. What the others hold stays, and
// later versions flow.
func TestRejectionReachesTheControlPlane_ACK3_ACK7(t *testing.T) {
	p := newPlane(t)
	p.set(clusterType, "c1", true)
	relay := startRelay(t, func(c *config.Config) { c.Upstreams[0].NackWait = config.Duration(time.Minute) }, p.addr)
	good, picky := newClient(t, relay.addr, "good"), newClient(t, relay.addr, "picky")
	refused := false // the first version only
	picky.nack = func(r *discovery.DeltaDiscoveryResponse) string {
		if refused || r.GetResources()[0].GetName() != "c2" {
			return ""
		}
		refused = true
		return "c2 makes no sense"
	}
	for _, c := range []*client{good, picky} {
		if err := c.connect(true); err != nil {
			t.Fatal(err)
		}
		c.subscribe(clusterType, []string{"*"}, nil)
		c.awaitHolding(t, clusterType, "c1")
	}
	p.set(clusterType, "c2", true)
	good.awaitHolding(t, clusterType, "c1", "c2")
	waitFor(t, "the rejection upstream", func() bool {
		for _, r := range p.streamsNow()[0].requests {
			if m := r.GetErrorDetail().GetMessage(); strings.Contains(m, "picky") && strings.Contains(m, "c2 makes no sense") {
				return true
			}
		}
		return false
	})
	p.set(clusterType, "c2", true) // another version: nobody objects to it
	for _, c := range []*client{good, picky} {
		c.awaitHolding(t, clusterType, "c1", "c2")
	}
	if !picky.connected() {
		t.Error("ACK-3: the stream ended")
	}
}
