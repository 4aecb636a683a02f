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
			set := compile(t, rules.Config{Rules: []rules.Rule{{Name: "r", Match: "true", Scope: []string{"name", "type"}, Node: tc.node}}})
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
			if len(d.Basis) != 16 || d.Scope != `r["a","`+clusterURL+`"]` {
				t.Errorf("AGG-3: basis %q of scope %s", d.Basis, d.Scope)
			}
		})
	}
}
