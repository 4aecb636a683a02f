package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xdsrelay/xdsrelay/downstream"
)

// movedClient is a client whose rules change. It knows which world each of its
// resources has to come from, and what it must not lose on the way.
type movedClient struct {
	mixedClient
	of      *movedFleet
	node    *corev3.Node
	slow    bool // stops reading, or acknowledging, while rules change
	rejects bool // refuses what it is sent, now and then

	rules    atomic.Pointer[ruleSet] // those in force
	settled  atomic.Bool             // it holds what is its own: nothing of another world may come
	refusing atomic.Bool             // a client that rejects does so now
}

// world is where a resource that the client asks for has to come from.
func (c *movedClient) world(typeURL, name string) string {
	asked := name
	if !c.common().subs[typeURL][name] {
		asked = "*"
	}
	return c.rules.Load().world(c.node, typeURL, asked)
}

// put implements holdingsWatch: once a client has come to its own world everything that
// comes is of that world.
func (c *movedClient) put(typeURL, name string, x held) string {
	if got, want := worldOf(x.payload), c.world(typeURL, name); c.settled.Load() && got != want {
		return fmt.Sprintf("AGG-1: %q of %s came from %q after the client had come to %q (%s)", name, typeURL, got, want, c.rules.Load().name)
	}
	return ""
}

// removed implements holdingsWatch: what every world has is never lost.
func (c *movedClient) removed(typeURL, name string) string {
	if strings.HasPrefix(name, "common-") && c.common().wantsLocked(typeURL, name) {
		return fmt.Sprintf("AGG-1: %q of %s, which every scope has, was removed by the move to %s", name, typeURL, c.rules.Load().name)
	}
	return ""
}

// strangers are the resources that the client holds of a world that is not its own, and
// those that its world does not have.
func (c *movedClient) strangers() []string {
	h := c.common()
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []string
	for typeURL, all := range h.holds {
		for name, x := range all {
			if !h.wantsLocked(typeURL, name) {
				continue
			}
			if got, want := worldOf(x.payload), c.world(typeURL, name); got != want || !isIn(want, name) {
				found = append(found, fmt.Sprintf("%q of %s from %q, want %q", name, typeURL, got, want))
			}
		}
	}
	return found
}

// want is what the client should hold of a type.
func (c *movedClient) want(typeURL string) map[string]string {
	want := make(map[string]string)
	for name := range c.common().wanted(typeURL) {
		world := c.rules.Load().world(c.node, typeURL, name)
		maps.Copy(want, c.of.plane(world).payloads(typeURL, map[string]bool{name: true}))
	}
	return want
}

// converged reports whether it holds that and nothing else.
func (c *movedClient) converged() bool {
	return !slices.ContainsFunc(everyType, func(typeURL string) bool {
		return !maps.Equal(c.common().payloads(typeURL), c.want(typeURL))
	})
}

// movedFleet is many clients in front of a relay whose rules change, and two control
// planes that never rest.
type movedFleet struct {
	t       *testing.T
	seed    uint64
	rand    *rand.Rand
	first   *worlds
	second  *worlds // of another upstream
	relay   *testRelay
	clients []*movedClient
	streams map[variant]int // how many were ended by a reload, by variant
	rules   *ruleSet
}

// plane is the one of a world.
func (f *movedFleet) plane(world string) *testPlane {
	if isSecond(world) {
		return f.second.world(world)
	}
	return f.first.world(world)
}

// everywhere changes both control planes in the same way.
func (f *movedFleet) everywhere(change func(*worlds)) {
	change(f.first)
	change(f.second)
}

// movedNodes are the nodes of the fleet: every combination of what rules look at, so that
// many clients have the same one.
func movedNodes() []*corev3.Node {
	var nodes []*corev3.Node
	for _, cluster := range []string{"web", "api", "batch"} {
		for _, zone := range []string{"north", "south"} {
			for _, role := range []string{"sidecar", "gateway"} {
				nodes = append(nodes, &corev3.Node{
					Id: fmt.Sprintf("node-%d", len(nodes)), Cluster: cluster, Locality: &corev3.Locality{Zone: zone},
					Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"role": structpb.NewStringValue(role)}},
				})
			}
		}
	}
	return nodes
}

// mix is how many of a hundred clients speak which variant.
var mix = []struct {
	variant variant
	share   int
}{
	{deltaADS, 62}, {delta, 10}, {sotwADS, 12}, {sotw, 6}, {restPoll, 4}, {sotwADSv2, 3}, {deltaADSv2, 3},
}

func mixed(i int) variant {
	at := i * 37 % 100 // spread over the nodes
	for _, m := range mix {
		if at -= m.share; at < 0 {
			return m.variant
		}
	}
	panic("the shares are not a hundred")
}

