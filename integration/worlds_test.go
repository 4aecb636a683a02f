package integration

import (
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

// worlds is a control plane that gives each group of nodes contents of its own, as
// those do that read the node. A world is a plane without a port. All of them have the
// same names with the same versions, since whatever changes does so everywhere at once;
// only the payloads tell them apart. Who goes by versions alone takes the one for the
// other.
type worlds struct {
	front *testPlane // has the port
	// of names the world of a node. isIn says which of them have a name at all: those
	// with the prefix "some-" are in about half, "only-" with the world behind in one,
	// others in all. Those with "same-" have the same payload everywhere.
	of func(*corev3.Node) string

	mu      sync.Mutex
	planes  map[string]*testPlane
	version int
	now     map[string]map[string]thing // by type and name

	random   bool   // the planes answer in any order and number of parts
	seed     uint64 // of their randomness
	distinct bool   // versions say the world, too; set before clients come
	moves    int    // how often a route was led to another cluster; only its mover's
}

// names are those that there are in some world, by type.
func (w *worlds) names() map[string][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := make(map[string][]string)
	for typeURL, things := range w.now {
		names[typeURL] = slices.Sorted(maps.Keys(things))
	}
	return names
}

// thing is a resource of all worlds that have it.
type thing struct {
	version int
	inStar  bool
	target  func(world string) string // of a route
}

func newWorlds(t *testing.T, of func(*corev3.Node) string) *worlds {
	t.Helper()
	w := &worlds{of: of, planes: make(map[string]*testPlane), now: make(map[string]map[string]thing)}
	w.front = emptyPlane()
	w.front.Divide(func(n *corev3.Node) *plane.Plane { return w.world(of(n)).Plane })
	w.front.listen(t)
	return w
}

// The name of a world is between these in its payloads.
const stampBegin, stampEnd = "world <", ">, "

func stampOf(world, name string) string {
	if world == "" || strings.HasPrefix(name, "same-") {
		return ""
	}
	return stampBegin + world + stampEnd
}

// worldOf reads which world a payload comes from.
func worldOf(payload string) string {
	_, rest, _ := strings.Cut(payload, stampBegin)
	world, _, _ := strings.Cut(rest, stampEnd)
	return world
}

// isIn reports whether a world has a name.
func isIn(world, name string) bool {
	if only, ok := strings.CutPrefix(name, "only-"); ok {
		return only == world || strings.HasPrefix(only, world+"#")
	}
	if !strings.HasPrefix(name, "some-") {
		return true
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(world + "\n" + name))
	return h.Sum32()>>7&1 == 0
}

// world gives the plane of a world, which is made when it is first asked for.
func (w *worlds) world(name string) *testPlane {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.planes[name]
	if p != nil {
		return p
	}
	p = emptyPlane()
	p.world, p.plain = name, w.front.plain
	p.Behave(func(b *plane.Behaviour) {
		if w.distinct {
			p.suffix = "@" + name
			b.VersionSuffix = p.suffix
		}
		if w.random {
			b.Random = rand.New(rand.NewPCG(w.seed, uint64(len(w.planes))))
		}
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	for typeURL, things := range w.now {
		for n, x := range things {
			w.putLocked(p, typeURL, n, x)
		}
	}
	p.version = w.version
	w.planes[name] = p
	return p
}

// putLocked gives a plane a resource. The caller holds both locks.
func (w *worlds) putLocked(p *testPlane, typeURL, name string, x thing) {
	if !isIn(p.world, name) {
		return
	}
	p.version = x.version - 1 // of the payload too
	target := ""
	if x.target != nil {
		target = x.target(p.world)
	}
	p.putLocked(typeURL, name, x.inStar, target)
}

// set adds or changes a resource in every world that has it.
func (w *worlds) set(typeURL, name string, inStar bool) { w.put(typeURL, name, thing{inStar: inStar}) }

// setRoute adds or changes a route, which leads to another cluster in each world.
func (w *worlds) setRoute(name string, target func(world string) string) {
	w.put(routeType, name, thing{target: target})
}

func (w *worlds) put(typeURL, name string, x thing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	x.version = w.version
	if w.now[typeURL] == nil {
		w.now[typeURL] = make(map[string]thing)
	}
	if old, ok := w.now[typeURL][name]; ok {
		x.inStar = old.inStar
	}
	w.now[typeURL][name] = x
	for _, p := range w.planes {
		p.mu.Lock()
		w.putLocked(p, typeURL, name, x)
		p.version = w.version
		p.mu.Unlock()
	}
}

// again changes a resource that there is.
func (w *worlds) again(typeURL, name string) {
	w.mu.Lock()
	x := w.now[typeURL][name]
	w.mu.Unlock()
	w.put(typeURL, name, x)
}

// unset removes a resource from every world.
func (w *worlds) unset(typeURL, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	delete(w.now[typeURL], name)
	for _, p := range w.planes {
		p.unset(typeURL, name)
		p.mu.Lock()
		p.version = w.version
		p.mu.Unlock()
	}
}

// all gives the planes of the worlds by name.
func (w *worlds) all() map[string]*testPlane {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.planes)
}

// streams is how many streams there are now, by world.
func (w *worlds) streams() map[string]int {
	open := make(map[string]int)
	for name, p := range w.all() {
		if n := len(p.streamsNow()); n > 0 {
			open[name] = n
		}
	}
	return open
}

// checkClient looks at what the relay did on the streams of all worlds.
func (w *worlds) checkClient(t testing.TB) {
	t.Helper()
	for _, p := range w.all() {
		p.checkClient(t)
	}
}

// breakStreams ends the streams of all worlds.
func (w *worlds) breakStreams() {
	for _, p := range w.all() {
		p.breakStreams()
	}
}

// stop kills the control plane.
func (w *worlds) stop() { w.front.stop() }

// restart brings it back.
func (w *worlds) restart(t testing.TB) {
	t.Helper()
	w.front.restart(t)
}
