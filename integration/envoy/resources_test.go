package envoy

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// resources makes the resources of a play, which name each other over one source.
type resources struct {
	variant envoyproc.Variant
	// fetch is how long an Envoy waits for what a resource names; 0 is 15 s, and a
	// negative one for ever.
	fetch time.Duration
}

func (r resources) source() *corev3.ConfigSource { return r.variant.Source(r.fetch) }

// listener takes requests on a port of the Envoy's choice, and has its routes over RDS.
func (r resources) listener(name, route string) *listenerv3.Listener {
	return onPort(name, 0, &hcmv3.HttpConnectionManager{
		StatPrefix: name,
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			ConfigSource: r.source(), RouteConfigName: route,
		}},
	})
}

// filter is an HTTP filter with its configuration.
func filter(name string, config proto.Message) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: envoyproc.Any(config)}}
}

// onPort is a listener with an HTTP connection manager, to which it adds the router.
func onPort(name string, port uint32, manager *hcmv3.HttpConnectionManager) *listenerv3.Listener {
	manager.HttpFilters = append(manager.HttpFilters, filter("router", &routerv3.Router{}))
	address := envoyproc.Address("127.0.0.1:0")
	address.GetSocketAddress().PortSpecifier = &corev3.SocketAddress_PortValue{PortValue: port}
	return &listenerv3.Listener{
		Name: name, Address: address,
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: "http", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: envoyproc.Any(manager)},
		}}}},
	}
}

// route sends every request to one cluster.
func route(name, cluster string) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{toCluster("all", cluster, "*")}}
}

// toCluster is a virtual host that sends every request to one cluster.
func toCluster(name, cluster string, domains ...string) *routev3.VirtualHost {
	return &routev3.VirtualHost{
		Name: name, Domains: domains,
		Routes: []*routev3.Route{{
			Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
			Action: &routev3.Route_Route{Route: &routev3.RouteAction{
				ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster},
			}},
		}},
	}
}

// cluster has its endpoints over EDS, under its own name.
func (r resources) cluster(name string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: r.source()},
		ConnectTimeout:       durationpb.New(time.Second),
	}
}

// endpoints are a cluster's.
func endpoints(cluster string, addrs ...string) *endpointv3.ClusterLoadAssignment {
	return envoyproc.Assignment(cluster, addrs...)
}
