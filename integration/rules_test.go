package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xdsrelay/xdsrelay/config"
)

// ruled is a relay with rules in front of a control plane that gives each node's cluster
// a world of its own, unless a rule says another one.
type ruled struct {
	t      *testing.T
	worlds *worlds
	relay  *testRelay
}

func startRuled(t *testing.T, rules ...config.Rule) *ruled {
	t.Helper()
	return startRuledOtherwise(t, config.Isolate, rules...)
}

func startRuledOtherwise(t *testing.T, otherwise config.Policy, rules ...config.Rule) *ruled {
	t.Helper()
	r := &ruled{t: t, worlds: newWorlds(t, worldOfNode)}
	r.worlds.set(clusterType, "c1", true)
	r.worlds.set(endpointType, "e-1", false)
	r.worlds.set(endpointType, "e-2", false)
	r.relay = startRelay(t, func(c *config.Config) {
		c.Aggregation.Rules, c.Aggregation.Otherwise = rules, otherwise
	}, r.worlds.front.addr)
	return r
}

// rule makes a rule that leaves the node as it is.
func rule(name, match string, scope ...string) config.Rule {
	return config.Rule{Name: name, Match: match, Scope: append([]string{}, scope...)}
}

// profile makes a node without ID.
func profile(cluster, zone string, metadata map[string]string) *corev3.Node {
	n := &corev3.Node{Cluster: cluster, Metadata: &structpb.Struct{Fields: make(map[string]*structpb.Value)}}
	if zone != "" {
		n.Locality = &corev3.Locality{Zone: zone}
	}
	for k, v := range metadata {
		n.Metadata.Fields[k] = structpb.NewStringValue(v)
	}
	return n
}

