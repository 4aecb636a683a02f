package integration

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
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
// subscriptions, disconnections, clients that do not read or acknowledge, streams
// that break, a control plane that dies and returns, evictions. Clients of all
// variants are mixed, over a control plane of any variant. The payloads are
// compared too.
func TestConvergence_SUB10_RES11_RES12_OPS1_OPS3(t *testing.T) {
	t.Parallel() // most of it is waiting
	for i := range *runs {
		s := *seed + uint64(i)
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			newSchedule(t, s).play()
		})
	}
}

// schedule is one random run.
type schedule struct {
	t       *testing.T
	rand    *rand.Rand
	up      upstreamVariant
	plane   *testPlane // what there is, unless each node has contents of its own
	source  source
	relay   *testRelay
	clients []mixedClient
	down    bool // the plane
	moves   *worldly
}

// source is what a schedule changes: a plane, or worlds.
type source interface {
	set(typeURL, name string, inStar bool)
	unset(typeURL, name string)
	breakStreams()
	stop()
	restart(t testing.TB)
	checkClient(t testing.TB)
}

// mixedClient is a client whose variant the schedule remembers.
type mixedClient struct {
	xdsClient
	variant variant
}

func newSchedule(t *testing.T, seed uint64) *schedule {
	t.Helper()
	s := &schedule{t: t, rand: rand.New(rand.NewPCG(seed, 0))}
	s.up = upstreamVariants[seed%uint64(len(upstreamVariants))] // each as often as the others
	downs := make([]variant, 4)
	for i := range downs {
		downs[i] = variants[s.rand.IntN(len(variants))]
	}
	s.startPlane(seed, downs)
	s.relay = startRelayOver(t, s.up, s.plane, func(c *config.Config) {
		if s.rand.IntN(2) == 0 {
			c.Cache.MaxResources = 4 // evict all the time
		}
		if s.rand.IntN(3) == 0 {
			c.Upstreams[0].MaxRequestSize = 64 * config.KiB
		}
	})
	for i, v := range downs {
		s.clients = append(s.clients, mixedClient{newVariantClient(t, v, s.relay.address(v), fmt.Sprint("client-", i)), v})
	}
	return s
}

func (s *schedule) startPlane(seed uint64, downs []variant) {
	s.plane = newPlane(s.t)
	s.source = s.plane
	s.plane.plain = s.up.rest || s.up.files || slices.Contains(downs, restPoll)
	s.plane.Behave(func(b *plane.Behaviour) { b.Random = rand.New(rand.NewPCG(seed, 1)) })
}

// play does random things, and compares when all is quiet.
func (s *schedule) play() {
	s.t.Helper()
	for range 60 {
		s.step()
	}
	s.quiet()
	for _, c := range s.clients {
		for typeURL := range universe {
			s.awaitConverged(c, typeURL)
		}
		for _, f := range c.common().found() {
			s.t.Errorf("client %s (%s): %s", c.common().node, c.variant.name, f)
		}
	}
	s.relay.consistent(s.t)
	s.source.checkClient(s.t)
}

// converged reports whether a client holds of a type what it should once all is
// quiet: every resource that exists and that it asks for, with the payload that
// the plane has, and with its version where both sides are incremental (ACK-4).
//
// Beyond that it may hold only what it could not be told is gone: of types
// without full state, if the client or the upstream is SotW (REST and files are),
// whatever it asks for and was once sent. Such a resource has gone, or has left
// the wildcard, without a word that SotW has for it (RES-3, RES-8).
func (s *schedule) converged(c mixedClient, typeURL string) bool {
	h := c.common()
	if d, ok := c.xdsClient.(*client); ok && !s.up.sotw {
		return maps.Equal(d.state(typeURL), s.wants(c, typeURL, (*testPlane).holds))
	}
	got, want := h.payloads(typeURL), s.wants(c, typeURL, (*testPlane).payloads)
	if !tellsRemoval(c.variant, []upstreamVariant{s.up}, typeURL) {
		maps.DeleteFunc(got, func(n, payload string) bool {
			_, ok := want[n]
			return !ok && !s.moves.strange(c, typeURL, n, payload)
		})
	}
	if s.moves != nil && s.up.sotw && !c.variant.sotw {
		maps.DeleteFunc(got, func(n, _ string) bool {
			_, ok := want[n]
			return !ok && h.wanted(typeURL)[n] // silence takes nothing away (RES-7)
		})
	}
	return maps.Equal(got, want)
}

