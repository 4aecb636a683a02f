package integration

import (
	"maps"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
)

// TestColdTier restarts the first of two relays, which speak the state of the world to
// each other, while the control plane's first state comes to it in parts. What the
// second one holds is more than that, and no client of it loses anything: the first
// relay's lists are for one who may lose something, and wait until it knows all.
func TestColdTier_RES2_ACK4_VAR7(t *testing.T) {
	t.Parallel()
	for _, between := range []variant{sotwADS, sotw, restPoll} {
		t.Run(between.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			p := newPlane(t)
			p.plain = between.rest
			all := []string{"c1", "c2", "c3", "c4"}
			for _, n := range all {
				p.set(clusterType, n, true)
			}
			patient := func(c *config.Config) { c.Upstreams[0].Settle = config.Duration(3 * time.Second) } // a part comes sooner
			first := startRelay(t, patient, p.addr)
			second := startRelay(t, func(c *config.Config) {
				c.Upstreams[0].APIType = map[string]config.APIType{
					sotwADS.name: "AGGREGATED_GRPC", sotw.name: "GRPC", restPoll.name: "REST",
				}[between.name]
			}, first.address(between))
			c := newClient(t, second.addr, "client")
			if err := c.connect(true); err != nil {
				t.Fatal(err)
			}
			c.subscribe(clusterType, []string{"*"}, nil)
			c.awaitHolding(t, clusterType, all...)

			first.stop()
			for _, n := range all[1:] {
				p.unset(clusterType, n)
			}
			first = startRelayAt(t, ports.Again(t, first.addr), ports.Again(t, first.rest), patient, p.addr)
			for i := range all { // a part, and the next one when the relay has taken it
				if i > 0 {
					p.set(clusterType, all[i], true)
				}
				waitFor(t, "the first relay to ask and to take a part", func() bool {
					st := p.streamsNow()
					return len(st) == 1 && st[0].sent == i+1 && len(st[0].of(clusterType).unanswered(time.Now())) == 0
				})
			}
			p.set(clusterType, "c5", true)
			p.unset(clusterType, "c4")
			c.await(t, "what changed since", func() bool {
				return maps.Equal(c.payloads(clusterType), p.payloads(clusterType, c.wanted(clusterType)))
			})
			for _, r := range c.responses() {
				for _, n := range r.RemovedResources {
					if n != "c4" {
						t.Errorf("the client lost %s", n)
					}
				}
			}
			first.consistent(t)
			second.consistent(t)
		})
	}
}
