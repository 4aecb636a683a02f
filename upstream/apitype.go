package upstream

import (
	"fmt"
	"slices"

	clusterservice "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	extensionservice "github.com/envoyproxy/go-control-plane/envoy/service/extension/v3"
	listenerservice "github.com/envoyproxy/go-control-plane/envoy/service/listener/v3"
	routeservice "github.com/envoyproxy/go-control-plane/envoy/service/route/v3"
	runtimeservice "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	secretservice "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// APIType says which variant of the protocol a control plane speaks, in the words of
// envoy.config.core.v3.ApiConfigSource.
type APIType string

// The variants that an Upstream speaks.
const (
	AggregatedDeltaGRPC APIType = "AGGREGATED_DELTA_GRPC" // VAR-4
	AggregatedGRPC      APIType = "AGGREGATED_GRPC"       // VAR-3
	DeltaGRPC           APIType = "DELTA_GRPC"            // VAR-2
	GRPC                APIType = "GRPC"                  // VAR-1
)

// APITypes returns every variant.
func APITypes() []APIType { return []APIType{AggregatedDeltaGRPC, AggregatedGRPC, DeltaGRPC, GRPC} }

// State says that responses are the state of the world, and not what changed.
func (a APIType) State() bool { return a == AggregatedGRPC || a == GRPC }

// PerType says that each type has a stream, and a service, of its own.
func (a APIType) PerType() bool { return a == DeltaGRPC || a == GRPC }

func (a APIType) check() error {
	if !slices.Contains(APITypes(), a) {
		return fmt.Errorf("API type %q is none of %v", a, APITypes())
	}
	return nil
}

// method is the gRPC method that carries a stream; "" if there is none, as for a
// type that has no service.
func (a APIType) method(id wire.StreamID) string {
	switch a {
	case AggregatedDeltaGRPC:
		return discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName
	case AggregatedGRPC:
		return discoveryv3.AggregatedDiscoveryService_StreamAggregatedResources_FullMethodName
	}
	short := keyer.ShortName(id.TypeURL)
	if short == id.TypeURL {
		return ""
	}
	m := methods[short]
	if a == GRPC {
		return m.state
	}
	return m.delta
}

// methods are those of the types that have services, by the types' short names.
var methods = map[string]struct{ state, delta string }{
	"lds": {
		listenerservice.ListenerDiscoveryService_StreamListeners_FullMethodName,
		listenerservice.ListenerDiscoveryService_DeltaListeners_FullMethodName,
	},
	"rds": {
		routeservice.RouteDiscoveryService_StreamRoutes_FullMethodName,
		routeservice.RouteDiscoveryService_DeltaRoutes_FullMethodName,
	},
	"srds": {
		routeservice.ScopedRoutesDiscoveryService_StreamScopedRoutes_FullMethodName,
		routeservice.ScopedRoutesDiscoveryService_DeltaScopedRoutes_FullMethodName,
	},
	"vhds": {delta: routeservice.VirtualHostDiscoveryService_DeltaVirtualHosts_FullMethodName},
	"cds": {
		clusterservice.ClusterDiscoveryService_StreamClusters_FullMethodName,
		clusterservice.ClusterDiscoveryService_DeltaClusters_FullMethodName,
	},
	"eds": {
		endpointservice.EndpointDiscoveryService_StreamEndpoints_FullMethodName,
		endpointservice.EndpointDiscoveryService_DeltaEndpoints_FullMethodName,
	},
	"sds": {
		secretservice.SecretDiscoveryService_StreamSecrets_FullMethodName,
		secretservice.SecretDiscoveryService_DeltaSecrets_FullMethodName,
	},
	"rtds": {
		runtimeservice.RuntimeDiscoveryService_StreamRuntime_FullMethodName,
		runtimeservice.RuntimeDiscoveryService_DeltaRuntime_FullMethodName,
	},
	"ecds": {
		extensionservice.ExtensionConfigDiscoveryService_StreamExtensionConfigs_FullMethodName,
		extensionservice.ExtensionConfigDiscoveryService_DeltaExtensionConfigs_FullMethodName,
	},
}
