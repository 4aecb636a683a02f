package integration

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

var breaks = flag.Int("makebeforebreak.schedules", 1000, "how many random schedules TestMakeBeforeBreak plays over each upstream variant")

// TestMakeBeforeBreak: a control plane adds a cluster, moves a route to it and
// drops the old cluster in quick succession, again and again. However slow clients
// are to read and to acknowledge, after no response do they hold a route without
// its cluster. Only streams that carry both types can promise that.
func TestMakeBeforeBreak_ADS1_ADS2_ADS3(t *testing.T) {
	t.Parallel() // most of it is waiting
	for _, up := range []upstreamVariant{upDeltaADS, upSotwADS} {
		var downs []variant
		for _, v := range variants {
			if !v.perType {
				downs = append(downs, v)
			}
		}
		t.Run(up.apiType, func(t *testing.T) {
			t.Parallel()
			b := newBreaker(t, up, downs)
			for i := range *breaks {
				b.schedule()
				if i%20 == 19 {
					b.settle()
				}
			}
			b.settle()
			b.plane.checkClient(t)
			b.relay.consistent(t)
		})
	}
}

// breaker moves routes from cluster to cluster in front of slow clients. One relay
// serves all schedules.
type breaker struct {
	t       *testing.T
	rand    *rand.Rand
	plane   *testPlane
	relay   *testRelay
	clients []mixedClient
	targets map[string]string // by route: its cluster
	made    int
}

func newBreaker(t *testing.T, up upstreamVariant, downs []variant) *breaker {
	t.Helper()
	p := newPlane(t)
	b := &breaker{
		t: t, rand: rand.New(rand.NewPCG(*seed, 2)), plane: p, relay: startRelayOver(t, up, p, nil),
		targets: map[string]string{"r1": "", "r2": "", "r3": ""},
	}
	for _, route := range slices.Sorted(maps.Keys(b.targets)) {
		b.move(route)
	}
	for i := range 2 * max(2, len(downs)) {
		v := downs[i%len(downs)]
		c := mixedClient{newVariantClient(t, v, b.relay.address(v), fmt.Sprint("client-", i)), v}
		c.common().unbroken = true
		if err := c.connect(false); err != nil {
			t.Fatal(err)
		}
		c.subscribe(clusterType, []string{"*"}, nil)
		c.subscribe(routeType, []string{"r1", "r2", "r3"}, nil)
		b.clients = append(b.clients, c)
	}
	b.settle()
	return b
}

// move makes a cluster, leads a route to it, and breaks the one before.
func (b *breaker) move(route string) {
	b.made++
	old, next := b.targets[route], fmt.Sprint("cluster-", b.made)
	b.plane.set(clusterType, next, true)
	b.nudge()
	b.plane.setRoute(route, next)
	b.nudge()
	if old != "" {
		b.plane.unset(clusterType, old)
	}
	b.targets[route] = next
}

// schedule moves a few routes while clients change how they behave.
func (b *breaker) schedule() {
	for range 1 + b.rand.IntN(3) {
		b.nudge()
		b.move(fmt.Sprint("r", 1+b.rand.IntN(len(b.targets))))
	}
}

// nudge lets a client do something else from now on.
func (b *breaker) nudge() {
	if len(b.clients) == 0 {
		return
	}
	c := b.clients[b.rand.IntN(len(b.clients))]
	typeURL := []string{clusterType, routeType}[b.rand.IntN(2)]
	switch n := b.rand.IntN(100); {
	case n < 25:
		c.holdACKs(typeURL)
	case n < 45:
		c.releaseACKs(typeURL)
	case n < 55:
		c.pause()
	case n < 70:
		c.resume()
	case n < 75:
		b.reconnect(c)
	}
}

func (b *breaker) reconnect(c mixedClient) {
	c.disconnect()
	if err := c.connect(true); err != nil {
		b.t.Fatal(err)
	}
}

// settle waits until everybody holds what there is. Some acknowledge at last, the
// others never do: they begin anew.
func (b *breaker) settle() {
	b.t.Helper()
	for _, c := range b.clients {
		c.resume()
		anew := b.rand.IntN(3) == 0
		if anew {
			c.disconnect()
		}
		c.releaseACKs(clusterType)
		c.releaseACKs(routeType)
		if anew {
			b.reconnect(c)
		}
	}
	for _, c := range b.clients {
		h := c.common()
		for _, typeURL := range []string{clusterType, routeType} {
			same := func() bool { return maps.Equal(h.payloads(typeURL), b.plane.payloads(typeURL, h.wanted(typeURL))) }
			if !h.happens(same) {
				b.t.Fatalf("client %s (%s) holds %q of %s", h.node, c.variant.name, h.payloads(typeURL), typeURL)
			}
		}
		if faults := h.found(); len(faults) > 0 {
			b.t.Fatalf("client %s (%s): %q", h.node, c.variant.name, faults)
		}
	}
}
