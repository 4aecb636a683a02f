package downstream

import (
	"testing"
	"time"
)

func TestSetLimits(t *testing.T) {
	t.Run("OPS-5 a stream keeps what it subscribes to, and gets no more", func(t *testing.T) {
		bubble(t, func(h *harness) {
			h.opaque.set(clusterType, "1", many(4)...)
			c := h.client()
			c.subscribe(clusterType, "0", "1")
			c.wants("Cluster +0=1 +1=1")
			h.server.SetLimits(Limits{PerClient: ClientLimits{Subscriptions: 1}})
			c.subscribe(clusterType, "2")
			c.wants("Cluster -2 !2=ResourceExhausted")
			h.opaque.set(clusterType, "2", "0", "1")
			c.wants("Cluster +0=2 +1=2")
			h.server.SetLimits(Limits{})
			c.subscribe(clusterType, "3")
			c.wants("Cluster +3=1")
		})
	})
	t.Run("RES-9 responses are split below what is the limit now", func(t *testing.T) {
		bubble(t, func(h *harness) {
			c := h.client()
			h.server.SetLimits(Limits{MaxMessageSize: headerRoom + 64})
			h.opaque.real(clusterType, "1", "0", "1")
			c.subscribe(clusterType, "0", "1")
			if got := c.take(); len(got) != 2 {
				t.Errorf("%d responses, want 2: %q", len(got), got)
			}
		})
	})
	t.Run("ACK-2 what waits for an acknowledgement goes on after the time that is the limit now", func(t *testing.T) {
		bubble(t, func(h *harness) {
			h.opaque.set(clusterType, "1", "0")
			c := h.slowClient()
			c.subscribe(clusterType, "0")
			c.wants("Cluster +0=1")
			h.server.SetLimits(Limits{AckWait: time.Second})
			h.opaque.set(clusterType, "2", "0")
			c.wants()
			h.advance(ackWait)
			c.wants("Cluster +0=2")
		})
	})
	t.Run("REST-1 a poll is held as long as is the limit when it comes", func(t *testing.T) {
		restBubble(t, func(h *harness) {
			h.opaque.real(clusterType, "1", "0")
			p := h.poller(clusterPath, "0")
			p.poll().accepts("200 0=1")
			h.server.SetLimits(Limits{RESTWait: time.Second})
			p.poll().isHeld()
			h.advance(time.Second)
			p.wants("304")
		})
	})
}
