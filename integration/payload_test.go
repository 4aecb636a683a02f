package integration

import (
	"fmt"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	runtimev3 "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// payloadOf is a payload of a type that nobody knows: its name in field 1, where
// every resource type has it, and a field that must come through (VAR-8).
func payloadOf(name string, version int) []byte {
	b := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	return appendUnknown(b, version)
}

// appendUnknown adds a field that no type knows.
func appendUnknown(b []byte, version int) []byte {
	b = protowire.AppendTag(b, 1023, protowire.BytesType)
	return protowire.AppendString(b, fmt.Sprintf("%08d", version))
}

// contents encodes a resource that says its version in a field of its type, so
// that it differs from others in JSON too. target is the cluster that a route
// leads to.
func contents(typeURL, name, version, target string) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(message(typeURL, name, version, target))
	if err != nil {
		panic(err) // made here, from valid parts
	}
	return b
}

func message(typeURL, name, version, target string) proto.Message {
	switch typeURL {
	case clusterType:
		return &clusterv3.Cluster{Name: name, AltStatName: version}
	case endpointType:
		return &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{
			{Locality: &corev3.Locality{Region: version}},
		}}
	case lbEndpointType:
		return &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_EndpointName{EndpointName: version}}
	case listenerType:
		return &listenerv3.Listener{Name: name, StatPrefix: version}
	case routeType:
		return &routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{routeTo(target, version)}}
	case scopedRouteType:
		return &routev3.ScopedRouteConfiguration{Name: name, RouteConfigurationName: version}
	case virtualHostType:
		return &routev3.VirtualHost{Name: name, Domains: []string{version}}
	case secretType:
		return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_GenericSecret{GenericSecret: &tlsv3.GenericSecret{
			Secret: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: version}},
		}}}
	case runtimeType:
		return &runtimev3.Runtime{Name: name, Layer: &structpb.Struct{
			Fields: map[string]*structpb.Value{"version": structpb.NewStringValue(version)},
		}}
	case extensionConfigType:
		value, err := anypb.New(wrapperspb.String(version))
		if err != nil {
			panic(err) // a string value always encodes
		}
		return &corev3.TypedExtensionConfig{Name: name, TypedConfig: value}
	}
	return nil
}

// locatorTo encodes a redirect to a name, which has neither parameters nor directives.
func locatorTo(target string) []byte {
	n, err := keyer.Parse(target)
	if err != nil {
		panic(err) // a name in a test
	}
	b, err := proto.Marshal(&xdscorev3.ResourceLocator{Authority: n.Authority, ResourceType: n.Type, Id: n.ID})
	if err != nil {
		panic(err) // made here, from valid parts
	}
	return b
}

func routeTo(target, version string) *routev3.VirtualHost {
	h := &routev3.VirtualHost{Name: version, Domains: []string{"*"}}
	if target != "" {
		h.Routes = []*routev3.Route{{
			Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
			Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: target}}},
		}}
	}
	return h
}

// nameOf reads a resource's name out of its payload: field 1 of every type.
func nameOf(payload []byte) string {
	for len(payload) > 0 {
		number, kind, n := protowire.ConsumeTag(payload)
		if n < 0 {
			return ""
		}
		payload = payload[n:]
		if number == 1 && kind == protowire.BytesType {
			name, _ := protowire.ConsumeString(payload)
			return name
		}
		if n = protowire.ConsumeFieldValue(number, kind, payload); n < 0 {
			return ""
		}
		payload = payload[n:]
	}
	return ""
}

// targetsOf are the clusters that a RouteConfiguration's payload leads to.
func targetsOf(payload string) []string {
	var r routev3.RouteConfiguration
	if err := proto.Unmarshal([]byte(payload), &r); err != nil {
		return nil
	}
	var targets []string
	for _, h := range r.GetVirtualHosts() {
		for _, route := range h.GetRoutes() {
			targets = append(targets, route.GetRoute().GetCluster())
		}
	}
	return targets
}
