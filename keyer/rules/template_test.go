package rules_test

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// AGG-3: a rule replaces the fields that it gives and leaves the others alone.
func TestAGG3Node(t *testing.T) {
	client := sidecar(t)
	client.UserAgentName = "envoy"
	client.Locality.SubZone = "rack"
	client.ProtoReflect().SetUnknown([]byte{0xfa, 0x3f, 0x01, 'x'})
	for _, tc := range []struct {
		name   string
		node   rules.Node
		client *corev3.Node
		change func(*corev3.Node)
	}{
		{"id", rules.Node{ID: `"relay-" + node.cluster`}, client, func(n *corev3.Node) { n.Id = "relay-web" }},
		{"cluster from metadata", rules.Node{Cluster: `node.metadata.role`}, client, func(n *corev3.Node) { n.Cluster = "sidecar" }},
		{"zone", rules.Node{Locality: rules.Locality{Zone: `node.locality.region + "b"`}}, client, func(n *corev3.Node) { n.Locality.Zone = "eu-1b" }},
		{
			"whole locality", rules.Node{Locality: rules.Locality{Region: `"r"`, Zone: `"z"`, SubZone: `"s"`}}, client,
			func(n *corev3.Node) { n.Locality = &corev3.Locality{Region: "r", Zone: "z", SubZone: "s"} },
		},
		{"no metadata", rules.Node{Metadata: map[string]string{}}, client, func(n *corev3.Node) { n.Metadata = &structpb.Struct{} }},
		{
			"metadata",
			rules.Node{Metadata: map[string]string{
				"text": `node.id`, "number": `node.metadata.shard`, "list": `node.metadata.ports`, "map": `{"a": {"b": [null, true]}}`,
				"given": `node.metadata[?"role"]`, "missing": `node.metadata[?"missing"]`, "with.dot": `name`,
			}},
			client,
			func(n *corev3.Node) {
				var err error
				n.Metadata, err = structpb.NewStruct(map[string]any{
					"text": "gw-web-17", "number": 3, "list": []any{80, 443}, "map": map[string]any{"a": map[string]any{"b": []any{nil, true}}},
					"given": "sidecar", "with.dot": "a",
				})
				if err != nil {
					t.Fatal(err)
				}
			},
		},
		{"no node", rules.Node{ID: `"relay"`, Locality: rules.Locality{Zone: `type`}}, nil, func(n *corev3.Node) {
			n.Id, n.Locality = "relay", &corev3.Locality{Zone: clusterURL}
		}},
	} {
		t.Run("AGG-3 "+tc.name, func(t *testing.T) {
			set := compile(t, rules.Config{Rules: []rules.Rule{{Name: "r", Match: "true", Node: tc.node}}})
			before := proto.Clone(tc.client)
			d, err := set.Subject(tc.client, keyer.Peer{}).DecideName(clusterURL, "a")
			if err != nil || d.Failed != nil {
				t.Fatalf("Decide = %+v, %v", d, err)
			}
			want := &corev3.Node{}
			proto.Merge(want, tc.client)
			tc.change(want)
			if diff := cmp.Diff(want, d.Node, protocmp.Transform()); diff != "" {
				t.Errorf("AGG-3: node (-want +got):\n%s", diff)
			}
			if !proto.Equal(before, tc.client) {
				t.Errorf("AGG-3: the client's node was changed: %v", tc.client)
			}
			if len(d.Template) != 16 || d.Scope != "r[]" {
				t.Errorf("AGG-3: template %q of scope %s", d.Template, d.Scope)
			}
		})
	}
}

// AGG-3: templates are equal exactly if they build the same nodes.
func TestAGG3Template(t *testing.T) {
	of := func(upstream string, node rules.Node) string {
		set := compile(t, rules.Config{Upstream: upstream, Rules: []rules.Rule{{Name: "r", Match: "true", Node: node}}})
		d, _, err := set.Subject(sidecar(t), keyer.Peer{}).Decide(clusterURL)
		if err != nil || d.Failed != nil {
			t.Fatalf("Decide = %+v, %v", d, err)
		}
		return d.Template
	}
	if got := of("a", rules.Node{}); got != "" {
		t.Errorf("AGG-3: template %q of the client's own node", got)
	}
	id := rules.Node{ID: `node.cluster`}
	if of("a", id) != of("b", id) {
		t.Error("AGG-3: another default upstream changes a template that does not look at it")
	}
	seen := map[string]int{}
	for i, got := range []string{
		of("a", id),
		of("a", rules.Node{Cluster: `node.cluster`}),
		of("a", rules.Node{ID: `node.id`}),
		of("a", rules.Node{ID: `upstream`}),
		of("b", rules.Node{ID: `upstream`}),
		of("a", rules.Node{Metadata: map[string]string{}}),
		of("a", rules.Node{Metadata: map[string]string{"a": `node.cluster`}}),
		of("a", rules.Node{Metadata: map[string]string{"b": `node.cluster`}}),
	} {
		if other, ok := seen[got]; ok {
			t.Errorf("AGG-3: the nodes %d and %d have the template %q", other, i, got)
		}
		seen[got] = i
	}
}
