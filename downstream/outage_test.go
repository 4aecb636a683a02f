package downstream

import (
	"testing"

	"google.golang.org/grpc/codes"
)

// TestOutageOfTwoStores_ABS2: a client asks for things of two stores, nothing is known, and the control
// plane of both goes away. The stores tell their clients one after the other. The client is sent no
// error by the first one: its stream ends before any response.
func TestOutageOfTwoStores_ABS2(t *testing.T) {
	const cause = "it is away"
	marked := func(h *harness) *client {
		h.opaque.away, h.a.away = true, true
		c := h.client()
		c.subscribe(clusterType, "*", ofA("x"))
		c.wants()
		for _, p := range []*plane{h.a, h.opaque} {
			if !p.store.Session().SetOutage(cause) {
				h.Error("no outage begins")
			}
		}
		c.wants()
		return c
	}
	runAll(t, []scenario{
		{"the stream ends without a response", func(h *harness) {
			c := marked(h)
			h.a.store.Session().TellOutage()
			c.wants()
			h.opaque.store.Session().TellOutage()
			c.endedWith(codes.Unavailable, cause)
			c.wants()
		}},
		{"a stream that comes in between", func(h *harness) {
			marked(h)
			h.a.store.Session().TellOutage()
			late := h.client()
			late.subscribe(clusterType, "*", ofA("x"))
			late.wants()
			h.opaque.store.Session().TellOutage()
			late.endedWith(codes.Unavailable, cause)
			late.wants()
		}},
		{"one control plane is back before its clients are told", func(h *harness) {
			c := marked(h)
			h.a.store.Session().TellOutage()
			c.wants()
			h.opaque.store.Session().SetOutage("")
			c.wants("Cluster !" + ofA("x") + "=Unavailable")
		}},
	})
}

// TestOutageOfPolls_ABS2: a poll is not answered while it is about to be decided that it cannot be served, in one
// store or in one of two: neither with the errors of the other one, nor when its time is over.
func TestOutageOfPolls_ABS2(t *testing.T) {
	const cause = "it is away"
	both := func(h *harness) []*plane { return []*plane{h.opaque, h.a} }
	one := func(h *harness) []*plane { return []*plane{h.opaque} }
	for _, tt := range []struct {
		name, path string
		of         func(*harness) []*plane
		names      []string
	}{
		{"a name of one store", clusterPath, one, []string{"x"}},
		{"everything of one store", clusterPath, one, []string{"*"}},
		{"names of two stores", clusterPath, both, []string{"x", ofA("x")}},
		{"everything of one store, a name of another one", clusterPath, both, []string{"*", ofA("x")}},
		{"names of two stores, and one that is refused", endpointPath, both, []string{"x", "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x", "xdstp://%"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			restBubble(t, func(h *harness) {
				planes := tt.of(h)
				for _, p := range planes {
					p.away = true
				}
				early := h.poller(tt.path, tt.names...)
				early.poll().isHeld()
				for _, p := range planes {
					if !p.store.Session().SetOutage(cause) {
						h.Error("no outage begins")
					}
				}
				for _, p := range planes[1:] {
					p.store.Session().TellOutage()
				}
				h.advance(mergeTime)
				early.isHeld()
				late := h.poller(tt.path, tt.names...)
				late.poll().isHeld()
				h.advance(restWait)
				early.wants("304")
				late.wants("304")
				late.poll().isHeld()
				planes[0].store.Session().TellOutage()
				late.refusedWith(503, cause)
				h.poller(tt.path, tt.names...).poll().refusedWith(503, cause)
				for _, p := range planes {
					p.store.Session().SetOutage("")
				}
				h.poller(tt.path, tt.names...).poll().isHeld()
			})
		})
	}
}
