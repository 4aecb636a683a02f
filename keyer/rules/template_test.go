package rules_test

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// own is a relay's own node.
func own() *corev3.Node {
	return &corev3.Node{
		Id: "relay", Cluster: "relays", UserAgentName: "xdsrelay", Locality: &corev3.Locality{Region: "r", Zone: "z"},
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"team": structpb.NewStringValue("edge"), "role": structpb.NewStringValue("relay"),
		}},
	}
}

// AGG-3: the upstream node is the relay's own, with the fields that the scope names and
// those that the rule sets.
func TestAGG3Node(t *testing.T) {
	client := sidecar(t)
	client.UserAgentName = "envoy"
	client.Locality.SubZone = "rack"
	client.ProtoReflect().SetUnknown([]byte{0xfa, 0x3f, 0x01, 'x'})
	metadata := func(n *corev3.Node, fields map[string]any) {
		t.Helper()
		made, err := structpb.NewStruct(fields)
		if err != nil {
			t.Fatal(err)
		}
		n.Metadata = made
	}
	for _, tc := range []struct {
		name   string
		scope  []string
		node   rules.Node
		client *corev3.Node
		change func(*corev3.Node)
	}{
		{"nothing named", nil, rules.Node{}, client, func(*corev3.Node) {}},
		{"cluster and zone", []string{"node.cluster", "node.locality.zone"}, rules.Node{}, client, func(n *corev3.Node) { n.Cluster, n.Locality.Zone = "web", "eu-1a" }},
		{"whole locality", []string{"node.locality"}, rules.Node{}, client, func(n *corev3.Node) { n.Locality = client.GetLocality() }},
		{"what the client lacks", []string{"node.cluster", "node.locality.zone"}, rules.Node{}, &corev3.Node{Id: "a"}, func(n *corev3.Node) { n.Cluster, n.Locality.Zone = "", "" }},
		{"the id stays the relay's", []string{"node.id"}, rules.Node{}, client, func(*corev3.Node) {}},
		{"what is worked out of fields is no field", []string{`node.cluster + "/"`, `has(node.locality)`, `node.metadata.ports[0]`}, rules.Node{}, client, func(*corev3.Node) {}},
		{
			"metadata at any level", []string{"node.metadata.shard", `node.metadata.labels["app"]`, `node.metadata[?"role"].orValue("none")`}, rules.Node{}, client,
			func(n *corev3.Node) {
				metadata(n, map[string]any{"team": "edge", "role": "sidecar", "shard": 3, "labels": map[string]any{"app": "web"}})
			},
		},
		{
			"metadata that the client lacks", []string{`node.metadata.?role`, `node.metadata.?labels.?tier.orValue("none")`}, rules.Node{}, &corev3.Node{Id: "a"},
			func(n *corev3.Node) {
				metadata(n, map[string]any{"team": "edge", "labels": map[string]any{"tier": "none"}})
			},
		},
		{"whole metadata", []string{"node.metadata"}, rules.Node{}, client, func(n *corev3.Node) { n.Metadata = client.GetMetadata() }},
		{"a scope of whole nodes", []string{"node"}, rules.Node{}, client, func(n *corev3.Node) { proto.Reset(n); proto.Merge(n, client) }},
		{"first", []string{"node.cluster"}, rules.Node{First: true}, client, func(n *corev3.Node) { proto.Reset(n); proto.Merge(n, client) }},

		{"id", nil, rules.Node{ID: `"relay-" + node.cluster`}, client, func(n *corev3.Node) { n.Id = "relay-web" }},
		{"cluster from metadata", []string{"node.cluster"}, rules.Node{Cluster: `node.metadata.role`}, client, func(n *corev3.Node) { n.Cluster = "sidecar" }},
		{"cluster of nothing", nil, rules.Node{Cluster: `""`}, client, func(n *corev3.Node) { n.Cluster = "" }},
		{"zone", nil, rules.Node{Locality: rules.Locality{Zone: `node.locality.region + "b"`}}, client, func(n *corev3.Node) { n.Locality.Zone = "eu-1b" }},
		{
			"whole locality set", nil, rules.Node{Locality: rules.Locality{Region: `"r"`, Zone: `"z"`, SubZone: `"s"`}}, client,
			func(n *corev3.Node) { n.Locality = &corev3.Locality{Region: "r", Zone: "z", SubZone: "s"} },
		},
		{"no metadata", []string{"node.metadata.role"}, rules.Node{Metadata: map[string]string{}}, client, func(n *corev3.Node) { n.Metadata = &structpb.Struct{} }},
		{
			"metadata set", []string{"name"},
			rules.Node{Metadata: map[string]string{
				"text": `node.id`, "number": `node.metadata.shard`, "list": `node.metadata.ports`, "map": `{"a": {"b": [null, true]}}`,
				"given": `node.metadata[?"role"]`, "missing": `node.metadata[?"missing"]`, "with.dot": `name`,
			}},
			client,
			func(n *corev3.Node) {
				metadata(n, map[string]any{
					"text": "gw-web-17", "number": 3, "list": []any{80, 443}, "map": map[string]any{"a": map[string]any{"b": []any{nil, true}}},
					"given": "sidecar", "with.dot": "a",
				})
			},
		},
		{"no node", []string{"type"}, rules.Node{ID: `"x"`, Locality: rules.Locality{Zone: `type`}}, nil, func(n *corev3.Node) {
			n.Id, n.Locality.Zone = "x", clusterURL
		}},
	} {
		t.Run("AGG-3 "+tc.name, func(t *testing.T) {
			set := compile(t, rules.Config{Rules: []rules.Rule{{Name: "r", Match: "true", Scope: tc.scope, Node: tc.node}}})
			before := proto.Clone(tc.client)
			d, err := set.Subject(tc.client, keyer.Peer{}).DecideName(clusterURL, "a")
			if err != nil || d.Failed != nil {
				t.Fatalf("Decide = %+v, %v", d, err)
			}
			want := own()
			want.Id = "relay~1"
			tc.change(want)
			got := rules.UpstreamNode(&d, own(), "relay~1")
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("AGG-3: node (-want +got):\n%s", diff)
			}
			if !proto.Equal(before, tc.client) {
				t.Errorf("AGG-3: the client's node was changed: %v", tc.client)
			}
			if len(d.Basis) != 16 || !strings.HasPrefix(d.Scope, "r[") || d.Client != tc.client {
				t.Errorf("AGG-3: basis %q of scope %s", d.Basis, d.Scope)
			}
		})
	}
}

