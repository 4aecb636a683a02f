package downstream

import "testing"

func TestStores_ADS1_SUB8(t *testing.T) {
	runAll(t, []scenario{
		{"SUB-8 across stores: subscribed again before it is answered", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			h.a.set(clusterType, "1", ofA("x"))
			c := h.client()
			c.subscribe(clusterType, "*", ofA("x"))
			c.take()
			c.unsubscribe(clusterType, ofA("x"))
			c.wants() // "*" is not synced: whether it has x is not known
			c.subscribe(clusterType, ofA("x"))
			c.wants("Cluster +" + ofA("x") + "=1")
			h.opaque.settle()
			h.opaque.set(clusterType, "2", "a")
			c.wants("Cluster +a=2")
		}},
		{"ADS-1 removals across stores", func(h *harness) {
			h.a.set(clusterType, "1", ofA("old"))
			h.opaque.set(listenerType, "1", "l")
			c := h.slowClient()
			c.subscribe(listenerType)
			c.subscribe(clusterType, ofA("old"), ofA("new"))
			c.take()
			h.opaque.set(listenerType, "2", "l")
			h.a.unset(clusterType, ofA("old"))
			h.a.set(clusterType, "2", ofA("new"))
			h.advance(DefaultAckTimeout)
			c.wants("Cluster +"+ofA("new")+"=2", "Listener +l=2", "Cluster -"+ofA("old"))
		}},
	})
}