// wants is what a direct client would hold of a type, as what says it of one plane.
func (s *schedule) wants(c mixedClient, typeURL string, what func(*testPlane, string, map[string]bool) map[string]string) map[string]string {
	if s.moves != nil {
		return s.moves.wants(c, typeURL, what)
	}
	return what(s.plane, typeURL, c.common().wanted(typeURL))
}

// awaitConverged waits until a client holds what a direct client would.
func (s *schedule) awaitConverged(c mixedClient, typeURL string) {
	s.t.Helper()
	h := c.common()
	if s.converges(c, typeURL) {
		return
	}
	if h.cannotTell() {
		s.connect(c, true)
	}
	if !s.converges(c, typeURL) {
		_, resources := s.relay.get(s.t, "/resources?type="+typeURL)
		_, upstreams := s.relay.get(s.t, "/upstreams")
		_, clients := s.relay.get(s.t, "/clients")
		stacks := make([]byte, 4<<20) // who waits for what
		stacks = stacks[:runtime.Stack(stacks, true)]
		s.t.Fatalf("client %s (%s over %s, %v) holds %q, a direct client would hold %q\nit noticed %q\nthe relay: %s\n%s\n%s\n%s",
			h.node, c.variant.name, s.up.apiType, h.wanted(typeURL), h.payloads(typeURL),
			s.wants(c, typeURL, (*testPlane).payloads), h.found(), resources, upstreams, clients, stacks)
	}
}

// renewal is how long a collection may wait that has the upstream stream begin anew: a stream that clients
// share does so once a minute (LIM-2). In a cache that evicts all the time there is more than one cause.
const renewal = time.Minute

// converges waits until a client holds what a direct client would, and reports whether it
// came to that. Nobody but the test brings a client back that the relay has begin anew, since
// it holds what there is no word to remove.
func (s *schedule) converges(c mixedClient, typeURL string) bool {
	for {
		held := false
		is := func() bool {
			held = s.converged(c, typeURL)
			return held || s.moves != nil && !c.connected()
		}
		if !c.common().happensWithin(patience+renewal, is) || held {
			return held
		}
		s.connect(c, true)
	}
}

// step does one random thing.
func (s *schedule) step() {
	if s.moves != nil && s.rand.IntN(12) == 0 {
		s.changeRules()
		return
	}
	c := s.clients[s.rand.IntN(len(s.clients))]
	types := slices.Sorted(maps.Keys(universe))
	typeURL := types[s.rand.IntN(len(types))]
	name := universe[typeURL][s.rand.IntN(len(universe[typeURL]))]
	switch n := s.rand.IntN(100); {
	case n < 30:
		s.source.set(typeURL, name, name[0] != 'x' && s.rand.IntN(2) == 0)
	case n < 38:
		s.source.unset(typeURL, name)
	case n < 58:
		c.subscribe(typeURL, s.some(typeURL), nil)
	case n < 69:
		c.subscribe(typeURL, nil, s.some(typeURL))
	case n < 72:
		s.acknowledge(c, typeURL)
	case n < 80:
		if !c.connected() {
			s.connect(c, true)
		}
	case n < 86:
		c.disconnect()
	case n < 88:
		s.connect(c, false)
	case n < 92:
		c.pause()
	case n < 95:
		c.resume()
	case n < 97:
		s.source.breakStreams()
	case !s.down:
		s.source.stop()
		s.down = true
	default:
		s.source.restart(s.t)
		s.down = false
	}
}

// acknowledge stops it, or makes up for it.
func (s *schedule) acknowledge(c mixedClient, typeURL string) {
	if s.rand.IntN(2) == 0 {
		c.holdACKs(typeURL)
	} else {
		c.releaseACKs(typeURL)
	}
}

// some picks names and collections of a type.
func (s *schedule) some(typeURL string) []string {
	all := slices.Concat(universe[typeURL], collections[typeURL])
	s.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:1+s.rand.IntN(3)]
}

func (s *schedule) connect(c mixedClient, warm bool) {
	c.disconnect()
	if err := c.connect(warm && !s.moves.strangers(c)); err != nil {
		s.t.Fatalf("connect: %v", err)
	}
}

// quiet brings everybody back and ends the changes.
func (s *schedule) quiet() {
	if s.down {
		s.source.restart(s.t)
	}
	for _, c := range s.clients {
		c.resume()
		for typeURL := range universe {
			c.releaseACKs(typeURL)
		}
		if !c.connected() || c.common().cannotTell() {
			s.connect(c, true)
		}
	}
}
