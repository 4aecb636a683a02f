package downstream

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

// manyNames are n names of 100 bytes.
func manyNames(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		name := fmt.Sprintf("%s%05d", prefix, i)
		names[i] = name + strings.Repeat("n", 100-len(name))
	}
	return names
}

// The names of all streams and polls weigh no more than there is room for in all. A name beyond that is refused by
// itself, and nothing is removed. Few names of a stream do not count, and who leaves makes room (LIM-3).
func TestNamesTotal_LIM1_LIM3_ABS4(t *testing.T) {
	const (
		each  = nameWeight + 100
		few   = freeNames / each // names that do not count
		most  = 1000             // beside these
		limit = most * each
		// answered is how many refused names have an answer though there is no room.
		answered = freeRefused / each
	)
	totalled := func(c *Config) { c.PerClient = ClientLimits{NamesTotal: limit, Share: 1} }
	whileShort := ClientLimits{NamesWhileShort: limit, Share: 1}
	taken := func(h *harness, want int) {
		h.Helper()
		h.quiet()
		if got := h.server.shared.names.Taken(); (got+each-1)/each != want {
			h.Errorf("LIM-3: names that weigh as much as %d are counted, want %d", got/each, want)
		}
	}
	refused := func(c *client, want int) {
		c.h.Helper()
		n := 0
		for _, r := range c.take() {
			if len(r.RemovedResources) > 0 {
				c.h.Errorf("RES-7: %d names are removed", len(r.RemovedResources))
			}
			for _, e := range r.ResourceErrors {
				if e.GetErrorDetail().GetCode() == int32(codes.Unavailable) {
					n++
				}
			}
		}
		if n != want {
			c.h.Errorf("ABS-4: %d names are refused, want %d", n, want)
		}
	}
	for _, s := range []scenario{
		{"incremental clients", func(h *harness) {
			h.opaque.silent = true
			a, b := h.client(), h.client()
			a.subscribe(endpointType, manyNames("a", few+600)...)
			refused(a, 0)
			taken(h, 600)
			names := manyNames("b", few+600)
			b.subscribe(endpointType, names...)
			refused(b, answered)
			taken(h, most)
			h.limited(LimitNamesTotal, 200)
			c := h.client()
			c.subscribe(endpointType, manyNames("c", few)...) // few
			refused(c, 0)
			c.subscribe(endpointType, "one more", manyNames("d", 1)[0])
			refused(c, 2)
			a.unsubscribe(endpointType, manyNames("a", few+600)[:500]...)
			h.quiet()
			b.subscribe(endpointType, names[few+390:]...) // again
			refused(b, 0)
			a.cancel()
			taken(h, 600)
			b.cancel()
			c.cancel()
			taken(h, 0)
		}},
		{"clients of the state of the world", func(h *harness) {
			h.opaque.silent = true
			a, b := h.state(), h.state()
			a.asks(endpointType, manyNames("a", few+900)...)
			taken(h, 900)
			b.asks(endpointType, manyNames("b", few+10_000)...)
			h.quiet()
			if refused, bytes := h.onlyStreams()[1].types.remembered(); weightOf(refused, bytes) > freeRefused {
				h.Errorf("LIM-3: %d refused names are remembered", refused)
			}
			taken(h, most)
			a.cancel()
			taken(h, 100)
			b.asks(endpointType, manyNames("b", few+500)...)
			taken(h, 500)
			b.asks(endpointType, manyNames("b", 1)...)
			taken(h, 0)
		}},
		{"refused names that are dropped make room at once", func(h *harness) {
			h.opaque.silent = true
			nowhere := make([]string, answered+500) // of an authority that no upstream has
			for i := range nowhere {
				name := fmt.Sprintf("xdstp://nowhere/envoy.config.endpoint.v3.ClusterLoadAssignment/%05d", i)
				nowhere[i] = name + strings.Repeat("n", 100-len(name))
			}
			s := h.state()
			names := manyNames("s", few)
			s.asks(endpointType, append(slices.Clone(names), nowhere...)...)
			taken(h, 500)
			s.asks(endpointType, append(slices.Clone(names), nowhere[:answered+100]...)...)
			taken(h, 100)
			s.asks(endpointType, names...)
			taken(h, 0)
			s.cancel()
			c := h.client()
			c.subscribe(endpointType, append(slices.Clone(names), nowhere...)...)
			taken(h, 500)
			c.unsubscribe(endpointType, nowhere[:400]...)
			taken(h, 100)
			c.unsubscribe(endpointType, nowhere...)
			taken(h, 0)
		}},
		{"what a client presents of globs counts", func(h *harness) {
			versions := map[string]string{}
			for i := range 10_000 {
				versions[ofA(fmt.Sprintf("d/%05d", i))] = "1"
			}
			c := h.client()
			c.send(&request{TypeUrl: clusterType, InitialResourceVersions: versions})
			h.quiet()
			if got := h.server.shared.names.Taken(); got > limit || got < limit-each {
				h.Errorf("LIM-3: %d bytes are counted, want %d", got, limit)
			}
			c.cancel()
			taken(h, 0)
		}},
		{"a poll", func(h *harness) {
			h.opaque.silent = true
			c := h.client()
			c.subscribe(endpointType, manyNames("a", few+900)...)
			taken(h, 900)
			names := manyNames("b", few+200)
			h.opaque.real(endpointType, "1", names[0])
			h.poller(endpointPath, names...).poll()
			h.limited(LimitNamesTotal, 100)
			taken(h, 900)
		}},
	} {
		t.Run(s.name, func(t *testing.T) { bubble(t, s.run, totalled) })
	}
	t.Run("while memory is short", func(t *testing.T) {
		bubble(t, func(h *harness) {
			h.opaque.silent = true
			c := h.client()
			c.subscribe(endpointType, manyNames("a", few+2*most)...)
			refused(c, 0)
			taken(h, 2*most)
			h.server.SetShort(true)
			c.subscribe(endpointType, manyNames("b", 10)...)
			refused(c, 10)
			taken(h, 2*most) // what there is stays
			h.server.SetLimits(Limits{PerClient: whileShort})
			c.subscribe(endpointType, manyNames("c", 10)...)
			refused(c, 10)
			h.server.SetShort(false)
			c.subscribe(endpointType, manyNames("b", 10)...)
			refused(c, 0)
			taken(h, 2*most+10)
		}, func(c *Config) { c.PerClient = whileShort })
	})
}

// onlyStreams returns all streams, in the order in which they came. Nothing may be under way.
func (h *harness) onlyStreams() (all []*stream) {
	for _, m := range h.server.present() {
		all = append(all, m.(*stream))
	}
	slices.SortFunc(all, func(a, b *stream) int { return cmp.Compare(a.standing.id, b.standing.id) })
	return all
}
