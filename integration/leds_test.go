package integration

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
)

// Single endpoints have a service of their own, on either side: a collection of them is
// asked for and served by DeltaLocalityEndpoints (LEDS).
func TestLocalityEndpoints_VAR2(t *testing.T) {
	const pool = "xdstp://a.test/envoy.config.endpoint.v3.LbEndpoint/pool/"
	p := newPlane(t)
	p.set(lbEndpointType, pool+"one", false)
	p.set(lbEndpointType, pool+"two", false)
	relay := startRelay(t, func(c *config.Config) { c.Upstreams[0].APIType = config.DeltaGRPC }, p.addr)
	for _, v := range []variant{delta, deltaADS} {
		c := newVariantClient(t, v, relay.addr, "client")
		if err := c.connect(false); err != nil {
			t.Fatal(err)
		}
		c.subscribe(lbEndpointType, []string{pool + "*"}, nil)
		c.common().awaitHolding(t, lbEndpointType, pool+"one", pool+"two")
	}
	relay.consistent(t)
}
