package xdsclient

import (
	"fmt"

	clusterservice "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	extensionservice "github.com/envoyproxy/go-control-plane/envoy/service/extension/v3"
	listenerservice "github.com/envoyproxy/go-control-plane/envoy/service/listener/v3"
	routeservice "github.com/envoyproxy/go-control-plane/envoy/service/route/v3"
	runtimeservice "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	secretservice "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// Service says how a type is asked for by itself. What there is no way for is "".
type Service struct {
	State string // full name of the state-of-the-world method (VAR-1)
	Delta string // full name of the incremental method (VAR-2)
	REST  string // path to POST to (VAR-5)
}

// ServiceOf gives the service of a type; the zero Service where a type has none.
func ServiceOf(typeURL string) Service {
	switch typeURL {
	case resource.ListenerType:
		return Service{listenerservice.ListenerDiscoveryService_StreamListeners_FullMethodName, listenerservice.ListenerDiscoveryService_DeltaListeners_FullMethodName, resource.FetchListeners}
	case resource.RouteType:
		return Service{routeservice.RouteDiscoveryService_StreamRoutes_FullMethodName, routeservice.RouteDiscoveryService_DeltaRoutes_FullMethodName, resource.FetchRoutes}
	case resource.ScopedRouteType:
		return Service{routeservice.ScopedRoutesDiscoveryService_StreamScopedRoutes_FullMethodName, routeservice.ScopedRoutesDiscoveryService_DeltaScopedRoutes_FullMethodName, resource.FetchScopedRoutes}
	case resource.VirtualHostType:
		return Service{Delta: routeservice.VirtualHostDiscoveryService_DeltaVirtualHosts_FullMethodName}
	case resource.ClusterType:
		return Service{clusterservice.ClusterDiscoveryService_StreamClusters_FullMethodName, clusterservice.ClusterDiscoveryService_DeltaClusters_FullMethodName, resource.FetchClusters}
	case resource.EndpointType:
		return Service{endpointservice.EndpointDiscoveryService_StreamEndpoints_FullMethodName, endpointservice.EndpointDiscoveryService_DeltaEndpoints_FullMethodName, resource.FetchEndpoints}
	case resource.SecretType:
		return Service{secretservice.SecretDiscoveryService_StreamSecrets_FullMethodName, secretservice.SecretDiscoveryService_DeltaSecrets_FullMethodName, resource.FetchSecrets}
	case resource.RuntimeType:
		return Service{runtimeservice.RuntimeDiscoveryService_StreamRuntime_FullMethodName, runtimeservice.RuntimeDiscoveryService_DeltaRuntime_FullMethodName, resource.FetchRuntimes}
	case resource.ExtensionConfigType:
		return Service{extensionservice.ExtensionConfigDiscoveryService_StreamExtensionConfigs_FullMethodName, extensionservice.ExtensionConfigDiscoveryService_DeltaExtensionConfigs_FullMethodName, resource.FetchExtensionConfigs}
	default:
		return Service{}
	}
}

// UnservedError says that a variant has no way to ask for a type. No server can
// change that.
type UnservedError struct {
	TypeURL string
	Variant string // such as "incremental per-type"
}

func (e *UnservedError) Error() string {
	return fmt.Sprintf("%s cannot be asked for: there is no %s service for it", keyer.ShortName(e.TypeURL), e.Variant)
}
