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
		{"SUB-8 across stores: a name ends in the request with which * begins", func(h *harness) {
			h.opaque.set(clusterType, "1", "b")
			h.a.set(clusterType, "1", ofA("x"), ofA("y"))
			c := h.client()
			c.subscribe(clusterType, ofA("x"))
			c.take()
			c.send(&request{
				TypeUrl: clusterType, ResourceNamesSubscribe: []string{ofA("y"), "*"}, ResourceNamesUnsubscribe: []string{ofA("x")},
			})
			h.quiet()
			h.opaque.settle()
			c.wants("Cluster +b=1", "Cluster +"+ofA("y")+"=1", "Cluster -"+ofA("x"))
		}},
		{"SUB-8 across stores: a glob is no name that could be answered", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			h.a.set(clusterType, "1", ofA("dir/x"))
			c := h.client()
			c.subscribe(clusterType, "*", ofA("dir/*"))
			c.take()
			h.opaque.settle()
			c.unsubscribe(clusterType, ofA("dir/*"))
			c.wants()
		}},
		{"GLOB-5 SUB-8 across stores: a glob keeps what was named too", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			h.a.set(clusterType, "1", ofA("dir/x"))
			c := h.client()
			c.subscribe(clusterType, "*", ofA("dir/*"), ofA("dir/x"))
			c.take()
			h.opaque.settle()
			c.unsubscribe(clusterType, ofA("dir/x"))
			c.wants("Cluster +" + ofA("dir/x") + "=1") // "*" does not have it, but the glob has
			h.a.set(clusterType, "2", ofA("dir/x"))
			c.wants("Cluster +" + ofA("dir/x") + "=2")
			c.subscribe(clusterType, ofA("dir/x"))
			c.take()
			c.unsubscribe(clusterType, ofA("dir/x"), ofA("dir/*"))
			c.wants("Cluster -" + ofA("dir/x")) // nothing keeps it
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
			h.advance(ackWait)
			c.wants("Cluster +"+ofA("new")+"=2", "Listener +l=2", "Cluster -"+ofA("old"))
		}},
		{"ADS-2 what may be sent is sent at once while types of several stores wait", func(h *harness) {
			const listener = "xdstp://a/envoy.config.listener.v3.Listener/l"
			h.opaque.set(clusterType, "1", "c", "gone")
			h.opaque.set(endpointType, "1", "e")
			h.opaque.set(unknownType, "1", "u")
			h.a.set(listenerType, "1", listener)
			c := h.slowClient()
			c.subscribe(clusterType)
			c.subscribe(endpointType, "e")
			c.subscribe(unknownType, "u")
			c.subscribe(listenerType, listener)
			for _, r := range c.take() {
				if r.TypeUrl == clusterType || r.TypeUrl == listenerType {
					c.ack(r)
				}
			}
			h.opaque.set(unknownType, "2", "u")
			h.opaque.unset(clusterType, "gone") // waits for u
			c.wants()
			h.a.set(listenerType, "2", listener) // later than the endpoints, which are busy
			c.wants("Listener +" + listener + "=2")
			h.opaque.set(clusterType, "2", "new")
			c.wants("Cluster +new=2")
		}},
	})
}
