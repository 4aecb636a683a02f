package integration

import (
	"maps"
	"strings"
	"testing"
)

// TestControlPlaneOutage kills the control plane: who is connected and who comes
// new is served; when it is back with changes, everybody gets these and nothing
// else.
func TestControlPlaneOutage_OPS1_RES12_SUB9(t *testing.T) {
	p := newPlane(t)
	for _, n := range universe[clusterType] {
		p.set(clusterType, n, n[0] == 'c')
	}
	relay := startRelay(t, nil, p.addr)
	subs := []string{"*", coldGlob}
	join := func(name string) *client {
		c := newClient(t, relay.addr, name)
		if err := c.connect(true); err != nil {
			t.Fatal(err)
		}
		c.subscribe(clusterType, subs, nil)
		return c
	}
	before := join("before")
	before.awaitHolding(t, clusterType, universe[clusterType]...)
	settled := len(before.responses())

	p.stop()
	during := join("during")
	during.awaitHolding(t, clusterType, universe[clusterType]...)
	during.subscribe(clusterType, []string{"c2"}, nil) // unknown by name, so nothing can be said about it
	if !before.connected() || len(before.responses()) != settled {
		t.Errorf("OPS-1: a client noticed the outage: connected %t, %d responses", before.connected(), len(before.responses())-settled)
	}
	waitFor(t, "staleness in the metrics", func() bool {
		_, body := relay.get(t, "/metrics")
		return strings.Contains(body, `xdsrelay_upstream_staleness_seconds{upstream="plane-0"}`) &&
			!strings.Contains(body, `xdsrelay_upstream_staleness_seconds{upstream="plane-0"} 0`+"\n")
	})

	p.set(clusterType, "c1", true)
	p.unset(clusterType, "c3")
	p.set(clusterType, "c9", true)
	p.restart(t)
	for _, c := range []*client{before, during} {
		c.await(t, "convergence after the outage", func() bool {
			return maps.Equal(c.state(clusterType), p.holds(clusterType, c.wanted(clusterType)))
		})
	}
	sent, removed := map[string]int{}, map[string]int{}
	for _, r := range before.responses()[settled:] {
		for _, x := range r.Resources {
			sent[x.Name]++
		}
		for _, n := range r.RemovedResources {
			removed[n]++
		}
	}
	if !maps.Equal(sent, map[string]int{"c1": 1, "c9": 1}) || !maps.Equal(removed, map[string]int{"c3": 1}) {
		t.Errorf("RES-12: after the outage sent %v, removed %v; want c1, c9 and c3", sent, removed)
	}
	relay.consistent(t)
}
