package integration

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/config"
)

// ruleSet is an aggregation with what it has to come to, worked out by the test itself:
// which world a node's names of a type come from, and which scope it is in.
type ruleSet struct {
	name      string
	rules     []config.Rule
	otherwise config.Policy
	// world is that of a name, "*" for all there are.
	world func(n *corev3.Node, typeURL, name string) string
	// scope tells scopes of one world apart; nil: there is one for each world.
	scope func(n *corev3.Node) string
}

// apply puts the rules into a configuration.
func (s ruleSet) apply(c *config.Config) {
	c.Aggregation.Rules, c.Aggregation.Otherwise = s.rules, s.otherwise
}

// worldKey is the metadata by which a rule names the world to the test's control plane.
const worldKey = "world"

// worldOfNode is what the test's control planes go by: a name that a rule made, or else
// the node's cluster.
func worldOfNode(n *corev3.Node) string {
	if w := n.GetMetadata().GetFields()[worldKey].GetStringValue(); w != "" {
		return w
	}
	return byCluster(n, "", "")
}

func byCluster(n *corev3.Node, _, _ string) string { return "cluster/" + n.GetCluster() }

func role(n *corev3.Node) string { return n.GetMetadata().GetFields()["role"].GetStringValue() }

// secondWorld begins the worlds of the second control plane.
const secondWorld = "second/"

func inSecondWorld(n *corev3.Node) string { return secondWorld + worldOfNode(n) }

// worldRule makes a rule that tells the control plane the world.
func worldRule(name, match, world string, scope ...string) config.Rule {
	return config.Rule{Name: name, Match: match, Scope: append([]string{}, scope...), Node: config.RuleNode{Metadata: config.Expressions{worldKey: world}}}
}

// ruleSets regroup the same clients again and again. The second one's control plane is
// that of the upstream plane-1.
var ruleSets = []ruleSet{
	{
		name:      "by cluster",
		rules:     []config.Rule{{Name: "clusters", Match: "true", Scope: []string{"node.cluster"}}},
		otherwise: config.Refuse, world: byCluster,
	},
	{
		name:      "by zone",
		rules:     []config.Rule{worldRule("zones", "true", `"zone/" + node.locality.zone`, "node.locality.zone")},
		otherwise: config.Refuse,
		world:     func(n *corev3.Node, _, _ string) string { return "zone/" + n.GetLocality().GetZone() },
	},
	{
		name: "by both",
		rules: []config.Rule{worldRule("both", `node.id.startsWith("node-")`,
			`"both/" + node.cluster + "/" + node.locality.zone`, "node.cluster", "node.locality.zone")},
		otherwise: config.Isolate,
		world: func(n *corev3.Node, _, _ string) string {
			return "both/" + n.GetCluster() + "/" + n.GetLocality().GetZone()
		},
	},
	{
		name:      "by metadata",
		rules:     []config.Rule{worldRule("roles", "has(node.metadata.role)", `"role/" + node.metadata.role`, "node.metadata.role")},
		otherwise: config.Isolate,
		world:     func(n *corev3.Node, _, _ string) string { return "role/" + role(n) },
	},
	{
		name:      "isolated",
		otherwise: config.Isolate, world: byCluster,
		scope: func(n *corev3.Node) string { return n.GetId() },
	},
	{
		name: "endpoints by name",
		rules: []config.Rule{
			worldRule("shards", "type == eds && name.matches('-[0-9]$')", `"shard/" + name.substring(name.size() - 1)`, "name.substring(name.size() - 1)"),
			{Name: "clusters", Match: "true", Scope: []string{"node.cluster"}},
		},
		otherwise: config.Refuse,
		world: func(n *corev3.Node, typeURL, name string) string {
			if typeURL == endpointType && name != "*" {
				return "shard/" + name[len(name)-1:]
			}
			return byCluster(n, typeURL, name)
		},
	},
	{
		name:      "one for all",
		rules:     []config.Rule{worldRule("all", "true", `"all"`)},
		otherwise: config.Refuse,
		world:     func(*corev3.Node, string, string) string { return "all" },
	},
	{
		name: "another upstream",
		rules: []config.Rule{{
			Name: "moved", Match: `type in [cds, eds, lds, rds]`, Scope: []string{"node.cluster"}, Upstream: "plane-1",
		}},
		otherwise: config.Isolate,
		world:     func(n *corev3.Node, _, _ string) string { return inSecondWorld(n) },
	},
	{
		name:      "gateways isolated",
		rules:     []config.Rule{worldRule("sidecars", `node.metadata.role == "sidecar"`, `"sidecars"`)},
		otherwise: config.Isolate,
		world: func(n *corev3.Node, _, _ string) string {
			if role(n) == "sidecar" {
				return "sidecars"
			}
			return byCluster(n, "", "")
		},
		scope: func(n *corev3.Node) string {
			if role(n) == "sidecar" {
				return ""
			}
			return n.GetId()
		},
	},
	{
		name: "a rule that fails",
		rules: []config.Rule{
			{Name: "broken", Match: `node.metadata.missing == "x"`, Scope: []string{}},
			worldRule("never", "true", `"nobody's"`),
		},
		otherwise: config.Share, world: byCluster,
		scope: func(n *corev3.Node) string { return n.GetId() },
	},
}

// isSecond reports whether a world is the second control plane's.
func isSecond(world string) bool { return strings.HasPrefix(world, secondWorld) }