// client connects a client of incremental ADS.
func (r *ruled) client(id string, node *corev3.Node, features ...string) *client {
	r.t.Helper()
	c := newClient(r.t, r.relay.addr, id)
	c.profile, c.features = node, features
	if err := c.connect(false); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// clusters has a client follow all clusters, and gives the world that they come from.
func (r *ruled) clusters(id string, node *corev3.Node, features ...string) string {
	r.t.Helper()
	c := r.client(id, node, features...)
	c.subscribe(clusterType, []string{"*"}, nil)
	c.awaitHolding(r.t, clusterType, "c1")
	return worldOf(c.payloads(clusterType)["c1"])
}

// presented are the nodes that the control plane's streams presented.
func (r *ruled) presented() []*corev3.Node {
	var nodes []*corev3.Node
	for _, p := range r.worlds.all() {
		for _, st := range p.streamsNow() {
			nodes = append(nodes, st.shown)
		}
	}
	slices.SortFunc(nodes, func(a, b *corev3.Node) int { return strings.Compare(a.GetId(), b.GetId()) })
	return nodes
}

// expectStreams compares the streams upstream, by world.
func (r *ruled) expectStreams(what string, want map[string]int) {
	r.t.Helper()
	if got := r.worlds.streams(); !maps.Equal(got, want) {
		r.t.Errorf("%s: the control plane sees streams of %v, want %v", what, got, want)
	}
}

func TestRules_AGG1_AGG2_AGG3(t *testing.T) {
	t.Run("AGG-1 clients of one scope share a stream", func(t *testing.T) {
		r := startRuled(t, rule("clusters", "true", "node.cluster"))
		for i := range 9 {
			cluster := []string{"web", "api", "batch"}[i%3]
			if got := r.clusters(fmt.Sprint("client-", i), profile(cluster, "", nil)); got != "cluster/"+cluster {
				t.Errorf("AGG-1: a client of %q is served %q", cluster, got)
			}
		}
		r.expectStreams("AGG-1", map[string]int{"cluster/web": 1, "cluster/api": 1, "cluster/batch": 1})
		ids, of := make(map[string]bool), make(map[string]bool)
		for _, n := range r.presented() {
			ids[n.GetId()], of[n.GetCluster()] = strings.HasPrefix(n.GetId(), "xdsrelay~"), true
		}
		if want := map[string]bool{"web": true, "api": true, "batch": true}; len(ids) != 3 || !maps.Equal(of, want) || slices.Contains(slices.Collect(maps.Values(ids)), false) {
			t.Errorf("AGG-3: the control plane sees the nodes %v of %v, want one of the relay's own for each scope", ids, of)
		}
	})

	t.Run("AGG-2 the first rule that matches", func(t *testing.T) {
		r := startRuled(t,
			worldRule("edge", `node.id.startsWith("gw-")`, `"edge"`),
			worldRule("zones", `node.locality.zone != ""`, `"zone/" + node.locality.zone`, "node.locality.zone"),
			worldRule("gateways", `node.id.contains("gw-")`, `"never"`),
		)
		for id, want := range map[string]string{"gw-1": "edge", "gw-2": "edge", "sidecar-1": "zone/z", "sidecar-2": "zone/z"} {
			if got := r.clusters(id, profile("web", "z", nil)); got != want {
				t.Errorf("AGG-2: %s is served %q, want %q", id, got, want)
			}
		}
		// Whom no rule matches is alone.
		r.clusters("sidecar-3", profile("web", "", nil))
		r.clusters("sidecar-4", profile("web", "", nil))
		r.expectStreams("AGG-2", map[string]int{"edge": 1, "zone/z": 1, "cluster/web": 2})
	})

	t.Run("AGG-1 a rule for some types", func(t *testing.T) {
		r := startRuled(t,
			worldRule("endpoints", "type in [eds, rds]", `"endpoints"`),
			rule("rest", "true", "node.cluster"),
		)
		c := r.client("a", profile("web", "", nil))
		c.subscribe(clusterType, []string{"*"}, nil)
		c.subscribe(endpointType, []string{"e-1"}, nil)
		c.awaitHolding(t, clusterType, "c1")
		c.awaitHolding(t, endpointType, "e-1")
		if got := worldOf(c.payloads(endpointType)["e-1"]); got != "endpoints" {
			t.Errorf("AGG-1: endpoints from %q", got)
		}
		r.expectStreams("AGG-1", map[string]int{"endpoints": 1, "cluster/web": 1})
	})

	t.Run("AGG-2 a rule that fails isolates", func(t *testing.T) {
		r := startRuledOtherwise(t, config.Share,
			rule("roles", `node.metadata.role == "sidecar"`, "node.cluster"),
			worldRule("wide", "true", `"everybody's"`),
		)
		for _, id := range []string{"a", "b"} {
			if got := r.clusters(id, profile("web", "", map[string]string{"role": "sidecar"})); got != "cluster/web" {
				t.Errorf("AGG-2: the rule matches, and %s is served %q", id, got)
			}
		}
		if got := r.clusters("c", profile("web", "", map[string]string{"role": "gateway"})); got != "everybody's" {
			t.Errorf("AGG-2: the rule does not match, and the client is served %q", got)
		}
		const failures = `xdsrelay_aggregation_rule_failures_total`
		for _, id := range []string{"d", "e"} { // without the key
			if got := r.clusters(id, profile("api", "", nil)); got != "cluster/api" {
				t.Errorf("AGG-2: the rule fails, and %s is served %q", id, got)
			}
		}
		r.expectStreams("AGG-2", map[string]int{"cluster/web": 1, "everybody's": 1, "cluster/api": 2})
		if got := r.relay.metric(t, failures, `rule="roles"`); got != 2 {
			t.Errorf("AGG-2: %s is %d, want 2", failures, got)
		}
	})

	t.Run("AGG-2 a scope that fails isolates", func(t *testing.T) {
		r := startRuledOtherwise(t, config.Share, rule("roles", "true", "node.metadata.role"))
		r.clusters("a", profile("web", "", nil))
		r.clusters("b", profile("web", "", nil))
		r.expectStreams("AGG-2", map[string]int{"cluster/web": 2})
	})

	t.Run("AGG-3 the node of the first client, where the rule says so", func(t *testing.T) {
		first := rule("clusters", "true", "node.cluster")
		first.Node.First = true
		r := startRuled(t, first)
		r.clusters("a", profile("web", "z1", map[string]string{"role": "sidecar"}))
		r.clusters("b", profile("web", "z2", nil))
		nodes := r.presented()
		if len(nodes) != 1 || nodes[0].GetId() != "a" || nodes[0].GetLocality().GetZone() != "z1" || len(nodes[0].GetMetadata().GetFields()) != 1 {
			t.Errorf("AGG-3: the control plane sees %v", nodes)
		}
	})

	t.Run("AGG-3 the node that a rule makes", func(t *testing.T) {
		r := startRuled(t, config.Rule{
			Name: "made", Match: "true", Scope: []string{"node.cluster"},
			Node: config.RuleNode{
				ID: `"relay-" + node.cluster`, Locality: config.Locality{Zone: `"any"`},
				Metadata: config.Expressions{"asked": "string(node.metadata.role)"},
			},
		})
		first := profile("web", "z1", map[string]string{"role": "sidecar", "secret": "x"})
		first.Locality.Region = "r"
		r.clusters("a", first)
		r.clusters("b", profile("web", "z2", map[string]string{"role": "gateway"}))
		nodes := r.presented()
		if len(nodes) != 1 {
			t.Fatalf("AGG-3: the control plane sees %v", nodes)
		}
		n := nodes[0]
		if n.GetId() != "relay-web" || n.GetCluster() != "web" || n.GetLocality().GetRegion() != "" || n.GetLocality().GetZone() != "any" {
			t.Errorf("AGG-3: the control plane sees %v", n)
		}
		if m := n.GetMetadata().AsMap(); len(m) != 1 || m["asked"] != "sidecar" {
			t.Errorf("AGG-3: the control plane sees the metadata %v, want that of the rule as a whole", m)
		}
	})

	t.Run("AGG-3 features of load balancing split a scope", func(t *testing.T) {
		r := startRuled(t, rule("clusters", "true", "node.cluster"))
		node := profile("web", "", nil)
		r.clusters("a", node, "envoy.lb.x", "xds.config.supports-resource-ttl")
		r.clusters("b", node, "xds.config.resource-in-sotw", "envoy.lb.x")
		r.clusters("c", node, "envoy.lb.y")
		r.clusters("d", node)
		r.expectStreams("AGG-3", map[string]int{"cluster/web": 3})
	})

	t.Run("AGG-2 refused", func(t *testing.T) {
		r := startRuledOtherwise(t, config.Refuse, rule("sidecars", `node.id.startsWith("sidecar-")`, "node.cluster"))
		r.clusters("sidecar-1", profile("web", "", nil))
		c := r.client("gw-1", profile("web", "", nil))
		c.subscribe(clusterType, []string{"*"}, nil)
		c.await(t, "the refusal", func() bool { return !c.connected() })
		if err := c.ended(); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "gw-1") {
			t.Errorf("AGG-2: the stream ended with %v, want PermissionDenied and who it is", err)
		}
	})
}

