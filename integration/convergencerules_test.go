package integration

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/keyer"
)

var rulesRuns = flag.Int("convergence.rules.runs", 200, "how many random schedules TestConvergenceOfRules plays")

// TestConvergenceOfRules is invariant 1 with rules that change all the time, beside
// everything else that TestConvergence does: in the end every client holds what a direct
// client of its scope would. Each scope has other payloads under the same names; in half of
// the schedules under the same versions, too.
func TestConvergenceOfRules_AGG1_AGG2_AGG3_RES11_OPS1_OPS3(t *testing.T) {
	t.Parallel() // most of it is waiting
	for i := range *rulesRuns {
		s := *seed + uint64(i)
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			newRulesSchedule(t, s).play()
		})
	}
}

// worldly is what a schedule knows of worlds, and of the rules that say who is in which.
type worldly struct {
	worlds *worlds
	rules  *ruleSet
	nodes  map[xdsClient]*corev3.Node
	own    string // the world of the relay itself: of xdstp names
}

// scheduleRules are the rule sets of the schedules: those that need one upstream, and one
// by name in which some of the universe's names have scopes of their own.
func scheduleRules() []ruleSet {
	sets := slices.DeleteFunc(slices.Clone(ruleSets), func(s ruleSet) bool {
		return s.name == "another upstream" || s.name == "endpoints by name"
	})
	return append(sets, ruleSet{
		name: "by name",
		rules: []config.Rule{
			worldRule("shards", "name.endsWith('1') || name.endsWith('2')",
				`"shard/" + name.substring(name.size() - 1)`, "name.substring(name.size() - 1)"),
			rule("clusters", "true", "node.cluster"),
		},
		otherwise: config.Refuse,
		world: func(n *corev3.Node, _, name string) string {
			if last := name[len(name)-1:]; last == "1" || last == "2" {
				return "shard/" + last
			}
			return byCluster(n, "", "")
		},
	})
}

func newRulesSchedule(t *testing.T, seed uint64) *schedule {
	t.Helper()
	s := &schedule{t: t, rand: rand.New(rand.NewPCG(seed, 6))}
	s.up = upstreamVariants[seed%uint64(len(upstreamVariants)-1)] // files know no nodes
	downs := make([]variant, 4)
	for i := range downs {
		downs[i] = variants[s.rand.IntN(len(variants))]
	}
	w := newWorlds(t, worldOfNode)
	w.seed, w.distinct = seed, seed/5%2 == 0
	w.front.plain = s.up.rest || slices.Contains(downs, restPoll)
	w.random = true
	all := scheduleRules()
	s.plane, s.source = w.front, w
	s.moves = &worldly{worlds: w, rules: &all[s.rand.IntN(len(all))], nodes: make(map[xdsClient]*corev3.Node)}
	s.relay = startRelayOver(t, s.up, w.front, func(c *config.Config) {
		s.moves.rules.apply(c)
		c.Aggregation.Linger = config.Duration(s.rand.IntN(2) * 20_000_000)
		if s.rand.IntN(2) == 0 {
			c.Cache.MaxResources = 4 // evict all the time
		}
		s.moves.own = worldOfNode(c.NodeProto())
	})
	nodes := movedNodes()
	for _, v := range downs {
		n := nodes[s.rand.IntN(len(nodes))]
		c := newVariantClient(t, v, s.relay.address(v), n.GetId())
		c.common().profile = n
		s.moves.nodes[c] = n
		s.clients = append(s.clients, mixedClient{c, v})
	}
	return s
}

// changeRules has the relay go on with other rules.
func (s *schedule) changeRules() {
	all := scheduleRules()
	s.moves.rules = &all[s.rand.IntN(len(all))]
	for _, c := range s.clients {
		c.common().distrust()
	}
	s.relay.mustReload(s.t, s.moves.rules.apply)
}

// world is where a client has to have a name from.
func (m *worldly) world(c mixedClient, typeURL, name string) string {
	if keyer.IsXDSTP(name) {
		return m.own
	}
	return m.rules.world(m.nodes[c.xdsClient], typeURL, name)
}

// wants puts together what the worlds have of a client's subscriptions. What it names is
// what that stands for in the name's own world, whatever the wildcard's has.
func (m *worldly) wants(c mixedClient, typeURL string, what func(*testPlane, string, map[string]bool) map[string]string) map[string]string {
	wanted := c.common().wanted(typeURL)
	want := make(map[string]string)
	if wanted["*"] {
		want = what(m.worlds.world(m.world(c, typeURL, "*")), typeURL, map[string]bool{"*": true})
	}
	for name := range wanted {
		if name == "*" {
			continue
		}
		delete(want, name)
		maps.Copy(want, what(m.worlds.world(m.world(c, typeURL, name)), typeURL, map[string]bool{name: true}))
	}
	return want
}

// strange reports whether a client has a resource from a world that it should not have it
// from. Over a server of the state of the world nobody can tell an incremental client that
// its new scope does not have a name (RES-7). Polls have no state that could be begun anew: what a client of theirs has of types
// without full state it keeps until there is something else of that name. In the state of
// the world the tests' clients keep what they unsubscribe from, too, of which the relay
// knows nothing when they ask for it again.
func (m *worldly) strange(c mixedClient, typeURL, name, payload string) bool {
	return m != nil && m.foreign(c, typeURL, name, payload) && !(c.variant.sotw && c.common().wasDropped(typeURL, name))
}

// foreign is strange also of what a client keeps that it has unsubscribed from: on its
// next stream that is as strange as anything.
func (m *worldly) foreign(c mixedClient, typeURL, name, payload string) bool {
	if c.variant.rest {
		return false
	}
	asked := name
	if !c.common().wanted(typeURL)[name] && !keyer.IsXDSTP(name) {
		asked = "*"
	}
	return worldOf(payload) != m.world(c, typeURL, asked)
}

// strangers reports whether a client of the state of the world has any. It begins afresh
// then: there is no word for the removal of what its scope does not have (RES-3).
func (m *worldly) strangers(c mixedClient) bool {
	if m == nil || !c.variant.sotw {
		return false
	}
	for typeURL := range universe {
		for name, payload := range c.common().all(typeURL) {
			if !strings.Contains(payload, stampBegin) || m.foreign(c, typeURL, name, payload) {
				return true
			}
		}
	}
	return false
}
