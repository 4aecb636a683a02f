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

// sentAway is what the relay ends streams with whose names live elsewhere now.
const sentAway = "the configuration changed where resources of this stream come from: connect again"

// comesBack waits until the relay ends the client's streams, and connects it again with
// what it holds. A client that polls is not disconnected by the 304 that it gets.
func (m *moving) comesBack(c xdsClient, v variant) {
	m.t.Helper()
	if v.rest {
		return
	}
	if !c.common().happens(func() bool { return !c.connected() }) {
		m.t.Fatal("the stream of a client whose scope changed goes on")
	}
	why := endOf(c)
	if s := status.Convert(why); s.Code() != codes.Unavailable || s.Message() != sentAway {
		m.t.Errorf("the stream ended with %v, want UNAVAILABLE: %s", why, sentAway)
	}
	c.disconnect()
	if err := c.connect(true); err != nil {
		m.t.Fatal(err)
	}
}

// endOf is what a client's stream ended with.
func endOf(c xdsClient) error {
	switch x := c.(type) {
	case *client:
		return x.ended()
	case *sotwClient:
		return x.ended()
	default:
		return nil
	}
}

// TestMove: a reload that changes where a client's names live ends its stream. The client
// comes back with what it holds, and is sent what its new scope has, also where the
// versions are the same; it never loses what both scopes have.
func TestMove_AGG1_ACK4_RES11_RES2(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			m := startMoving(t, nil)
			if v.sotw {
				m.worlds.unset(endpointType, "only-old#1") // there would be no word for its removal (RES-3)
			}
			c, _ := m.join(v, worldOld)
			c.common().watch = &keeps{}
			m.to(worldNew)
			m.comesBack(c, v)
			m.awaitWorld(c, worldNew)
			for _, typeURL := range everyType {
				m.worlds.again(typeURL, "common-1")
				m.awaitWorld(c, worldNew)
			}
			for _, fault := range c.common().found() {
				t.Error(fault)
			}
			m.relay.consistent(t)
			m.worlds.checkClient(t)
			waitFor(t, "the end of the old scope's stream", func() bool {
				return maps.Equal(m.worlds.streams(), map[string]int{worldNew: 1})
			})
		})
	}

	t.Run("AGG-1 a client whose scope stays is not concerned", func(t *testing.T) {
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
		m.comesBack(c, deltaADS)
		m.awaitWorld(c, worldNew)
		m.worlds.again(clusterType, "common-1")
		other.await(t, "the update", func() bool { return len(log.all()) > 0 })
		if got := log.all(); !slices.Equal(got, []string{"CDS +common-1(old)"}) || !other.connected() {
			t.Errorf("AGG-1: a client whose scope stays is sent %q", got)
		}
	})
}

// keeps notes what is removed from a client that every world has.
type keeps struct{}

func (*keeps) put(string, string, held) string { return "" }

func (*keeps) removed(typeURL, name string) string {
	if name == "same-1" || name == "common-1" {
		return "AGG-1: " + name + " of " + typeURL + ", which both scopes have, was removed"
	}
	return ""
}

// TestMoveToSilence: as long as the new scope's control plane says nothing, or is away, a
// client that comes back loses nothing.
func TestMoveToSilence_AGG1_OPS1_RES11(t *testing.T) {
	for _, v := range []variant{deltaADS, sotwADS} {
		t.Run(v.name, func(t *testing.T) {
			m := startMoving(t, nil)
			m.worlds.unset(endpointType, "only-old#1")
			c, log := m.join(v, worldOld)
			m.worlds.world(worldNew).Hold(everyType...)
			log.begin()
			m.to(worldNew)
			m.comesBack(c, v)
			m.worlds.world(worldNew).awaitSubscribed(t, map[string]int{clusterType: 1, endpointType: 4, listenerType: 1, routeType: 1})
			if got := log.all(); len(got) > 0 || !m.holds(c, worldOld) {
				t.Errorf("the client was sent %q before the control plane said anything", got)
			}
			m.worlds.world(worldNew).Release()
			m.awaitWorld(c, worldNew)
		})
	}
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
		m.comesBack(c, deltaADS)
		waitFor(t, "the relay's attempts", func() bool {
			_, shown := m.relay.get(t, "/upstreams")
			return strings.Contains(shown, `"scope": "in-new`) && strings.Contains(shown, `"last_error"`)
		})
		if got := log.all(); len(got) > 0 || !m.holds(c, worldOld) {
			t.Errorf("the client was sent %q though nobody is there", got)
		}
		away.front.restart(t)
		old := m.worlds
		m.worlds = away
		m.awaitWorld(c, worldNew)
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

// TestReloadRefuses: rules that cannot work change nothing. Rules that refuse clients end
// the streams that they have, and refuse the next ones.
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
	m.comesBack(c, deltaADS)
	if !c.common().happens(func() bool { return !c.connected() }) {
		t.Fatal("AGG-2: the client that is refused goes on")
	}
	if err := c.(*client).ended(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("AGG-2: the stream ended with %v, want PermissionDenied", err)
	}
	m.relay.consistent(t)
}
