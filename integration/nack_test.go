package integration

import (
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/controlplane"
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

// TestQuarantineIsShown: a type that the control plane does not serve is withheld
// after it ended the stream once, everybody else is served, and an operator sees it.
func TestQuarantineIsShown_OPS2(t *testing.T) {
	cp := controlplane.New(clusterType)
	if err := cp.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cp.Close)
	update(t, cp, "c1", cluster("c1", time.Second))
	relay := startRelay(t, nil, cp.Addr())
	c := newClient(t, relay.addr, "a")
	if err := c.connect(true); err != nil {
		t.Fatal(err)
	}
	c.subscribe(clusterType, []string{"*"}, nil)
	c.awaitHolding(t, clusterType, "c1")
	c.subscribe(listenerType, []string{"l1"}, nil)
	waitFor(t, "the type on /upstreams", func() bool {
		_, body := relay.get(t, "/upstreams")
		return strings.Contains(body, `"quarantined": [`) && strings.Contains(body, listenerType)
	})
	update(t, cp, "c2", cluster("c2", time.Second))
	c.awaitHolding(t, clusterType, "c1", "c2")
}
