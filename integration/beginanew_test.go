package integration

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// TestServerBeginsAnew: a control plane that starts again counts from one again, and
// means something else by it. Whoever was there before, came back meanwhile with the
// version that it had, or is new, gets the new contents. To an incremental server the
// relay presents what it holds: it would be told of nothing that has its old version.
func TestServerBeginsAnew_ACK4_ACK5_RES8_OPS1(t *testing.T) {
	for _, up := range slices.DeleteFunc(slices.Clone(upstreamVariants), func(up upstreamVariant) bool { return !up.sotw }) {
		t.Run(up.apiType, func(t *testing.T) {
			p := newPlane(t)
			p.plain = true // JSON, for clients that poll, has no word for unknown fields
			fill := func() {
				p.set(clusterType, "c1", true)
				p.set(listenerType, "l1", true)
				p.set(endpointType, "c1", false)
				p.setRoute("r1", "c1")
			}
			fill()
			p.set(clusterType, "c2", true) // which does not come again
			b := &newLife{t: t, plane: p, relay: startRelayOver(t, up, p, nil)}
			var stay, leave []mixedClient
			for _, v := range variants {
				stay, leave = append(stay, b.join(v, "stays")), append(leave, b.join(v, "leaves"))
			}
			b.await(stay...)
			b.await(leave...)
			for _, c := range leave {
				c.disconnect()
			}
			if up.rest {
				// Between two polls nobody could notice that it is another server.
				p.awaitPolls(t, everyType)
			}
			p.stop()
			p.beginAnew()
			fill()
			p.set(clusterType, "c1", true) // the second change, as before
			p.restart(t)
			for _, c := range leave {
				if err := c.connect(true); err != nil {
					t.Fatal(err)
				}
			}
			b.await(stay...)
			b.await(leave...)
			for _, v := range variants {
				b.await(b.join(v, "comes"))
			}
			b.relay.consistent(t)
			p.checkClient(t)
		})
	}
}

// newLife is a control plane that begins anew, with its clients.
type newLife struct {
	t     *testing.T
	plane *testPlane
	relay *testRelay
}

// join connects a client that asks for everything.
func (b *newLife) join(v variant, what string) mixedClient {
	b.t.Helper()
	c := mixedClient{newVariantClient(b.t, v, b.relay.address(v), fmt.Sprint(v.name, " that ", what)), v}
	if err := c.connect(false); err != nil {
		b.t.Fatal(err)
	}
	c.subscribe(clusterType, []string{"*"}, nil)
	c.subscribe(listenerType, []string{"*"}, nil)
	c.subscribe(endpointType, []string{"c1"}, nil)
	c.subscribe(routeType, []string{"r1"}, nil)
	return c
}

// await waits until clients hold what the plane has.
func (b *newLife) await(clients ...mixedClient) {
	b.t.Helper()
	for _, c := range clients {
		h := c.common()
		for _, typeURL := range everyType {
			want := b.plane.payloads(typeURL, h.wanted(typeURL))
			if !h.happens(func() bool { return maps.Equal(h.payloads(typeURL), want) }) {
				b.t.Fatalf("the client %s holds %q of %s, want %q", h.node, h.payloads(typeURL), typeURL, want)
			}
		}
		for _, fault := range h.found() {
			b.t.Errorf("the client %s: %s", h.node, fault)
		}
	}
}
