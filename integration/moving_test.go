package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/xdsrelay/xdsrelay/config"
)

// Two worlds, and a rule that puts everybody into one of them.
const (
	worldOld = "old"
	worldNew = "new"
)

func everybodyIn(world string) func(*config.Config) {
	return func(c *config.Config) {
		c.Aggregation.Rules = []config.Rule{worldRule("in-"+world, "true", fmt.Sprintf("%q", world))}
	}
}

// moving is a relay whose rules send clients from one world to another.
type moving struct {
	t      *testing.T
	worlds *worlds
	relay  *testRelay
}

// What there is: the same in both worlds, something else under the same name and version,
// and what only one of them has. The route leads to the cluster that only its world has.
func startMoving(t *testing.T, change func(*config.Config)) *moving {
	t.Helper()
	w := newWorlds(t, worldOfNode)
	w.front.plain = true
	for _, typeURL := range []string{clusterType, endpointType} {
		for _, name := range []string{"same-1", "common-1", "only-old#1", "only-new#1"} {
			w.set(typeURL, name, true)
		}
	}
	w.set(listenerType, "common-1", true)
	w.setRoute("common-1", func(world string) string { return "only-" + world + "#1" })
	return &moving{t: t, worlds: w, relay: startRelay(t, func(c *config.Config) {
		everybodyIn(worldOld)(c)
		c.Aggregation.Linger = config.Duration(50 * time.Millisecond)
		if change != nil {
			change(c)
		}
	}, w.front.addr)}
}

// join connects a client that wants everything, and waits until it has that of the world.
func (m *moving) join(v variant, world string) (xdsClient, *transcript) {
	m.t.Helper()
	c := newVariantClient(m.t, v, m.relay.address(v), "client")
	log := record(c)
	h := c.common()
	h.distrusted = true
	if err := c.connect(false); err != nil {
		m.t.Fatal(err)
	}
	c.subscribe(clusterType, []string{"*"}, nil)
	c.subscribe(endpointType, []string{"same-1", "common-1", "only-old#1", "only-new#1"}, nil)
	c.subscribe(listenerType, []string{"*"}, nil)
	c.subscribe(routeType, []string{"common-1"}, nil)
	m.awaitWorld(c, world)
	return c, log
}

// to reloads the rules, so that everybody is in a world.
func (m *moving) to(world string) {
	m.t.Helper()
	m.relay.mustReload(m.t, everybodyIn(world))
}

func (m *moving) holds(c xdsClient, world string) bool {
	h := c.common()
	return !slices.ContainsFunc(everyType, func(typeURL string) bool {
		return !maps.Equal(h.payloads(typeURL), m.worlds.world(world).payloads(typeURL, h.wanted(typeURL)))
	})
}

func (m *moving) awaitWorld(c xdsClient, world string) {
	m.t.Helper()
	h := c.common()
	if h.happens(func() bool { return m.holds(c, world) }) {
		return
	}
	for _, typeURL := range everyType {
		m.t.Errorf("%s: it holds %q", initials(typeURL), h.payloads(typeURL))
	}
	_, shown := m.relay.get(m.t, "/clients")
	_, upstreams := m.relay.get(m.t, "/upstreams")
	m.t.Fatalf("the client never came to hold the world %q; %q\n%s\n%s", world, h.found(), shown, upstreams)
}

// end changes one thing of each type, so that everything on its way comes before, and
// compares what came of each type with what should have.
func (m *moving) end(c xdsClient, log *transcript, world string, want map[string][]string) {
	m.t.Helper()
	for _, typeURL := range everyType {
		m.worlds.again(typeURL, "common-1")
		m.awaitWorld(c, world)
		got := log.of(typeURL)
		if len(got) == 0 || !slices.Equal(got[:len(got)-1], want[typeURL]) {
			m.t.Errorf("the client was sent %q and then the last change, want %q", got, want[typeURL])
		}
	}
	for _, fault := range c.common().found() {
		m.t.Error(fault)
	}
	if !c.connected() {
		m.t.Error("the client was disconnected")
	}
	m.relay.consistent(m.t)
	m.worlds.checkClient(m.t)
}

// transcript is what a client was sent since it was begun, a line for each response:
// "CDS +a(old) +b -c" in the incremental form, "CDS a(old) b" in the state of the world.
// In brackets is the world that the payload is from.
type transcript struct {
	h     *holdings
	lines []string // guarded by h.mu
}

// record keeps what a client is sent. One that polls keeps nothing.
func record(c xdsClient) *transcript {
	log := &transcript{h: c.common()}
	switch x := c.(type) {
	case *client:
		x.nack = func(r *discovery.DeltaDiscoveryResponse) string {
			var words []string
			for _, x := range r.GetResources() {
				words = append(words, "+"+whence(x.GetName(), string(x.GetResource().GetValue())))
			}
			for _, n := range r.GetRemovedResources() {
				words = append(words, "-"+n)
			}
			log.add(r.GetTypeUrl(), words)
			return ""
		}
	case *sotwClient:
		x.nack = func(r *discovery.DiscoveryResponse) string {
			var words []string
			for _, x := range r.GetResources() {
				words = append(words, whence(nameOf(x.GetValue()), string(x.GetValue())))
			}
			log.add(r.GetTypeUrl(), words)
			return ""
		}
	}
	return log
}

func whence(name, payload string) string {
	if world := worldOf(payload); world != "" {
		return name + "(" + world + ")"
	}
	return name
}

func initials(typeURL string) string {
	return map[string]string{clusterType: "CDS", endpointType: "EDS", listenerType: "LDS", routeType: "RDS"}[typeURL]
}

// add is called with the client's mu locked.
func (l *transcript) add(typeURL string, words []string) {
	slices.Sort(words)
	l.lines = append(l.lines, strings.Join(append([]string{initials(typeURL)}, words...), " "))
}

// begin forgets what came until now.
func (l *transcript) begin() {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	l.lines = nil
}

func (l *transcript) all() []string {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	return slices.Clone(l.lines)
}

// of is what came of a type, without its name.
func (l *transcript) of(typeURL string) []string {
	var lines []string
	for _, line := range l.all() {
		if words, ok := strings.CutPrefix(line, initials(typeURL)); ok {
			lines = append(lines, strings.TrimPrefix(words, " "))
		}
	}
	return lines
}
