package integration

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

const coldGlob = "xdstp://a/envoy.config.cluster.v3.Cluster/d/*"

// TestColdRelayTakesOverWarmClients moves clients with what they hold to a second
// relay that knows nothing, while its control plane answers late, in any order and
// in several parts: nothing is removed and nothing unchanged is sent again; what
// was removed meanwhile is told once it is known.
func TestColdRelayTakesOverWarmClients_RES11_RES15_SUB9(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			warm, cold := newPlane(t), newPlane(t)
			cold.Behave(func(b *plane.Behaviour) { b.Random = rand.New(rand.NewPCG(seed, 8)) })
			for _, n := range universe[clusterType] {
				warm.set(clusterType, n, n[0] == 'c')
			}
			for _, n := range universe[endpointType] {
				warm.set(endpointType, n, false)
			}
			from := startRelay(t, nil, warm.addr)
			subs := map[string][]string{
				clusterType:  {"*", coldGlob, "c2"},
				endpointType: {"c1", "c3"},
			}
			var clients []*client
			for i := range 3 {
				c := newClient(t, from.addr, fmt.Sprint("client-", i))
				if err := c.connect(true); err != nil {
					t.Fatal(err)
				}
				for typeURL, names := range subs {
					c.subscribe(typeURL, names, nil)
				}
				c.await(t, "the first state", func() bool { return len(c.state(clusterType)) == 6 && len(c.state(endpointType)) == 2 })
				clients = append(clients, c)
			}

			// The second control plane has the same, but for one cluster that was
			// removed and one whose content changed.
			cold.Apply(plane.Change{Set: warm.Contents("")})
			cold.version = warm.version
			cold.unset(clusterType, "c4")
			cold.set(clusterType, "c1", true)
			cold.Hold(clusterType, endpointType)
			to := startRelay(t, nil, cold.addr)
			var moved []*client
			for _, c := range clients {
				c.disconnect()
				m := newClient(t, to.addr, c.node)
				m.subs, m.holds = c.subs, c.holds
				if err := m.connect(true); err != nil {
					t.Fatal(err)
				}
				moved = append(moved, m)
			}
			cold.awaitSubscribed(t, map[string]int{clusterType: 3, endpointType: 2})
			cold.Release()
			for _, c := range moved {
				for typeURL := range subs {
					c.await(t, "the second relay's state of "+typeURL, func() bool {
						return maps.Equal(c.state(typeURL), cold.holds(typeURL, c.wanted(typeURL)))
					})
				}
				sent, removed := map[string]int{}, map[string]int{}
				for _, r := range c.responses() {
					for _, x := range r.Resources {
						sent[x.Name]++
					}
					for _, n := range r.RemovedResources {
						removed[n]++
					}
				}
				if want := map[string]int{"c1": 1}; !maps.Equal(sent, want) {
					t.Errorf("RES-11: sent again %v, want %v", sent, want)
				}
				if want := map[string]int{"c4": 1}; !maps.Equal(removed, want) {
					t.Errorf("RES-11: removed %v, want %v", removed, want)
				}
			}
			to.consistent(t)
		})
	}
}
