package wire_test

import (
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// An assignment without endpoints counts as removed (SUR-3).
func TestHasEndpoints_SUR3(t *testing.T) {
	locality := func(l *endpointv3.LocalityLbEndpoints) *endpointv3.ClusterLoadAssignment {
		return &endpointv3.ClusterLoadAssignment{ClusterName: "c", Endpoints: []*endpointv3.LocalityLbEndpoints{{}, l}}
	}
	for name, c := range map[string]struct {
		of   *endpointv3.ClusterLoadAssignment
		want bool
	}{
		"nothing":                      {&endpointv3.ClusterLoadAssignment{ClusterName: "c"}, false},
		"no localities with endpoints": {locality(&endpointv3.LocalityLbEndpoints{Priority: 1}), false},
		"an endpoint":                  {locality(&endpointv3.LocalityLbEndpoints{LbEndpoints: []*endpointv3.LbEndpoint{{}}}), true},
		"a list of them": {locality(&endpointv3.LocalityLbEndpoints{LbConfig: &endpointv3.LocalityLbEndpoints_LoadBalancerEndpoints{
			LoadBalancerEndpoints: &endpointv3.LocalityLbEndpoints_LbEndpointList{}, //nolint:staticcheck // deprecated, and servers send it
		}}), true},
		"a collection": {locality(&endpointv3.LocalityLbEndpoints{LbConfig: &endpointv3.LocalityLbEndpoints_LedsClusterLocalityConfig{
			LedsClusterLocalityConfig: &endpointv3.LedsClusterLocalityConfig{},
		}}), true},
	} {
		a, err := anypb.New(c.of)
		if err != nil {
			t.Fatal(err)
		}
		r, err := wire.NewResource(&discovery.Resource{Name: "c", Resource: a})
		if err != nil {
			t.Fatal(err)
		}
		if is := r.HasEndpoints(); is != c.want {
			t.Errorf("%s: %t", name, is)
		}
	}
}

func TestFromRelay_STR10(t *testing.T) {
	for id, want := range map[string]bool{
		"": false, "istiod": false, "xdsrelay/a": true, "istiod via xdsrelay/a": true,
		"xdsrelay/a via xdsrelay/b": true, "xdsrelay/a via something": false, "notxdsrelay/a": false,
	} {
		if is := wire.FromRelay(id); is != want {
			t.Errorf("%q: %t", id, is)
		}
	}
}
