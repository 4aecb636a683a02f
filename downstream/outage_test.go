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