// AGG-3: clients of one scope come to one upstream node, whoever comes first.
func TestAGG3PropertyNodeOfScope(t *testing.T) {
	parts := []string{
		"node.cluster", "node.locality.zone", "node.locality", "node.metadata.?role", `node.metadata.?role.orValue("x")`,
		`node.metadata.?labels.?app.orValue("x")`, `node.metadata.?labels`, `node.cluster.size()`, "node.id.size()",
	}
	text := rapid.SampledFrom([]string{"", "x", "y"})
	rapid.Check(t, func(t *rapid.T) {
		scope := rapid.SliceOfNDistinct(rapid.SampledFrom(parts), 0, 4, rapid.ID[string]).Draw(t, "scope")
		set, problems := rules.Compile(rules.Config{Rules: []rules.Rule{{Name: "r", Match: "true", Scope: scope}}})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		byScope := make(map[string]*corev3.Node)
		for range 8 {
			node := &corev3.Node{Id: text.Draw(t, "id"), Cluster: text.Draw(t, "cluster"), UserAgentName: text.Draw(t, "agent")}
			if rapid.Bool().Draw(t, "has a locality") {
				node.Locality = &corev3.Locality{Zone: text.Draw(t, "zone")}
			}
			fields := make(map[string]any)
			if rapid.Bool().Draw(t, "has a role") {
				fields["role"] = text.Draw(t, "role")
			}
			if rapid.Bool().Draw(t, "has labels") {
				fields["labels"] = map[string]any{"app": text.Draw(t, "app")}
			}
			node.Metadata, _ = structpb.NewStruct(fields)
			d, _, err := set.Subject(node, keyer.Peer{}).Decide(clusterURL)
			if err != nil || d.Failed != nil {
				t.Fatal(d, err)
			}
			got := rules.UpstreamNode(&d, own(), "relay~1")
			if before := byScope[d.Scope]; before != nil && !proto.Equal(before, got) {
				t.Fatalf("AGG-3: scope %s has the nodes %v and %v", d.Scope, before, got)
			}
			byScope[d.Scope] = got
		}
	})
}
