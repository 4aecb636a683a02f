package watch

import (
	"fmt"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
)

func TestSubscriptions(t *testing.T) {
	const glob = "xdstp://auth/envoy.config.cluster.v3.Cluster/dir/*"
	for _, tt := range []struct {
		types, names []string
		want         []Subscription
		err          string
	}{
		{types: []string{"cds", "envoy.config.listener.v3.Listener", "example.com/T"}, want: []Subscription{
			{TypeURL: resource.ClusterType}, {TypeURL: resource.ListenerType}, {TypeURL: "example.com/T"},
		}},
		{types: []string{"CDS", "eds", "cds"}, names: []string{"a", "b"}, want: []Subscription{
			{TypeURL: resource.ClusterType, Names: []string{"a", "b"}}, {TypeURL: resource.EndpointType, Names: []string{"a", "b"}},
		}},
		{names: []string{glob}, want: []Subscription{{TypeURL: resource.ClusterType, Names: []string{glob}}}},
		{types: []string{"lds"}, names: []string{glob}, want: []Subscription{
			{TypeURL: resource.ListenerType}, {TypeURL: resource.ClusterType, Names: []string{glob}},
		}},
		{types: []string{"lds"}, names: []string{glob, "a"}, want: []Subscription{
			{TypeURL: resource.ListenerType, Names: []string{"a"}}, {TypeURL: resource.ClusterType, Names: []string{glob}},
		}},
		{err: "no type to watch"},
		{names: []string{"a"}, err: `the name "a" does not tell its type`},
		{types: []string{"xds"}, err: `unknown type "xds": expected a type URL or one of lds, rds`},
		{names: []string{"xdstp://auth"}, err: "the resource type is missing"},
	} {
		t.Run(fmt.Sprint(tt.types, tt.names), func(t *testing.T) {
			got, err := Subscriptions(tt.types, tt.names)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseNode(t *testing.T) {
	want := &corev3.Node{
		Id: "n", Cluster: "c", UserAgentName: "envoy", Locality: &corev3.Locality{Zone: "z"},
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"x": structpb.NewNumberValue(1)}},
	}
	for _, text := range []string{
		"id: n\ncluster: c\nuser_agent_name: envoy\nlocality: {zone: z}\nmetadata: {x: 1}\n",
		`{"id": "n", "cluster": "c", "userAgentName": "envoy", "locality": {"zone": "z"}, "metadata": {"x": 1}}`,
	} {
		got, err := ParseNode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	for text, want := range map[string]string{
		"":               "the node is empty",
		"id: [":          "yaml",
		"name: n":        "unknown field",
		"id: 1":          "invalid value",
		"1: n":           "keys that are not text",
		"- id: n":        "unexpected token",
		"metadata: text": "unexpected token",
	} {
		if _, err := ParseNode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}
