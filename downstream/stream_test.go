package downstream

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

func TestStream(t *testing.T) {
	runAll(t, []scenario{
		{"STR-1 the first node counts", func(h *harness) {
			c := h.client()
			c.send(&request{TypeUrl: clusterType, Node: node("first")})
			c.send(&request{TypeUrl: endpointType})
			c.send(&request{TypeUrl: listenerType, Node: node("second")})
			if s := h.status(); s.Node != "first" || s.Cluster != "cluster of first" || s.Scope != "scope of first" || len(s.Types) != 3 {
				h.Errorf("stream is shown as %+v", s)
			}
			if len(h.router.nodes) != 1 || h.router.nodes[0].GetId() != "first" {
				h.Errorf("the router was shown %v", h.router.nodes)
			}
		}},
		{"STR-1 first requests without a node wait for one", func(h *harness) {
			h.router.nodeMatters = true
			h.opaque.set(clusterType, "1", "a")
			h.opaque.set(endpointType, "1", "a")
			c := h.client()
			c.send(&request{TypeUrl: endpointType, ResourceNamesSubscribe: []string{"a"}})
			c.send(&request{TypeUrl: endpointType, ResourceNamesSubscribe: []string{"none"}})
			c.wants()
			if len(h.router.nodes) != 0 {
				h.Errorf("the router was shown %v", h.router.nodes)
			}
			c.send(&request{TypeUrl: clusterType, Node: node("first")})
			c.wants("Cluster +a=1", "ClusterLoadAssignment +a=1 -none")
			c.send(&request{TypeUrl: listenerType})
			if len(h.router.nodes) != 1 || h.router.nodes[0].GetId() != "first" || len(h.status().Types) != 3 {
				h.Errorf("the router was shown %v", h.router.nodes)
			}
		}},
		{"STR-1 a stream without a node is served as an empty node after limits.first_request", func(h *harness) {
			h.router.nodeMatters = true
			h.server.SetLimits(Limits{PerClient: ClientLimits{FirstRequest: 3 * time.Second}})
			h.opaque.set(clusterType, "1", "a")
			c := h.client()
			h.advance(time.Second)
			c.send(&request{TypeUrl: clusterType})
			h.advance(2*time.Second - 1)
			c.wants()
			h.advance(1)
			c.wants("Cluster +a=1")
			c.send(&request{TypeUrl: endpointType, Node: node("late")})
			if len(h.router.nodes) != 1 || h.router.nodes[0] != nil || len(h.status().Types) != 2 {
				h.Errorf("the router was shown %v", h.router.nodes)
			}
		}},
		{"STR-1 an empty node is a node", func(h *harness) {
			h.router.nodeMatters = true
			h.opaque.set(clusterType, "1", "a")
			c := h.client()
			c.send(&request{TypeUrl: clusterType, Node: &corev3.Node{}})
			c.wants("Cluster +a=1")
		}},
		{"LIM-1 few requests wait for a node, and none does whose stream has ended", func(h *harness) {
			h.router.nodeMatters = true
			h.client().send(&request{TypeUrl: clusterType})
			h.opaque.set(clusterType, "1", "a")
			c := h.client()
			for range maxNodeless {
				c.send(&request{TypeUrl: clusterType})
			}
			c.wants()
			c.send(&request{TypeUrl: clusterType})
			c.wants("Cluster +a=1")
			large := h.client()
			large.send(&request{TypeUrl: clusterType, InitialResourceVersions: map[string]string{"b": strings.Repeat("v", maxNodelessBytes)}})
			large.wants("Cluster +a=1")
		}},
		{"STR-3 nonces are unique on the stream", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			h.opaque.set(endpointType, "1", "a")
			c := h.client()
			c.subscribe(clusterType)
			c.subscribe(endpointType)
			c.subscribe(listenerType, "none")
			h.quiet()
			for _, v := range []string{"2", "3", "4"} {
				h.opaque.set(clusterType, v, "a")
				h.opaque.set(endpointType, v, "a")
				h.quiet()
			}
			seen := map[string]bool{}
			for _, r := range c.take() {
				if r.Nonce == "" || seen[r.Nonce] {
					h.Errorf("nonce %q is empty or was used before", r.Nonce)
				}
				seen[r.Nonce] = true
			}
			if len(seen) != 9 {
				h.Errorf("%d responses, want 9", len(seen))
			}
		}},
		{"STR-5 a stale or foreign nonce does not hide a change of subscriptions", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b", "c")
			c := h.client()
			for i, nonce := range []string{"", "stale", "0", "-1", "18446744073709551616", "99"} {
				name := []string{"a", "b", "c"}[i%3]
				c.send(&request{TypeUrl: clusterType, ResponseNonce: nonce, ResourceNamesSubscribe: []string{name}})
				c.wants("Cluster +" + name + "=1")
				c.send(&request{TypeUrl: clusterType, ResponseNonce: nonce, ResourceNamesUnsubscribe: []string{name}})
				h.quiet()
			}
			h.opaque.set(clusterType, "2", "a", "b", "c")
			c.wants()
		}},
		{"VAR-4 every type has its own subscription and acknowledgement", func(h *harness) {
			h.opaque.set(clusterType, "1", "same")
			h.opaque.set(endpointType, "1", "same")
			c := h.slowClient()
			c.subscribe(clusterType, "same")
			got := c.wants("Cluster +same=1")
			c.subscribe(endpointType, "same")
			c.wants("ClusterLoadAssignment +same=1")
			c.send(&request{TypeUrl: endpointType, ResponseNonce: got[0].Nonce}) // the other type's nonce
			h.opaque.set(clusterType, "2", "same")
			h.opaque.set(endpointType, "2", "same")
			c.wants()
			c.ack(got[0])
			c.wants("Cluster +same=2")
			c.unsubscribe(clusterType, "same")
			if s := h.status(); s.Types[clusterType].Subscriptions != 0 || s.Types[endpointType].Subscriptions != 1 {
				h.Errorf("shown as %+v", s.Types)
			}
		}},
		{"the admin port shows what was sent", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.slowClient()
			c.subscribe(clusterType, "a", "b", "none")
			got := c.wants("Cluster +a=1 +b=1 -none")
			s := h.status()
			if s.Variant != "delta-ads" || s.Peer == "" || s.ID == 0 || s.Since.IsZero() {
				h.Errorf("stream is shown as %+v", s)
			}
			ts := s.Types[clusterType]
			if ts.Subscriptions != 3 || ts.Responses != 1 || ts.Resources != 2 || ts.Bytes == 0 || ts.Acknowledged || ts.LastSent.IsZero() {
				h.Errorf("type is shown as %+v", ts)
			}
			c.ack(got[0])
			if !h.status().Types[clusterType].Acknowledged {
				h.Error("not shown as acknowledged")
			}
			if h.seen.resources != 2 || h.seen.removed != 1 {
				h.Errorf("observed %d resources and %d removals, want 2 and 1", h.seen.resources, h.seen.removed)
			}
		}},
	})
}

func TestStreams_SortedByID(t *testing.T) {
	bubble(t, func(h *harness) {
		for range 5 {
			h.client().subscribe(clusterType)
		}
		h.quiet()
		all := h.server.Clients(nil, nil)
		if len(all) != 5 || !slices.IsSortedFunc(all, func(a, b Status) int { return int(a.ID) - int(b.ID) }) {
			t.Errorf("streams %+v", all)
		}
	})
}
