package integration

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
)

var (
	runs = flag.Int("convergence.runs", 200, "how many random schedules TestConvergence plays")
	seed = flag.Uint64("convergence.seed", 1, "the seed of the first one")
)

// universe is what the random schedules are about: few names, so that
// subscriptions overlap.
var universe = map[string][]string{
	clusterType:  {"c1", "c2", "c3", "c4", "xdstp://a/envoy.config.cluster.v3.Cluster/d/1", "xdstp://a/envoy.config.cluster.v3.Cluster/d/2"},
	endpointType: {"c1", "c2", "c3", "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/e/1"},
	listenerType: {"l1", "l2", "xdstp://a/envoy.config.listener.v3.Listener/f/1?x=y", "xdstp://a/envoy.config.listener.v3.Listener/f/2?x=y", "xdstp://a/envoy.config.listener.v3.Listener/f/1"},
	routeType:    {"r1", "r2", "r3"},
}

var collections = map[string][]string{
	clusterType:  {"*", "xdstp://a/envoy.config.cluster.v3.Cluster/d/*"},
	endpointType: {"xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/e/*"},
	listenerType: {"*", "xdstp://a/envoy.config.listener.v3.Listener/f/*?x=y", "xdstp://a/envoy.config.listener.v3.Listener/f/*"},
	routeType:    {"*"},
}

// TestConvergence is invariant 1: once the control plane is quiet, every client
// holds what a direct client would hold, whatever happened before: updates,
// subscriptions, disconnections, clients that do not read, streams that break, a
// control plane that dies and returns, evictions. The payloads are compared too.
func TestConvergence_SUB10_RES11_RES12_OPS1_OPS3(t *testing.T) {
	for i := range *runs {
		s := *seed + uint64(i)
		t.Run(fmt.Sprint(s), func(t *testing.T) { converge(t, s) })
	}
}

// schedule is one random run.
type schedule struct {
	t       *testing.T
	rand    *rand.Rand
	plane   *plane
	relay   *testRelay
	clients []*client
	down    bool
}

func converge(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	p := newPlane(t)
	p.rand = rand.New(rand.NewPCG(seed, 1))
	s := &schedule{t: t, rand: r, plane: p}
	s.relay = startRelay(t, func(c *config.Config) {
		if r.IntN(2) == 0 {
			c.Cache.MaxResources = 4 // evict all the time
		}
		if r.IntN(3) == 0 {
			c.Upstreams[0].MaxRequestSize = 64 * config.KiB
		}
	}, p.addr)
	for i := range 4 {
		s.clients = append(s.clients, newClient(t, s.relay.addr, fmt.Sprint("client-", i)))
	}
	for range 60 {
		s.step()
	}
	s.quiet()
	for _, c := range s.clients {
		for typeURL := range universe {
			s.awaitConverged(c, typeURL)
		}
		for _, f := range c.faults {
			t.Errorf("client %s: %s", c.node, f)
		}
	}
	s.relay.consistent(t)
	p.checkClient(t)
}

// awaitConverged waits until a client holds what a direct client would.
func (s *schedule) awaitConverged(c *client, typeURL string) {
	s.t.Helper()
	want := func() map[string]string { return s.plane.holds(typeURL, c.wanted(typeURL)) }
	same := func() bool { return maps.Equal(c.state(typeURL), want()) }
	if c.happens(same) {
		return
	}
	if c.cannotTell() {
		s.connect(c, true)
	}
	if !c.happens(same) {
		_, resources := s.relay.get(s.t, "/resources?type="+typeURL)
		_, upstreams := s.relay.get(s.t, "/upstreams")
		s.t.Fatalf("client %s (ambiguous: %t, %v) holds %q, a direct client would hold %q\nthe relay: %s\n%s",
			c.node, c.ambiguous, c.wanted(typeURL), c.state(typeURL), want(), resources, upstreams)
	}
}

// step does one random thing.
func (s *schedule) step() {
	c := s.clients[s.rand.IntN(len(s.clients))]
	types := slices.Sorted(maps.Keys(universe))
	typeURL := types[s.rand.IntN(len(types))]
	name := universe[typeURL][s.rand.IntN(len(universe[typeURL]))]
	switch n := s.rand.IntN(100); {
	case n < 30:
		s.plane.set(typeURL, name, name[0] != 'x' && s.rand.IntN(2) == 0)
	case n < 38:
		s.plane.unset(typeURL, name)
	case n < 60:
		c.subscribe(typeURL, s.some(typeURL), nil)
	case n < 72:
		c.subscribe(typeURL, nil, s.some(typeURL))
	case n < 80:
		if !c.connected() {
			s.connect(c, true)
		}
	case n < 86:
		c.disconnect()
	case n < 88:
		c.disconnect()
		s.connect(c, false)
	case n < 92:
		c.pause()
	case n < 95:
		c.resume()
	case n < 97:
		s.plane.breakStreams()
	case !s.down:
		s.plane.stop()
		s.down = true
	default:
		s.plane.restart(s.t)
		s.down = false
	}
}

// some picks names and collections of a type.
func (s *schedule) some(typeURL string) []string {
	all := slices.Concat(universe[typeURL], collections[typeURL])
	s.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:1+s.rand.IntN(3)]
}

func (s *schedule) connect(c *client, warm bool) {
	c.disconnect()
	if err := c.connect(warm); err != nil {
		s.t.Fatalf("connect: %v", err)
	}
}

// quiet brings everybody back and ends the changes.
func (s *schedule) quiet() {
	if s.down {
		s.plane.restart(s.t)
	}
	for _, c := range s.clients {
		c.resume()
		if !c.connected() || c.cannotTell() {
			s.connect(c, true)
		}
	}
}
