package watch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
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
		{types: []string{"xds"}, err: `unknown type "xds": expected a type URL or one of lds, fcds, rds`},
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
