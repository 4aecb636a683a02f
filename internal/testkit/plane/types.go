package plane

import (
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	runtimev3 "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	"google.golang.org/protobuf/proto"
)

// The type URLs of the resources that Envoys ask for.
const (
	prefix = "type.googleapis.com/"

	Listener    = prefix + "envoy.config.listener.v3.Listener"
	Route       = prefix + "envoy.config.route.v3.RouteConfiguration"
	ScopedRoute = prefix + "envoy.config.route.v3.ScopedRouteConfiguration"
	VirtualHost = prefix + "envoy.config.route.v3.VirtualHost"
	Cluster     = prefix + "envoy.config.cluster.v3.Cluster"
	Endpoints   = prefix + "envoy.config.endpoint.v3.ClusterLoadAssignment"
	Secret      = prefix + "envoy.extensions.transport_sockets.tls.v3.Secret"
	Runtime     = prefix + "envoy.service.runtime.v3.Runtime"

	wrapper = prefix + "envoy.service.discovery.v3.Resource"
)

// fullState has the types of which a state-of-the-world response is the whole list.
func fullState(typeURL string) bool {
	return typeURL == Listener || typeURL == Cluster || typeURL == ScopedRoute
}

// Named makes a Resource of a message under the name that the message has itself.
func Named(message proto.Message) Resource {
	return Resource{Name: nameOf(message), Message: message}
}

// nameOf is the name of a message of the types above.
func nameOf(message proto.Message) string {
	switch m := message.(type) {
	case *listenerv3.Listener:
		return m.GetName()
	case *routev3.RouteConfiguration:
		return m.GetName()
	case *routev3.ScopedRouteConfiguration:
		return m.GetName()
	case *routev3.VirtualHost:
		return m.GetName()
	case *clusterv3.Cluster:
		return m.GetName()
	case *endpointv3.ClusterLoadAssignment:
		return m.GetClusterName()
	case *tlsv3.Secret:
		return m.GetName()
	case *runtimev3.Runtime:
		return m.GetName()
	case *corev3.TypedExtensionConfig:
		return m.GetName()
	default:
		panic(fmt.Sprintf("plane: %T has no name that is known", message))
	}
}

func typeOf(message proto.Message) string {
	return prefix + string(message.ProtoReflect().Descriptor().FullName())
}

// serviceName is the name of the endpoints that a Cluster asks for.
func serviceName(c *clusterv3.Cluster) string {
	if name := c.GetEdsClusterConfig().GetServiceName(); name != "" {
		return name
	}
	return c.GetName()
}
