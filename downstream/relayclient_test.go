package downstream

import "testing"

// A client that is a relay presents nothing after its restart. Its own clients may hold anything,
// and it takes from them what its first list lacks.
func TestRelayAsClient_RES2_RES11(t *testing.T) {
	behind := func(name string, do func(h *harness)) scenario {
		return scenario{name, func(h *harness) {
			h.agent = "xdsrelay/v1.2.3"
			do(h)
		}}
	}
	runAll(t, []scenario{
		behind("a list waits until it is whole", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.state()
			c.asks(clusterType)
			c.wants()
			h.opaque.settle()
			c.wants("Cluster a@1 b@1")
		}),
		behind("a list of names waits for each of them", func(h *harness) {
			h.opaque.silent = true
			c := h.state()
			c.asks(clusterType, "a", "b")
			c.wants()
			h.opaque.put(clusterType, resourceOf(clusterType, "a", "1"))
			c.wants()
			h.opaque.put(clusterType, resourceOf(clusterType, "b", "1"))
			c.wants("Cluster a@1 b@1")
		}),
		behind("types without lists do not wait", func(h *harness) {
			h.opaque.silent = true
			c := h.state()
			c.asks(endpointType, "a", "b")
			c.wants()
			h.opaque.put(endpointType, resourceOf(endpointType, "a", "1"))
			c.wants("ClusterLoadAssignment a@1")
		}),
	})
}

func TestRESTRelayAsClient_RES2_RES11(t *testing.T) {
	relayBubble := func(t *testing.T, f func(h *harness)) {
		t.Helper()
		restBubble(t, func(h *harness) {
			h.agent = "xdsrelay/v1.2.3"
			f(h)
		})
	}
	t.Run("a list waits until it is whole", func(t *testing.T) {
		relayBubble(t, func(h *harness) {
			h.opaque.real(clusterType, "1", "a", "b")
			p := h.poller(clusterPath)
			p.poll().isHeld()
			h.opaque.settle()
			p.accepts("200 a=1 b=1")
		})
	})
	t.Run("so does a collection of another type", func(t *testing.T) {
		relayBubble(t, func(h *harness) {
			h.opaque.real(endpointType, "1", "a", "b")
			h.poller(endpointPath, "a").poll().accepts("200 a=1") // that is known
			p := h.poller(endpointPath, "a", "*")
			p.poll().isHeld()
			h.opaque.settle()
			p.accepts("200 a=1 b=1")
		})
	})
	t.Run("names of such a type do not wait", func(t *testing.T) {
		relayBubble(t, func(h *harness) {
			h.opaque.silent = true
			p := h.poller(endpointPath, "a", "b")
			p.poll().isHeld()
			h.opaque.real(endpointType, "1", "a")
			p.accepts("200 a=1")
		})
	})
}
