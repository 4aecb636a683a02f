package downstream

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

// retire says that all connections are old, as it is said again and again.
func (h *harness) retire() {
	h.Helper()
	h.server.Retire(func(context.Context) bool { return true })
	h.quiet()
}

// lives reports that the stream has not ended, and that the admin port shows that it will.
func (c *client) lives() {
	c.h.Helper()
	c.h.quiet()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || len(c.h.server.Clients(nil, nil)) != 1 || !c.h.server.Clients(nil, nil)[0].Leaving {
		c.h.Errorf("the stream ended with %v", c.err)
	}
}

const tooOld = "reached its greatest age"

// A stream whose connection is old ends between responses: not before the client has everything that is
// due, and has acknowledged it, and not within a make-before-break sequence.
func TestRetire_SUR4(t *testing.T) {
	runPaced(t, []scenario{
		{"a stream at rest ends at once", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.client()
			c.subscribe(clusterType)
			c.wants("Cluster +a=1")
			h.retire()
			c.endedWith(codes.Unavailable, tooOld)
			if n := h.seen.count("retired: " + DeltaADS); n != 1 {
				h.Errorf("counted %d times", n)
			}
			if n := len(h.server.shared.retirements.since); n != 0 {
				h.Errorf("%d streams are to end", n)
			}
		}},
		{"nobody else's does", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.client()
			c.subscribe(clusterType)
			c.wants("Cluster +a=1")
			h.server.Retire(func(context.Context) bool { return false })
			h.opaque.set(clusterType, "2", "a")
			c.wants("Cluster +a=2")
		}},
		{"a response that is not acknowledged is waited for", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.slowClient()
			c.subscribe(clusterType)
			last := c.wants("Cluster +a=1")[0]
			h.retire()
			h.advance(5 * time.Second)
			h.retire()
			c.lives()
			c.ack(last)
			c.endedWith(codes.Unavailable, tooOld)
		}},
		{"what comes meanwhile is sent", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.slowClient()
			c.subscribe(clusterType)
			last := c.wants("Cluster +a=1")[0]
			h.retire()
			h.opaque.set(clusterType, "2", "a")
			c.ack(last)
			last = c.wants("Cluster +a=2")[0]
			c.lives()
			c.ack(last)
			c.endedWith(codes.Unavailable, tooOld)
		}},
		{"all parts of a response are sent", func(h *harness) {
			h.server.SetLimits(Limits{MaxMessageSize: 16 << 10})
			h.sized("1", 500, 1000)
			c := h.slowClient()
			c.subscribe(clusterType)
			parts, all := c.take(), 0
			h.retire()
			for len(parts) > 0 {
				for _, part := range parts {
					all += len(part.Resources)
					c.ack(part)
				}
				parts = c.take()
			}
			c.endedWith(codes.Unavailable, tooOld)
			if all != 500 {
				h.Errorf("the client was sent %d resources of 500", all)
			}
		}},
		{"a removal that waits for its time is sent and acknowledged", func(h *harness) {
			c := h.client()
			h.opaque.set(clusterType, "1", "a", "b")
			h.opaque.set(routeType, "1", "r")
			c.subscribe(clusterType)
			c.subscribe(routeType, "r")
			c.wants("Cluster +a=1 +b=1", "RouteConfiguration +r=1")
			h.opaque.set(routeType, "2", "r") // to b
			h.opaque.unset(clusterType, "a")
			h.retire()
			c.lives()
			h.advance(200 * time.Millisecond)
			c.wants("RouteConfiguration +r=2", "Cluster -a")
			c.endedWith(codes.Unavailable, tooOld)
		}},
		{"a client that acknowledges nothing is cut off", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.slowClient()
			c.subscribe(clusterType)
			c.wants("Cluster +a=1")
			h.retire()
			h.advance(retireGrace)
			h.retire()
			c.lives()
			h.advance(time.Second)
			h.retire()
			c.endedWith(codes.Unavailable, tooOld)
		}},
		{"a client that has no response yet gets one first", func(h *harness) {
			c := h.client()
			h.quiet()
			h.retire()
			c.lives()
			c.subscribe(clusterType, "a")
			h.quiet()
			c.endedWith(codes.Unavailable, tooOld)
			c.wants("Cluster -a")
		}},
		{"a client that came back with everything gets a response without anything first", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			first := h.client()
			first.subscribe(clusterType) // the relay has it
			first.wants("Cluster +a=1")
			first.cancel()
			c := h.slowClient()
			c.send(&request{TypeUrl: clusterType, InitialResourceVersions: map[string]string{"a": "1"}})
			c.wants()
			h.retire()
			h.retire()
			last := c.wants("Cluster")
			c.lives()
			c.ack(last[0])
			c.endedWith(codes.Unavailable, tooOld)
		}},
		{"a client that has nothing and waits gets none", func(h *harness) {
			h.opaque.silent = true
			c := h.client()
			c.subscribe(clusterType, "a")
			h.retire()
			h.retire()
			c.wants()
			c.lives()
		}},
		{"the state of the world too", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.stateOn(adsStream, false)
			c.asks(clusterType)
			h.advance(20 * time.Second) // the list is complete
			last := c.take()
			h.retire()
			if len(last) != 1 || len(h.server.Clients(nil, nil)) != 1 {
				h.Fatalf("got %v of %d streams", last, len(h.server.Clients(nil, nil)))
			}
			c.ack(last[0])
			h.quiet()
			if n := len(h.server.Clients(nil, nil)); n != 0 {
				h.Errorf("%d streams are left", n)
			}
		}},
		{"a drain ends it like any other", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.slowClient()
			c.subscribe(clusterType)
			c.wants("Cluster +a=1")
			h.retire()
			h.drain(h.Context(), 0)
			c.endedWith(codes.Unavailable, "draining")
		}},
	})
}
