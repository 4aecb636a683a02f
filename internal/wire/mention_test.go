package wire

import (
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	aggregatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/aggregate/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/xds"
)

func mentionsOf(t *testing.T, typeURL string, value []byte) []string {
	t.Helper()
	r, err := NewResource(&discoveryv3.Resource{Name: "r", Resource: &anypb.Any{TypeUrl: typeURL, Value: value}})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	r.Mentions(func(name string) bool {
		all = append(all, strings.Clone(name))
		return true
	})
	for n := range all { // whoever found what it looks for stops
		seen := 0
		r.Mentions(func(string) bool {
			seen++
			return seen <= n
		})
		if seen != n+1 {
			t.Errorf("told of %d after %d were enough", seen, n+1)
		}
	}
	if n := testing.AllocsPerRun(100, func() { r.Mentions(func(string) bool { return true }) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
	return all
}

// Whatever a resource may refer to is told of, and what names itself is not (SUB-11).
func TestMentions_SUB11(t *testing.T) {
	packed := func(m proto.Message) *anypb.Any {
		a, err := anypb.New(m)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	route := func(name, cluster, mirror string) *routev3.RouteConfiguration {
		return &routev3.RouteConfiguration{
			Name: name,
			VirtualHosts: []*routev3.VirtualHost{{Name: name, Domains: []string{name, "*"}, Routes: []*routev3.Route{{
				Action: &routev3.Route_Route{Route: &routev3.RouteAction{
					ClusterSpecifier:      &routev3.RouteAction_Cluster{Cluster: cluster},
					RequestMirrorPolicies: []*routev3.RouteAction_RequestMirrorPolicy{{Cluster: mirror}},
				}},
			}}}},
		}
	}
	listener := func(m *hcmv3.HttpConnectionManager) *listenerv3.Listener {
		return &listenerv3.Listener{Name: "self", FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: "hcm", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(m)},
		}}}}}
	}
	for _, tc := range []struct {
		name string
		of   proto.Message
		want []string
	}{
		{"clusters of routes", route("self", "c1", "c2"), []string{"c1", "c2"}},
		{"routes of listeners", listener(&hcmv3.HttpConnectionManager{
			RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: "r1"}},
		}), []string{"hcm", "r1"}},
		{"clusters of listeners", listener(&hcmv3.HttpConnectionManager{
			RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: route("inline", "c1", "c2")},
		}), []string{"hcm", "c1", "c2"}},
		{"clusters of aggregates", &clusterv3.Cluster{Name: "self", ClusterDiscoveryType: &clusterv3.Cluster_ClusterType{
			ClusterType: &clusterv3.Cluster_CustomClusterType{
				Name: "aggregate", TypedConfig: packed(&aggregatev3.ClusterConfig{Clusters: []string{"c1", "c2"}}),
			},
		}}, []string{"aggregate", "c1", "c2"}},
		{"routes of scoped routes", &routev3.ScopedRouteConfiguration{Name: "self", RouteConfigurationName: "r1"}, []string{"r1"}},
		{"nothing", &clusterv3.Cluster{Name: "self"}, nil},
	} {
		t.Run("SUB-11 "+tc.name, func(t *testing.T) {
			a := packed(tc.of)
			got := mentionsOf(t, a.GetTypeUrl(), a.GetValue())
			for _, name := range tc.want {
				if !slices.Contains(got, name) {
					t.Errorf("%q is not told of, only %q", name, got)
				}
			}
			if slices.Contains(got, "self") || (tc.want == nil && len(got) > 0) {
				t.Errorf("%q is told of", got)
			}
		})
	}
	t.Run("SUB-11 garbage, and what is too long or too deep for a name", func(t *testing.T) {
		field := func(b []byte) []byte {
			return protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), b)
		}
		if got := mentionsOf(t, xds.ClusterType, []byte("\x12\x03\xff\xff\xff\x1a\xff")); !slices.Equal(got, []string{"\xff\xff\xff"}) {
			t.Errorf("%q", got)
		}
		long := field([]byte(strings.Repeat("x", maxMention+1)))
		if got := mentionsOf(t, xds.ClusterType, long); len(got) > 0 {
			t.Errorf("%q", got)
		}
		deep := []byte("name")
		for range maxMentionDepth + 2 {
			deep = field(deep)
		}
		if got := mentionsOf(t, xds.ClusterType, deep); slices.Contains(got, "name") {
			t.Errorf("%q", got)
		}
		if got := mentionsOf(t, xds.ClusterType, deep[len(deep)-len(field(field([]byte("name")))):]); !slices.Contains(got, "name") {
			t.Errorf("%q", got)
		}
	})
}
