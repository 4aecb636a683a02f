package integration

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// naming is how resources are named: plain, or with an authority as xdstp names.
type naming struct{ authority string }

func (n naming) String() string {
	if n.authority == "" {
		return "plain names"
	}
	return "xdstp names"
}

// of gives the name of a resource.
func (n naming) of(typeURL, id string) string {
	if n.authority == "" {
		return id
	}
	return "xdstp://" + n.authority + "/" + strings.TrimPrefix(typeURL, "type.googleapis.com/") + "/" + id
}

// target is what a gRPC client dials to have the listener id.
func (n naming) target(id string) string { return "xds://" + n.authority + "/" + id }

// bootstrap makes the file that gRPC clients read: node is the client's ID, addrs
// are the addresses of the servers, the first choice first.
func (n naming) bootstrap(t testing.TB, node string, addrs ...string) []byte {
	t.Helper()
	type object = map[string]any
	servers := func(addrs ...string) []object {
		var list []object
		for _, addr := range addrs {
			list = append(list, object{
				"server_uri": addr, "channel_creds": []object{{"type": "insecure"}}, "server_features": []string{"xds_v3"},
			})
		}
		return list
	}
	file := object{
		"node":        object{"id": node, "locality": object{"region": "here"}}, // grpc-js needs a locality
		"xds_servers": servers(addrs...),
	}
	if n.authority != "" {
		// The default server is nobody: what is not asked of the authority's fails.
		file["xds_servers"] = servers(noServer)
		file["authorities"] = object{n.authority: object{
			"xds_servers":                            servers(addrs...),
			"client_listener_resource_name_template": n.of(listenerType, "%s"),
		}}
	}
	encoded, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// noServer is an address at which nobody listens.
const noServer = "127.0.0.1:1"

// overADS is the source of everything that gRPC clients discover.
func overADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
	}
}

// packed is m as google.protobuf.Any; it cannot fail for messages of the tests.
func packed(m proto.Message) *anypb.Any {
	a, err := anypb.New(m)
	if err != nil {
		panic(err)
	}
	return a
}

// listener is a gRPC client's view of a service, whose routes come over RDS.
func (n naming) listener(id, route string) *listenerv3.Listener {
	return &listenerv3.Listener{
		Name: n.of(listenerType, id),
		ApiListener: &listenerv3.ApiListener{ApiListener: packed(&hcmv3.HttpConnectionManager{
			RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
				ConfigSource: overADS(), RouteConfigName: n.of(routeType, route),
			}},
			HttpFilters: []*hcmv3.HttpFilter{{
				Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(&routerv3.Router{})},
			}},
		})},
	}
}

// route sends every RPC to one cluster.
func (n naming) route(id, cluster string) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{
		Name: n.of(routeType, id),
		VirtualHosts: []*routev3.VirtualHost{{
			Name: "all", Domains: []string{"*"},
			Routes: []*routev3.Route{{
				Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{}},
				Action: &routev3.Route_Route{Route: &routev3.RouteAction{
					ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: n.of(clusterType, cluster)},
				}},
			}},
		}},
	}
}

// cluster has its endpoints from EDS, under a name of their own: xdstp clusters
// need one.
func (n naming) cluster(id, endpoints string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 n.of(clusterType, id),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: overADS(), ServiceName: n.of(endpointType, endpoints)},
		LbPolicy:             clusterv3.Cluster_ROUND_ROBIN,
	}
}

// endpoints are backends, given by their addresses.
func (n naming) endpoints(id string, addrs ...string) *endpointv3.ClusterLoadAssignment {
	locality := &endpointv3.LocalityLbEndpoints{
		Locality: &corev3.Locality{Region: "here"}, LoadBalancingWeight: wrapperspb.UInt32(1),
	}
	for _, addr := range addrs {
		at := netip.MustParseAddrPort(addr)
		locality.LbEndpoints = append(locality.LbEndpoints, &endpointv3.LbEndpoint{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
				Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
					Address: at.Addr().String(), PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(at.Port())},
				}}},
			}},
		})
	}
	return &endpointv3.ClusterLoadAssignment{
		ClusterName: n.of(endpointType, id), Endpoints: []*endpointv3.LocalityLbEndpoints{locality},
	}
}