// fill has every world have what the test is about. A route leads to a cluster that no
// other world has.
func (f *movedFleet) fill() {
	seen := make(map[string]bool)
	for i := range ruleSets {
		for _, n := range movedNodes() {
			seen[ruleSets[i].world(n, clusterType, "*")] = true
		}
	}
	f.everywhere(func(w *worlds) {
		w.front.plain = true // some poll
		for i := range 5 {
			w.set(clusterType, fmt.Sprint("common-", i), true)
			w.set(clusterType, fmt.Sprint("some-", i), true)
			w.set(endpointType, fmt.Sprint("common-", i), false)
			w.set(endpointType, fmt.Sprint("some-", i), false)
		}
		for _, world := range slices.Sorted(maps.Keys(seen)) {
			w.set(clusterType, "only-"+world, true)
		}
		w.set(clusterType, "target-0", true)
		w.setRoute("common-own", func(world string) string { return "only-" + world })
		w.setRoute("common-moved", func(string) string { return "target-0" })
		for i := range 2 {
			w.set(listenerType, fmt.Sprint("common-", i), true)
			w.set(listenerType, fmt.Sprint("some-", i), true)
		}
	})
	for world := range seen { // so that their memory counts from the beginning
		f.plane(world)
	}
}

// newMovedFleet starts everything, and waits until the clients have what they should.
func newMovedFleet(t *testing.T, seed uint64, clients int) *movedFleet {
	t.Helper()
	f := &movedFleet{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 4)), streams: make(map[variant]int), rules: &ruleSets[0],
		first: newWorlds(t, worldOfNode), second: newWorlds(t, inSecondWorld),
	}
	f.fill()
	f.relay = startRelay(t, f.settings, f.first.front.addr, f.second.front.addr)
	nodes := movedNodes()
	for i := range clients {
		f.join(i, nodes[i%len(nodes)], mixed(i))
	}
	f.settle()
	return f
}

// join adds a client. One in fifteen is slow, one in twenty rejects.
func (f *movedFleet) join(i int, node *corev3.Node, v variant) {
	c := &movedClient{of: f, node: node, slow: i%15 == 4, rejects: i%20 == 7 && !v.rest}
	c.mixedClient = mixedClient{newVariantClient(f.t, v, f.relay.address(v), node.GetId()), v}
	c.rules.Store(f.rules)
	h := c.common()
	h.profile, h.watch = node, c
	switch x := c.xdsClient.(type) {
	case *client:
		x.forgets = true
		x.nack = func(r *discovery.DeltaDiscoveryResponse) string { return c.refuse(len(r.GetRemovedResources())) }
	case *sotwClient:
		x.forgets = true
		x.nack = func(*discovery.DiscoveryResponse) string { return c.refuse(0) }
	}
	if err := c.connect(false); err != nil {
		f.t.Fatal(err)
	}
	c.subscribe(clusterType, []string{"*"}, nil)
	c.subscribe(listenerType, []string{"*"}, nil)
	// Half of the clients of the state of the world, and all who poll, want nothing but what
	// every world has, so that nothing has to be taken from them for which there is no word.
	endpoints := []string{fmt.Sprint("common-", i%5), fmt.Sprint("common-", (i+2)%5), fmt.Sprint("some-", i%5)}
	if v.rest || v.sotw && i%2 == 0 {
		endpoints = endpoints[:2]
	}
	c.subscribe(endpointType, endpoints, nil)
	c.subscribe(routeType, []string{"common-own", "common-moved"}, nil)
	f.clients = append(f.clients, c)
}

// refuse is why a client that rejects does so, every third time. It never refuses a
// removal, which is not told again.
func (c *movedClient) refuse(removals int) string {
	if removals > 0 || !c.refusing.Load() || rand.IntN(3) > 0 {
		return ""
	}
	return "as a test"
}

// shownStreams are the streams that the relay shows.
func (f *movedFleet) shownStreams() []downstream.Status {
	f.t.Helper()
	_, body := f.relay.get(f.t, "/clients")
	var all []downstream.Status
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		f.t.Fatal(err)
	}
	return all
}

// fatal ends the test with what it takes to play it again.
func (f *movedFleet) fatal(format string, args ...any) {
	f.t.Helper()
	f.t.Fatalf("seed %d, rules %q: %s", f.seed, f.rules.name, fmt.Sprintf(format, args...))
}

// revive brings clients back whose streams a reload ended, with what they hold. A client of
// the state of the world begins afresh where it holds something of another world.
func (f *movedFleet) revive() {
	f.t.Helper()
	for _, c := range f.clients {
		if c.connected() {
			continue
		}
		if why := status.Convert(endOf(c.xdsClient)); c.variant.rest || why.Code() != codes.Unavailable || why.Message() != sentAway {
			f.fatal("client %s (%s) was disconnected: %v", c.common().node, c.variant.name, why)
		}
		f.streams[c.variant]++
		c.disconnect()
		if err := c.connect(!c.variant.sotw || len(c.strangers()) == 0); err != nil {
			f.fatal("%v", err)
		}
	}
}
