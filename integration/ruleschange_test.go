package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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
	h.unbroken = !v.perType
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
	m.endAllowing(c, log, world, want, nil)
}

// endAllowing is end where of some types a response may have come that says nothing new.
func (m *moving) endAllowing(c xdsClient, log *transcript, world string, want map[string][]string, may map[string]string) {
	m.t.Helper()
	for _, typeURL := range everyType {
		m.worlds.again(typeURL, "common-1")
		m.awaitWorld(c, world)
		got := log.of(typeURL)
		if len(got) > 1 && got[0] == may[typeURL] {
			got = got[1:]
		}
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

// has reports whether a line came.
func (l *transcript) has(line string) bool { return slices.Contains(l.all(), line) }

// TestMove_AGG1: what a move from one scope to another has clients sent, message by
// message. What is equal in both is not sent again, what differs under the same version
// is, and what the new scope lacks goes last.
func TestMove_AGG1_RES1_RES11_ADS1(t *testing.T) {
	for _, v := range []variant{deltaADS, deltaADSv2} {
		t.Run(v.name+" make before break", func(t *testing.T) {
			m := startMoving(t, nil)
			c, log := m.join(v, worldOld)
			log.begin()
			c.holdACKs(routeType)
			m.to(worldNew)
			h := c.common()
			if !h.happens(func() bool { return log.has("RDS +common-1(new)") }) {
				t.Fatalf("the route never came: %q", log.all())
			}
			// The cluster of the route before is not taken away until the new one is acknowledged.
			m.worlds.again(listenerType, "common-1")
			h.happens(func() bool { return len(log.of(listenerType)) == 2 })
			if got := strings.Join(log.all(), "; "); strings.Contains(got, "-only-old#1") && !strings.Contains(got, "EDS -only-old#1") {
				t.Errorf("ADS-1: removed before the route was acknowledged: %s", got)
			}
			if _, ok := h.payloads(clusterType)["only-old#1"]; !ok {
				t.Error("ADS-1: the cluster went before the route from it was acknowledged")
			}
			c.releaseACKs(routeType)
			m.awaitWorld(c, worldNew)
			m.end(c, log, worldNew, map[string][]string{
				clusterType:  {"+common-1(new) +only-new#1(new)", "-only-old#1"},
				endpointType: {"+common-1(new) +only-new#1(new)", "-only-old#1"},
				listenerType: {"+common-1(new)", "+common-1(new)"},
				routeType:    {"+common-1(new)"},
			})
		})
	}

	t.Run("AGG-1 who is not concerned", func(t *testing.T) {
		m := startMoving(t, nil)
		m.relay.mustReload(t, func(c *config.Config) {
			c.Aggregation.Rules = []config.Rule{
				worldRule("staying", `node.id == "stays"`, `"old"`), worldRule("in-old", "true", `"old"`),
			}
		})
		c, _ := m.join(deltaADS, worldOld)
		other := newClient(t, m.relay.addr, "stays")
		log := record(other)
		if err := other.connect(false); err != nil {
			t.Fatal(err)
		}
		other.subscribe(clusterType, []string{"*"}, nil)
		other.awaitHolding(t, clusterType, "same-1", "common-1", "only-old#1")
		log.begin()
		m.relay.mustReload(t, func(c *config.Config) {
			c.Aggregation.Rules = []config.Rule{
				worldRule("staying", `node.id == "stays"`, `"old"`), worldRule("in-new", "true", `"new"`),
			}
		})
		m.awaitWorld(c, worldNew)
		m.worlds.again(clusterType, "common-1")
		other.await(t, "the update", func() bool { return len(log.all()) > 0 })
		if got := log.all(); !slices.Equal(got, []string{"CDS +common-1(old)"}) || !other.connected() {
			t.Errorf("AGG-1: a client whose scope stays is sent %q", got)
		}
		// The one that nobody needs any more is closed, the other is not.
		waitFor(t, "the end of the old stream", func() bool {
			return maps.Equal(m.worlds.streams(), map[string]int{worldOld: 1, worldNew: 1})
		})
	})
}

// TestMoveToSilence: as long as the new scope's control plane says nothing, or is away,
// nobody loses anything; and what it says then is the difference.
func TestMoveToSilence_AGG1_OPS1_RES11(t *testing.T) {
	difference := map[string][]string{
		clusterType:  {"+common-1(new) +only-new#1(new)", "-only-old#1"},
		endpointType: {"+common-1(new) +only-new#1(new)", "-only-old#1"},
		listenerType: {"+common-1(new)"},
		routeType:    {"+common-1(new)"},
	}
	t.Run("silent", func(t *testing.T) {
		m := startMoving(t, nil)
		c, log := m.join(deltaADS, worldOld)
		m.worlds.world(worldNew).hold()
		log.begin()
		m.to(worldNew)
		m.worlds.world(worldNew).awaitSubscribed(t, map[string]int{clusterType: 1, endpointType: 4, listenerType: 1, routeType: 1})
		if got := log.all(); len(got) > 0 || !m.holds(c, worldOld) {
			t.Errorf("the client was sent %q before the control plane said anything", got)
		}
		m.worlds.world(worldNew).release(nil)
		m.awaitWorld(c, worldNew)
		m.end(c, log, worldNew, difference)
	})
	t.Run("away", func(t *testing.T) {
		away := newWorlds(t, func(*corev3.Node) string { return worldNew })
		m := startMovingTo(t, away)
		c, log := m.join(deltaADS, worldOld)
		away.front.stop()
		log.begin()
		m.relay.mustReload(t, func(c *config.Config) {
			r := rule("in-new", "true")
			r.Upstream = "plane-1"
			c.Aggregation.Rules = []config.Rule{r}
		})
		waitFor(t, "the relay's attempts", func() bool {
			_, shown := m.relay.get(t, "/upstreams")
			return strings.Contains(shown, `"scope": "in-new`) && strings.Contains(shown, `"last_error"`)
		})
		if got := log.all(); len(got) > 0 || !m.holds(c, worldOld) || !c.connected() {
			t.Errorf("the client was sent %q though nobody is there", got)
		}
		away.front.restart(t)
		old := m.worlds
		m.worlds = away
		m.awaitWorld(c, worldNew)
		m.end(c, log, worldNew, difference)
		waitFor(t, "the end of the old stream", func() bool { return len(old.streams()) == 0 })
	})
}

// startMovingTo is startMoving with a second upstream that has the same.
func startMovingTo(t *testing.T, second *worlds) *moving {
	t.Helper()
	m := startMoving(t, nil)
	m.relay.stop()
	second.front.plain = true
	m.worlds.mu.Lock()
	second.now, second.version = cloneThings(m.worlds.now), m.worlds.version
	m.worlds.mu.Unlock()
	m.relay = startRelay(t, func(c *config.Config) {
		everybodyIn(worldOld)(c)
		c.Upstreams[1].Authorities = []string{"second"}
		c.Aggregation.Linger = config.Duration(50 * time.Millisecond)
	}, m.worlds.front.addr, second.front.addr)
	return m
}

func cloneThings(all map[string]map[string]thing) map[string]map[string]thing {
	clone := make(map[string]map[string]thing)
	for typeURL, things := range all {
		clone[typeURL] = maps.Clone(things)
	}
	return clone
}

// TestMoveBack: rules that change back before the first change was carried out leave
// everything as it was.
func TestMoveBack_AGG1_STR7(t *testing.T) {
	for _, v := range []variant{deltaADS, sotwADS} {
		t.Run(v.name, func(t *testing.T) {
			m := startMoving(t, nil)
			c, log := m.join(v, worldOld)
			m.worlds.world(worldNew).hold()
			log.begin()
			m.to(worldNew)
			m.worlds.world(worldNew).awaitSubscribed(t, map[string]int{clusterType: 1, endpointType: 4, listenerType: 1, routeType: 1})
			m.to(worldOld)
			waitFor(t, "the second move", func() bool {
				_, shown := m.relay.get(t, "/clients")
				return strings.Contains(shown, `"moved": 2`)
			})
			m.worlds.world(worldNew).release(nil)
			waitFor(t, "the end of the stream that nobody needs", func() bool {
				return maps.Equal(m.worlds.streams(), map[string]int{worldOld: 1})
			})
			if !m.holds(c, worldOld) {
				t.Errorf("the client was sent %q", log.all())
			}
			// What was there all the time may be said again once: that a name does not exist, or
			// in the state of the world the whole list.
			may := map[string]string{endpointType: "-only-new#1"}
			if v.sotw {
				may = map[string]string{
					clusterType: "common-1(old) only-old#1(old) same-1", listenerType: "common-1(old)",
					endpointType: "common-1(old) only-old#1(old) same-1", routeType: "common-1(old)",
				}
			}
			m.endAllowing(c, log, worldOld, nil, may)
		})
	}
}

// TestMoveState: in the state of the world a move is lists, none of which lacks what both
// scopes have.
func TestMoveState_AGG1_RES2_RES3_ADS1(t *testing.T) {
	for _, v := range []variant{sotwADS, sotw, sotwADSv2} {
		t.Run(v.name, func(t *testing.T) {
			m := startMoving(t, nil)
			m.worlds.unset(endpointType, "only-old#1") // there would be no word for its removal
			c, log := m.join(v, worldOld)
			log.begin()
			m.to(worldNew)
			m.awaitWorld(c, worldNew)
			for _, list := range log.of(clusterType) {
				if !strings.Contains(list, "same-1") || !strings.Contains(list, "common-1(new)") || !strings.Contains(list, "only-new#1(new)") {
					t.Errorf("RES-2: a list of clusters on the way: %q", list)
				}
			}
			lists := log.of(clusterType)
			if len(lists) > 2 || lists[len(lists)-1] != "common-1(new) only-new#1(new) same-1" {
				t.Errorf("RES-2, ADS-1: lists of clusters %q, want one with what goes and one without", lists)
			}
			m.end(c, log, worldNew, map[string][]string{
				clusterType:  lists,
				endpointType: {"common-1(new) only-new#1(new)"},
				listenerType: {"common-1(new)"},
				routeType:    {"common-1(new)"},
			})
		})
	}
}

// TestMoveWithoutWords: a stream of the state of the world that holds what its new scope
// does not have, and that its variant cannot be told is gone, is closed; the client that
// starts afresh has what is its own.
func TestMoveWithoutWords_AGG1_RES3(t *testing.T) {
	for _, v := range []variant{sotwADS, sotw} {
		t.Run(v.name, func(t *testing.T) {
			m := startMoving(t, nil)
			c, _ := m.join(v, worldOld)
			m.to(worldNew)
			h := c.common()
			if !h.happens(func() bool { return !c.connected() }) {
				t.Fatalf("the stream goes on: %q", h.payloads(endpointType))
			}
			if err := c.(*sotwClient).ended(); status.Code(err) != codes.Unavailable {
				t.Errorf("the stream ended with %v, want Unavailable", err)
			}
			c.disconnect()
			if err := c.connect(false); err != nil {
				t.Fatal(err)
			}
			m.awaitWorld(c, worldNew)
			for _, fault := range h.found() {
				t.Error(fault)
			}
			m.relay.consistent(t)
		})
	}
}

// TestMovePolls: a poll that is held when the rules change is answered with what is
// different, though the versions are the same.
func TestMovePolls_AGG1_REST1(t *testing.T) {
	m := startMoving(t, nil)
	m.worlds.unset(endpointType, "only-old#1")
	c, _ := m.join(restPoll, worldOld)
	m.to(worldNew)
	m.awaitWorld(c, worldNew)
	m.worlds.again(endpointType, "common-1")
	m.awaitWorld(c, worldNew)
	if !c.connected() {
		t.Error("a poll failed")
	}
	for _, fault := range c.common().found() {
		t.Error(fault)
	}
	m.relay.consistent(t)
}

// TestAuthorityMoves: when another upstream gets an authority, its names are moved as those
// of a scope are.
func TestAuthorityMoves_LOC3_RES11(t *testing.T) {
	const of = "xdstp://a/envoy.config.cluster.v3.Cluster/"
	names := []string{of + "same", of + "differs", of + "gone", of + "d/1", of + "d/2"}
	planes := []*plane{newPlane(t), newPlane(t)}
	for i, p := range planes {
		p.set(clusterType, names[0], false)
		p.world = fmt.Sprint(i)
		p.set(clusterType, names[1], false)
		p.set(clusterType, names[3], false)
	}
	planes[0].set(clusterType, names[2], false)
	planes[0].set(clusterType, names[4], false)
	relay := startRelay(t, func(c *config.Config) {
		c.Upstreams[0].Authorities, c.Upstreams[1].Authorities = []string{"a"}, []string{"b"}
	}, planes[0].addr, planes[1].addr)
	c := newClient(t, relay.addr, "client")
	log := record(c)
	if err := c.connect(false); err != nil {
		t.Fatal(err)
	}
	c.subscribe(clusterType, []string{names[0], names[1], names[2], of + "d/*"}, nil)
	c.awaitHolding(t, clusterType, slices.Clone(names)...)
	log.begin()
	relay.mustReload(t, func(c *config.Config) {
		c.Upstreams[0].Authorities, c.Upstreams[1].Authorities = []string{"b"}, []string{"a"}
	})
	want := func() bool {
		return maps.Equal(c.state(clusterType), planes[1].holds(clusterType, c.wanted(clusterType)))
	}
	c.await(t, "what the other upstream has", want)
	planes[1].set(clusterType, names[0], false)
	c.await(t, "an update of it", want)
	var told []string
	for _, line := range log.all() {
		told = append(told, strings.Fields(line)[1:]...)
	}
	all := []string{"+" + names[3] + "(1)", "+" + names[1] + "(1)", "+" + names[0] + "(1)", "-" + names[4], "-" + names[2]}
	slices.Sort(told)
	if slices.Sort(all); !slices.Equal(told, all) {
		t.Errorf("the client was told %q, want %q", told, all)
	}
	for _, fault := range c.found() {
		t.Error(fault)
	}
	relay.consistent(t)
}

// TestEndpointsChange: an upstream that is found elsewhere is the same upstream. Clients
// keep what they have, and their streams; what is there is asked for with the versions
// from before.
func TestEndpointsChange_LOC6_RES12(t *testing.T) {
	planes := []*plane{newPlane(t), newPlane(t)}
	for _, p := range planes {
		p.set(clusterType, "c1", true)
		p.set(clusterType, "c2", true)
	}
	planes[0].unset(clusterType, "c2")
	planes[0].set(clusterType, "c2", true) // the other has it at another version
	relay := startRelay(t, nil, planes[0].addr)
	c := newClient(t, relay.addr, "client")
	log := record(c)
	if err := c.connect(false); err != nil {
		t.Fatal(err)
	}
	c.subscribe(clusterType, []string{"*"}, nil)
	c.awaitHolding(t, clusterType, "c1", "c2")
	log.begin()
	relay.mustReload(t, func(c *config.Config) { c.Upstreams[0].Endpoints = []string{planes[1].addr} })
	c.await(t, "what the other has", func() bool {
		return maps.Equal(c.state(clusterType), planes[1].holds(clusterType, c.wanted(clusterType)))
	})
	if got := log.all(); !slices.Equal(got, []string{"CDS +c2"}) {
		t.Errorf("the client was sent %q, want what differs", got)
	}
	waitFor(t, "the end of the stream to the former endpoint", func() bool { return len(planes[0].streamsNow()) == 0 })
	if first := planes[1].streamsNow()[0].requests[0]; len(first.GetInitialResourceVersions()) != 2 {
		t.Errorf("RES-12: the first request was %v, want one with the versions", first)
	}
	if !c.connected() {
		t.Error("the client was disconnected")
	}
	relay.consistent(t)
}

// TestReloadRefuses: rules that cannot work change nothing, and those that turn clients
// away do so to the ones that are there, too.
func TestReloadRefuses_AGG2_AGG4(t *testing.T) {
	m := startMoving(t, nil)
	c, log := m.join(deltaADS, worldOld)
	log.begin()
	err := m.relay.reload(func(c *config.Config) {
		c.Aggregation.Rules = []config.Rule{rule("wrong", "node.nosuch == 1")}
	})
	if err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("AGG-4: the reload of a rule that cannot work gave %v", err)
	}
	m.end(c, log, worldOld, nil)
	m.relay.mustReload(t, func(c *config.Config) { c.Aggregation.Rules, c.Aggregation.Otherwise = nil, config.Refuse })
	if !c.common().happens(func() bool { return !c.connected() }) {
		t.Fatal("AGG-2: the client that is refused goes on")
	}
	if err := c.(*client).ended(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("AGG-2: the stream ended with %v, want PermissionDenied", err)
	}
	m.relay.consistent(t)
}
