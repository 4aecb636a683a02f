package downstream

import (
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// scenario is one row of a table: what happens in a bubble of its own.
type scenario struct {
	name string
	run  func(h *harness)
}

func runAll(t *testing.T, scenarios []scenario, change ...func(*Config)) {
	t.Helper()
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) { bubble(t, s.run, change...) })
	}
}

func TestSubscriptions(t *testing.T) {
	runAll(t, []scenario{
		{"SUB-1 the wildcard, and a name beside it", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b", "odd")
			h.opaque.hidden["odd"] = true
			c := h.client()
			c.subscribe(clusterType, "*", "odd")
			h.quiet()
			if got := holds(c.take()); len(got) != 3 {
				h.Errorf("client holds %v", got)
			}
			h.opaque.set(clusterType, "2", "odd")
			c.wants("Cluster +odd=2")
			h.opaque.set(clusterType, "2", "a")
			c.wants("Cluster +a=2")
		}},
		{"SUB-3 legacy wildcard, then a name, then without either", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.client()
			c.subscribe(clusterType)
			c.wants("Cluster +a=1 +b=1")
			c.subscribe(clusterType, "a") // keeps "*"
			c.wants("Cluster +a=1")
			h.opaque.set(clusterType, "2", "b")
			c.wants("Cluster +b=2")
			c.unsubscribe(clusterType, "*") // keeps a
			c.wants()
			h.opaque.set(clusterType, "3", "a", "b")
			c.wants("Cluster +a=3")
			c.unsubscribe(clusterType, "a") // nothing is left, and that is no wildcard
			h.quiet()
			h.opaque.set(clusterType, "4", "a", "b")
			c.wants()
			c.subscribe(clusterType)
			c.wants()
			if n := h.status().Types[clusterType].Subscriptions; n != 0 {
				h.Errorf("%d subscriptions left", n)
			}
		}},
		{"SUB-3 a first request that subscribes to everything and unsubscribes it asks for nothing", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.client()
			c.send(&request{
				TypeUrl: clusterType, ResourceNamesSubscribe: []string{"*"}, ResourceNamesUnsubscribe: []string{"*"},
				InitialResourceVersions: map[string]string{"gone": "1"},
			})
			c.wants()
			if n := h.opaque.store.Session().Wanted(); n != 0 {
				h.Errorf("the control plane is asked for %d names", n)
			}
			c.subscribe(clusterType) // no wildcard any more
			c.wants()
			c.subscribe(clusterType, "a")
			c.wants("Cluster +a=1")
			c.send(&request{TypeUrl: clusterType, ResourceNamesSubscribe: []string{"*", "b"}, ResourceNamesUnsubscribe: []string{"*"}})
			c.wants("Cluster +b=1")
			if n := h.opaque.store.Session().Wanted(); n != 2 {
				h.Errorf("the control plane is asked for %d names, want 2", n)
			}
		}},
		{"SUB-4 the legacy wildcard works for every type", func(h *harness) {
			h.opaque.set(endpointType, "1", "a")
			h.opaque.set(unknownType, "1", "x")
			c := h.client()
			c.subscribe(endpointType)
			c.wants("ClusterLoadAssignment +a=1")
			c.subscribe(unknownType)
			c.wants("Unheard +x=1")
		}},
		{"SUB-4 a first request that unsubscribes is no legacy wildcard, nor is the one after it", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.client()
			c.unsubscribe(clusterType, "b")
			c.wants()
			c.subscribe(clusterType)
			c.wants()
		}},
		{"SUB-4 a first request with locators is no legacy wildcard", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.client()
			c.send(&request{TypeUrl: clusterType, ResourceLocatorsSubscribe: []*discovery.ResourceLocator{{Name: "b"}}})
			c.wants("Cluster -b")
		}},
		{"SUB-5 a name that the wildcard brought is sent when it is asked for", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.client()
			c.subscribe(clusterType, "*")
			c.wants("Cluster +a=1 +b=1")
			c.subscribe(clusterType, "b")
			c.wants("Cluster +b=1")
		}},
		{"SUB-6 subscribing again sends again", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.client()
			c.subscribe(clusterType, "*")
			c.wants("Cluster +a=1 +b=1")
			c.subscribe(clusterType, "*")
			c.wants("Cluster +a=1 +b=1")
			c.unsubscribe(clusterType, "*")
			c.subscribe(clusterType, "a")
			c.wants("Cluster +a=1")
			c.subscribe(clusterType, "a", "a")
			c.wants("Cluster +a=1")
		}},
		{"SUB-7 unsubscribing from what was never subscribed to", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.client()
			c.unsubscribe(clusterType, "a", "*", "xdstp://a/envoy.config.cluster.v3.Cluster/x", "xdstp://a/envoy.config.cluster.v3.Cluster/*")
			c.wants()
			c.subscribe(clusterType, "a")
			c.wants("Cluster +a=1")
			c.unsubscribe(clusterType, "b", "*")
			c.wants()
			h.opaque.set(clusterType, "2", "a")
			c.wants("Cluster +a=2")
		}},
		{"SUB-8 a pure unsubscribe is not answered", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.client()
			c.subscribe(clusterType, "a", "b")
			c.wants("Cluster +a=1 +b=1")
			c.unsubscribe(clusterType, "a")
			c.wants()
		}},
		{"SUB-8 with the wildcard a name that it holds is answered with the resource", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.client()
			c.subscribe(clusterType, "*", "a")
			c.take()
			c.unsubscribe(clusterType, "a")
			c.wants("Cluster +a=1")
			h.opaque.set(clusterType, "2", "a")
			c.wants("Cluster +a=2")
		}},
		{"SUB-8 with the wildcard a name that it has not is answered as removed", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "odd")
			h.opaque.hidden["odd"] = true
			c := h.client()
			c.subscribe(clusterType, "*", "odd")
			h.quiet()
			h.opaque.settle()
			c.take()
			c.unsubscribe(clusterType, "odd")
			c.wants("Cluster -odd")
		}},
		{"SUB-8 whether the wildcard has it is not known before it is synced", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "odd")
			h.opaque.hidden["odd"] = true
			c := h.client()
			c.subscribe(clusterType, "*", "odd")
			c.take()
			c.unsubscribe(clusterType, "odd")
			c.wants()
			h.opaque.settle()
			c.wants("Cluster -odd")
		}},
		{"SUB-8 across stores: a name of an authority, with the wildcard of the scope", func(h *harness) {
			name := "xdstp://a/envoy.config.cluster.v3.Cluster/x"
			h.opaque.set(clusterType, "1", "a")
			h.a.set(clusterType, "1", name)
			c := h.client()
			c.subscribe(clusterType, "*", name)
			h.quiet()
			h.opaque.settle()
			if got := holds(c.take()); len(got) != 2 {
				h.Errorf("client holds %v", got)
			}
			c.unsubscribe(clusterType, name)
			c.wants("Cluster -" + name)
			c.unsubscribe(clusterType, name) // not subscribed to any more (SUB-7)
			c.wants()
		}},
		{"SUB-8 across stores: not when the wildcard goes too", func(h *harness) {
			name := "xdstp://a/envoy.config.cluster.v3.Cluster/x"
			h.a.set(clusterType, "1", name)
			c := h.client()
			c.subscribe(clusterType, "*", name)
			h.quiet()
			h.opaque.settle()
			c.take()
			c.unsubscribe(clusterType, name, "*")
			c.wants()
		}},
		{"SUB-9 what does not exist is remembered", func(h *harness) {
			c := h.client()
			c.subscribe(endpointType, "late")
			c.wants("ClusterLoadAssignment -late")
			h.opaque.set(endpointType, "1", "late")
			c.wants("ClusterLoadAssignment +late=1")
		}},
		{"WARM-1 endpoints are answered again though nothing changed", func(h *harness) {
			h.opaque.set(clusterType, "1", "c")
			h.opaque.set(endpointType, "1", "e")
			c := h.client()
			c.subscribe(clusterType)
			c.wants("Cluster +c=1")
			c.subscribe(endpointType, "e")
			c.wants("ClusterLoadAssignment +e=1")
			h.opaque.set(clusterType, "2", "c")
			c.wants("Cluster +c=2")
			c.subscribe(endpointType, "e")
			c.wants("ClusterLoadAssignment +e=1")
		}},
	})
}
