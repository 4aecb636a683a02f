package downstream

import (
	"slices"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

func TestControlPlane_STR10(t *testing.T) {
	named := func(c *Config) { c.Identifier = "xdsrelay/edge" }
	expect := func(h *harness, when string, got []string, want ...string) {
		h.Helper()
		if !slices.Equal(got, want) {
			h.Errorf("%s: told %q, want %q", when, got, want)
		}
	}
	told := func(c *client) (ids []string) {
		for _, r := range c.take() {
			ids = append(ids, r.GetControlPlane().GetIdentifier())
		}
		return ids
	}
	t.Run("STR-10 passed on, with the relay behind it, once and when it changes", func(t *testing.T) {
		bubble(t, func(h *harness) {
			h.opaque.identifier = "istiod-1"
			h.opaque.set(clusterType, "1", "a")
			h.opaque.set(endpointType, "1", "a")
			c := h.client()
			c.send(&request{Node: node("n"), TypeUrl: clusterType, ResourceNamesSubscribe: []string{"a"}})
			expect(h, "the first response", told(c), "istiod-1 via xdsrelay/edge")
			c.subscribe(endpointType, "a")
			expect(h, "another type", told(c), "")
			h.opaque.identifier = "" // it need not repeat it
			h.opaque.set(clusterType, "2", "a")
			expect(h, "without a word", told(c), "")
			h.opaque.identifier = "istiod-2"
			h.opaque.set(clusterType, "3", "a")
			expect(h, "another instance", told(c), "istiod-2 via xdsrelay/edge")
			h.server.SetIdentifier("xdsrelay/core")
			h.opaque.set(clusterType, "4", "a")
			expect(h, "a reload", told(c), "istiod-2 via xdsrelay/core")
		}, named)
	})
	t.Run("STR-10 several upstreams, each once", func(t *testing.T) {
		bubble(t, func(h *harness) {
			h.opaque.identifier, h.a.identifier = "istiod", "istiod"
			h.opaque.set(clusterType, "1", "a")
			h.a.set(clusterType, "1", ofA("x"))
			c := h.client()
			c.send(&request{Node: node("n"), TypeUrl: clusterType, ResourceNamesSubscribe: []string{"a", ofA("x")}})
			expect(h, "the same", told(c)[:1], "istiod via xdsrelay/edge")
			h.a.identifier = "other"
			h.a.set(clusterType, "2", ofA("x"))
			expect(h, "different", told(c), "istiod, other via xdsrelay/edge")
		}, named)
	})
	t.Run("STR-10 state of the world and polls", func(t *testing.T) {
		bubble(t, func(h *harness) {
			h.opaque.identifier = "istiod"
			h.opaque.real(clusterType, "1", "a")
			c := h.state()
			c.asks(clusterType, "a")
			if got := c.take()[0].GetControlPlane().GetIdentifier(); got != "istiod via xdsrelay/edge" {
				h.Errorf("told %q", got)
			}
			p := h.poller(clusterPath, "a")
			if got := p.poll().accepts("200 a=1").GetControlPlane().GetIdentifier(); got != "istiod via xdsrelay/edge" {
				h.Errorf("the poll is told %q", got)
			}
		}, named)
	})
	t.Run("STR-10 nobody said anything", func(t *testing.T) {
		bubble(t, func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.client()
			c.send(&request{Node: node("n"), TypeUrl: clusterType, ResourceNamesSubscribe: []string{"a"}})
			expect(h, "the relay alone", told(c), "xdsrelay/edge")
		}, named)
		bubble(t, func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.client()
			c.send(&request{Node: node("n"), TypeUrl: clusterType, ResourceNamesSubscribe: []string{"a"}})
			expect(h, "a relay without a name", told(c), "")
		})
	})
}

func TestIdentifier_STR10(t *testing.T) {
	own, long, short := "xdsrelay/r", strings.Repeat("x", wire.MaxIdentifier), "cp"
	if got := identifier(&own, []*string{nil, &long, &short}); len(got) != wire.MaxIdentifier+len(wire.Via)+len(own) || !strings.HasSuffix(got, "x via xdsrelay/r") {
		t.Errorf("the relay's own name is not at the end of %d bytes", len(got))
	}
}
