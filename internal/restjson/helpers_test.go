package restjson

import (
	"net/http"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	compressorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/compressor/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	managerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	upstreamsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	runtimev3 "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const (
	// hush is what no error may quote.
	hush    = "hush-hush"
	unheard = resource.APITypePrefix + "example.Unheard"
)

// stored is a resource as another variant left it in the cache.
func stored(tb testing.TB, r *discoveryv3.Resource) *wire.Resource {
	tb.Helper()
	res, err := wire.NewResource(r)
	if err != nil {
		tb.Fatal(err)
	}
	return res
}

// decodeRequest reads and decodes a poll.
func decodeRequest(w http.ResponseWriter, r *http.Request, limit int64) (*discoveryv3.DiscoveryRequest, error) {
	in, err := ReadRequest(w, r, limit)
	if err != nil {
		return nil, err
	}
	return in.Decode()
}

func metadata() *corev3.Metadata {
	fields := map[string]*structpb.Value{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		fields[name] = structpb.NewStringValue("of " + name)
	}
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"one": {Fields: fields}, "two": {Fields: fields}}}
}

func address(port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: "192.0.2.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

func listener(name string) *listenerv3.Listener {
	manager := &managerv3.HttpConnectionManager{
		StatPrefix: "edge",
		RouteSpecifier: &managerv3.HttpConnectionManager_Rds{Rds: &managerv3.Rds{
			RouteConfigName: "r", ConfigSource: &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}},
		}},
		HttpFilters: []*managerv3.HttpFilter{
			{Name: "compressor", ConfigType: &managerv3.HttpFilter_TypedConfig{TypedConfig: encoded.Any(&compressorv3.Compressor{})}},
			{Name: "router", ConfigType: &managerv3.HttpFilter_TypedConfig{TypedConfig: encoded.Any(&routerv3.Router{SuppressEnvoyHeaders: true})}},
		},
	}
	return &listenerv3.Listener{
		Name: name, Address: address(8080), Metadata: metadata(),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{
			{Name: "manager", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: encoded.Any(manager)}},
		}}},
	}
}

func cluster(name string) *clusterv3.Cluster {
	options := &upstreamsv3.HttpProtocolOptions{UpstreamProtocolOptions: &upstreamsv3.HttpProtocolOptions_UseDownstreamProtocolConfig{
		UseDownstreamProtocolConfig: &upstreamsv3.HttpProtocolOptions_UseDownstreamHttpConfig{},
	}}
	return &clusterv3.Cluster{
		Name: name, ConnectTimeout: durationpb.New(250e6), Metadata: metadata(),
		ClusterDiscoveryType:          &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		TypedExtensionProtocolOptions: map[string]*anypb.Any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": encoded.Any(options)},
	}
}

func routes(name string) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{{
		Name: "v", Domains: []string{"*"},
		Routes: []*routev3.Route{{
			Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/<&>"}},
			Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: "c"}}},
		}},
	}}}
}

func endpoints(name string) *endpointv3.ClusterLoadAssignment {
	return &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{
		LoadBalancingWeight: wrapperspb.UInt32(7),
		LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
			Endpoint: &endpointv3.Endpoint{Address: address(9090)},
		}}},
	}}}
}

func secret(name string) *tlsv3.Secret {
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		PrivateKey: &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: []byte(hush)}},
	}}}
}

// one is a resource called "x" of each type of v3 that can be polled.
func one() map[string]proto.Message {
	return map[string]proto.Message{
		resource.ListenerType: listener("x"),
		resource.RouteType:    routes("x"),
		resource.ScopedRouteType: &routev3.ScopedRouteConfiguration{
			Name: "x", RouteConfigurationName: "r",
			Key: &routev3.ScopedRouteConfiguration_Key{Fragments: []*routev3.ScopedRouteConfiguration_Key_Fragment{
				{Type: &routev3.ScopedRouteConfiguration_Key_Fragment_StringKey{StringKey: "k"}},
			}},
		},
		resource.ClusterType:  cluster("x"),
		resource.EndpointType: endpoints("x"),
		resource.SecretType:   secret("x"),
		resource.RuntimeType: &runtimev3.Runtime{Name: "x", Layer: &structpb.Struct{Fields: map[string]*structpb.Value{
			"a": structpb.NewNumberValue(0.5), "b": structpb.NewNullValue(),
		}}},
		resource.ExtensionConfigType: &corev3.TypedExtensionConfig{Name: "x", TypedConfig: encoded.Any(&routerv3.Router{})},
	}
}
