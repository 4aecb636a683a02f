package wire

import (
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/xds"
)

func TestClusterEndpoints_WARM3(t *testing.T) {
	eds := func(service string) *clusterv3.Cluster {
		return &clusterv3.Cluster{
			Name: "c", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
			EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{ServiceName: service, EdsConfig: &corev3.ConfigSource{}},
		}
	}
	for _, tc := range []struct {
		name    string
		payload proto.Message
		want    string
		ok      bool
	}{
		{"a service name", eds("s"), "s", true},
		{"none", eds(""), "c", true},
		{"no EDS configuration", &clusterv3.Cluster{
			Name: "c", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		}, "c", true},
		{"another name than the resource's", &clusterv3.Cluster{
			Name: "other", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		}, "other", true},
		{"a static cluster", &clusterv3.Cluster{Name: "c"}, "", false},
		{"a logical DNS cluster", &clusterv3.Cluster{
			Name: "c", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_LOGICAL_DNS},
		}, "", false},
		{"another type", &corev3.Node{Id: "c"}, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			payload, err := anypb.New(tc.payload)
			if err != nil {
				t.Fatal(err)
			}
			r, err := NewResource(&discoveryv3.Resource{Name: "c", Version: "1", Resource: payload})
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := r.ClusterEndpoints(); got != tc.want || ok != tc.ok {
				t.Errorf("%q, %t, want %q, %t", got, ok, tc.want, tc.ok)
			}
			if n := testing.AllocsPerRun(100, func() { r.ClusterEndpoints() }); n != 0 {
				t.Errorf("%g allocations", n)
			}
		})
	}
	t.Run("garbage", func(t *testing.T) {
		r, err := NewResource(&discoveryv3.Resource{Name: "c", Resource: &anypb.Any{TypeUrl: xds.ClusterType, Value: []byte("\x10\x03\x1a\xff")}})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := r.ClusterEndpoints(); ok {
			t.Error("endpoints of garbage")
		}
	})
	t.Run("without payload", func(t *testing.T) {
		r, err := NewResource(&discoveryv3.Resource{Name: "c"})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := r.ClusterEndpoints(); ok {
			t.Error("endpoints of nothing")
		}
	})
}