// TestRuleUpstream: a rule may say which upstream is asked, whatever the default is.
func TestRuleUpstream_AGG1_LOC3(t *testing.T) {
	first, second := newWorlds(t, worldOfNode), newWorlds(t, inSecondWorld)
	for _, w := range []*worlds{first, second} {
		w.set(clusterType, "c1", true)
	}
	sidecars := rule("sidecars", `node.metadata.role == "sidecar" && upstream == "plane-0"`, "node.cluster")
	sidecars.Upstream = "plane-1"
	relay := startRelay(t, func(c *config.Config) {
		c.Aggregation.Rules, c.Aggregation.Otherwise = []config.Rule{sidecars, rule("rest", "true", "node.cluster")}, config.Isolate
	}, first.front.addr, second.front.addr)
	r := &ruled{t: t, worlds: first, relay: relay}
	for i, role := range []string{"sidecar", "gateway", "sidecar", "gateway"} {
		want := "cluster/web"
		if role == "sidecar" {
			want = secondWorld + want
		}
		if got := r.clusters(fmt.Sprint("client-", i), profile("web", "", map[string]string{"role": role})); got != want {
			t.Errorf("AGG-1: a %s is served %q, want %q", role, got, want)
		}
	}
	r.expectStreams("AGG-1", map[string]int{"cluster/web": 1})
	if got := second.streams(); !maps.Equal(got, map[string]int{secondWorld + "cluster/web": 1}) {
		t.Errorf("AGG-1: the second control plane sees streams of %v", got)
	}
}
