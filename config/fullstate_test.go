package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRES2_FullStateTypeURLs(t *testing.T) {
	const (
		listener, listener2 = "type.googleapis.com/envoy.config.listener.v3.Listener", "type.googleapis.com/envoy.api.v2.Listener"
		cluster, cluster2   = "type.googleapis.com/envoy.config.cluster.v3.Cluster", "type.googleapis.com/envoy.api.v2.Cluster"
		scoped, scoped2     = "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration", "type.googleapis.com/envoy.api.v2.ScopedRouteConfiguration"

		endpoints, endpoints2 = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment", "type.googleapis.com/envoy.api.v2.ClusterLoadAssignment"
	)
	for _, tt := range []struct {
		name, file string
		want       []string
	}{
		{"the default", minimal, []string{listener, listener2, cluster, cluster2, scoped, scoped2}},
		{"short names in any case", minimal + "full_state_types: [CDS, eds]\n", []string{cluster, cluster2, endpoints, endpoints2}},
		{"type URLs", minimal + "full_state_types: [" + listener + ", example.com/any/prefix/x.Y]\n", []string{listener, listener2, "example.com/any/prefix/x.Y"}},
		{"a v2 form by itself", minimal + "full_state_types: [" + cluster2 + "]\n", []string{cluster2}},
		{"a v2 form beside its type", minimal + "full_state_types: [" + cluster2 + ", cds]\n", []string{cluster2, cluster}},
		{"more than the default has", minimal + "full_state_types: [lds, cds, srds, eds]\n", []string{listener, listener2, cluster, cluster2, scoped, scoped2, endpoints, endpoints2}},
		{"none", minimal + "full_state_types: []\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, mustParse(t, tt.file).FullStateTypeURLs()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
