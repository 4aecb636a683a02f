package integration

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
)

// TestAuthorityMoves: when another upstream gets an authority, clients of its names are
// sent away, and come back to what the other upstream has.
func TestAuthorityMoves_LOC3_ACK4_RES11(t *testing.T) {
	const of = "xdstp://a/envoy.config.cluster.v3.Cluster/"
	names := []string{of + "same", of + "differs", of + "gone", of + "d/1", of + "d/2"}
	planes := []*testPlane{newPlane(t), newPlane(t)}
	for i, p := range planes {
		p.set(clusterType, names[0], false)
		p.world = fmt.Sprint(i)
		p.set(clusterType, names[1], false)
		p.set(clusterType, names[3], false)
	}
	planes[0].set(clusterType, names[2], false)
	planes[0].set(clusterType, names[4], false)
	relay := startRelay(t, func(c *config.Config) {
		c.Upstreams[0].Authorities, c.Upstreams[1].Authorities = []string{"a"}, []string{"b"}
	}, planes[0].addr, planes[1].addr)
	m := &moving{t: t, relay: relay}
	c := newClient(t, relay.addr, "client")
	c.distrusted = true
	if err := c.connect(false); err != nil {
		t.Fatal(err)
	}
	c.subscribe(clusterType, []string{names[0], names[1], names[2], of + "d/*"}, nil)
	c.awaitHolding(t, clusterType, slices.Clone(names)...)
	relay.mustReload(t, func(c *config.Config) {
		c.Upstreams[0].Authorities, c.Upstreams[1].Authorities = []string{"b"}, []string{"a"}
	})
	m.comesBack(c, deltaADS)
	want := func() bool {
		return maps.Equal(c.state(clusterType), planes[1].holds(clusterType, c.wanted(clusterType)))
	}
	c.await(t, "what the other upstream has", want)
	planes[1].set(clusterType, names[0], false)
	c.await(t, "an update of it", want)
	for _, fault := range c.found() {
		t.Error(fault)
	}
	relay.consistent(t)
}
