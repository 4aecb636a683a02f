package integration

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

// A client of the last of several relays is told who its control plane is, and by which
// relays its resources came, whatever they speak with each other.
func TestControlPlane_STR10(t *testing.T) {
	for _, between := range []variant{deltaADS, sotwADS, sotw, restPoll} {
		t.Run(between.name, func(t *testing.T) {
			p := newPlane(t)
			p.Behave(func(b *plane.Behaviour) { b.Identifier = `{"Component":"istiod"}` })
			p.plain = between.rest
			p.set(clusterType, "c1", true)
			first := startRelay(t, func(c *config.Config) { c.Node.ID = "first" }, p.addr)
			second := startRelay(t, func(c *config.Config) {
				c.Node.ID = "second"
				c.Upstreams[0].APIType = map[string]config.APIType{
					deltaADS.name: "AGGREGATED_DELTA_GRPC", sotwADS.name: "AGGREGATED_GRPC", sotw.name: "GRPC", restPoll.name: "REST",
				}[between.name]
			}, first.address(between))
			c := joined(t, second, "client")
			c.subscribe(clusterType, []string{"*"}, nil)
			c.awaitHolding(t, clusterType, "c1")
			const want = `{"Component":"istiod"} via xdsrelay/first via xdsrelay/second`
			if got := c.responses()[0].GetControlPlane().GetIdentifier(); got != want {
				t.Errorf("told %s, want %s", got, want)
			}
		})
	}
}
