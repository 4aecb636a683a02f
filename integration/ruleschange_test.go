package integration

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/config"
)

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
			// That a name does not exist may be said again once, and in the state of the world
			// the whole list: it is of another scope, whatever is in it.
			may := map[string]string{endpointType: "-only-new#1"}
			if v.sotw {
				may = map[string]string{clusterType: "common-1(old) only-old#1(old) same-1", listenerType: "common-1(old)"}
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
