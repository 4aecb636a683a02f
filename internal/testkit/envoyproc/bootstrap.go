package envoyproc

import (
	"net/netip"
	"strings"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// xdsCluster is the static cluster of the control plane, or of the relay.
const xdsCluster = "xds"

// Variant is the form of the protocol that an Envoy speaks. The zero value is the
// state of the world, aggregated.
type Variant struct {
	Delta   bool // incremental
	PerType bool // a stream for each type
	REST    bool // polls; excludes the others
}

// apiType is the variant as configuration sources name it.
func (v Variant) apiType() corev3.ApiConfigSource_ApiType {
	switch {
	case v.REST:
		return corev3.ApiConfigSource_REST
	case v.Delta:
		return corev3.ApiConfigSource_DELTA_GRPC
	default:
		return corev3.ApiConfigSource_GRPC
	}
}

// Source is the configuration source of the variant, for bootstraps and for the
// resources that name others. fetch is how long the Envoy waits for the first answer
// (initial_fetch_timeout); 0 leaves its default of 15 s, a negative one waits for ever.
func (v Variant) Source(fetch time.Duration) *corev3.ConfigSource {
	s := &corev3.ConfigSource{ResourceApiVersion: corev3.ApiVersion_V3}
	switch {
	case fetch > 0:
		s.InitialFetchTimeout = durationpb.New(fetch)
	case fetch < 0:
		s.InitialFetchTimeout = durationpb.New(0)
	}
	if v.PerType || v.REST {
		s.ConfigSourceSpecifier = &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: v.api(xdsCluster)}
	} else {
		s.ConfigSourceSpecifier = &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}
	}
	return s
}

// api is where and how the variant is spoken.
func (v Variant) api(clusters ...string) *corev3.ApiConfigSource {
	a := &corev3.ApiConfigSource{ApiType: v.apiType(), TransportApiVersion: corev3.ApiVersion_V3}
	if v.REST {
		a.ClusterNames = clusters
		a.RefreshDelay = durationpb.New(100 * time.Millisecond)
		a.RequestTimeout = durationpb.New(time.Minute) // longer than servers hold polls
		return a
	}
	a.SetNodeOnFirstMessageOnly = true
	for _, cluster := range clusters {
		a.GrpcServices = append(a.GrpcServices, Service(cluster))
	}
	return a
}

// Service is an xDS server at a static cluster.
func Service(cluster string) *corev3.GrpcService {
	return &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
		EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster},
	}}
}

// Bootstrap makes the bootstrap of an Envoy with the node id that finds listeners and
// clusters over xDS at one of the addresses.
func (v Variant) Bootstrap(id string, addrs ...string) *bootstrapv3.Bootstrap {
	b := &bootstrapv3.Bootstrap{
		Node:  &corev3.Node{Id: id, Cluster: "fleet"},
		Admin: &bootstrapv3.Admin{Address: Address("127.0.0.1:0")},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{
			Clusters: []*clusterv3.Cluster{v.ServerCluster(xdsCluster, addrs...)},
		},
		DynamicResources: &bootstrapv3.Bootstrap_DynamicResources{LdsConfig: v.Source(0), CdsConfig: v.Source(0)},
	}
	if !v.PerType && !v.REST {
		b.DynamicResources.AdsConfig = v.api(xdsCluster)
	}
	return b
}

// ServerCluster is the static cluster of an xDS server, at one or several addresses.
func (v Variant) ServerCluster(name string, addrs ...string) *clusterv3.Cluster {
	c := Static(name, addrs...)
	c.ConnectTimeout = durationpb.New(time.Second)
	if v.REST {
		return c
	}
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{
		"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": Any(&httpv3.HttpProtocolOptions{
			UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
				ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
					ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
						Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
							ConnectionKeepalive: &corev3.KeepaliveSettings{
								Interval: durationpb.New(30 * time.Second), Timeout: durationpb.New(5 * time.Second),
							},
						},
					},
				},
			},
		}),
	}
	return c
}

// Static is a cluster whose endpoints are in it.
func Static(name string, addrs ...string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment: Assignment(name, addrs...),
	}
}

// Assignment is a ClusterLoadAssignment of endpoints in one locality.
func Assignment(name string, addrs ...string) *endpointv3.ClusterLoadAssignment {
	locality := &endpointv3.LocalityLbEndpoints{LoadBalancingWeight: wrapperspb.UInt32(1)}
	for _, addr := range addrs {
		locality.LbEndpoints = append(locality.LbEndpoints, &endpointv3.LbEndpoint{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: Address(addr)}},
		})
	}
	return &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{locality}}
}

// Address is host:port, or unix:///path, as Envoy's configuration has it.
func Address(addr string) *corev3.Address {
	if path, is := strings.CutPrefix(addr, "unix://"); is {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
	}
	at := netip.MustParseAddrPort(addr)
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: at.Addr().String(), PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(at.Port())},
	}}}
}

// Any packs a message. A message that cannot be packed is a mistake of the test, and
// panics.
func Any(m proto.Message) *anypb.Any {
	a, err := anypb.New(m)
	if err != nil {
		panic(err)
	}
	return a
}
