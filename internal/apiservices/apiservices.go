// Package apiservices has the discovery services that resource types have of their own,
// as data: what serves, asks and polls reads its methods and paths here. It links no
// generated stubs.
package apiservices

import "slices"

const (
	typePrefix = "type.googleapis.com/"
	pathPrefix = "/v3/discovery:"

	// collectionSuffix makes the type of a list collection from that of its members.
	collectionSuffix = "Collection"
)

// Service is the discovery service of one resource type, and of the list collections
// of it (LIST-1). What it does not have is "".
type Service struct {
	TypeURL string
	Name    string // full name of the gRPC service
	State   string // its state-of-the-world method (VAR-1)
	Delta   string // its incremental method (VAR-2)
	Fetch   string // its unary method, which stands for Path
	Path    string // that it is polled at over REST (VAR-5)
}

// StateMethod is State as gRPC clients name it.
func (s Service) StateMethod() string { return s.full(s.State) }

// DeltaMethod is Delta as gRPC clients name it.
func (s Service) DeltaMethod() string { return s.full(s.Delta) }

func (s Service) full(method string) string {
	if method == "" {
		return ""
	}
	return "/" + s.Name + "/" + method
}

// all are in the order of the documents.
var all = [...]Service{
	{
		TypeURL: typePrefix + "envoy.config.listener.v3.Listener",
		Name:    "envoy.service.listener.v3.ListenerDiscoveryService",
		State:   "StreamListeners", Delta: "DeltaListeners", Fetch: "FetchListeners",
		Path: pathPrefix + "listeners",
	},
	{
		TypeURL: typePrefix + "envoy.config.route.v3.RouteConfiguration",
		Name:    "envoy.service.route.v3.RouteDiscoveryService",
		State:   "StreamRoutes", Delta: "DeltaRoutes", Fetch: "FetchRoutes",
		Path: pathPrefix + "routes",
	},
	{
		TypeURL: typePrefix + "envoy.config.route.v3.ScopedRouteConfiguration",
		Name:    "envoy.service.route.v3.ScopedRoutesDiscoveryService",
		State:   "StreamScopedRoutes", Delta: "DeltaScopedRoutes", Fetch: "FetchScopedRoutes",
		Path: pathPrefix + "scoped-routes",
	},
	{
		TypeURL: typePrefix + "envoy.config.route.v3.VirtualHost",
		Name:    "envoy.service.route.v3.VirtualHostDiscoveryService",
		Delta:   "DeltaVirtualHosts",
	},
	{
		TypeURL: typePrefix + "envoy.config.cluster.v3.Cluster",
		Name:    "envoy.service.cluster.v3.ClusterDiscoveryService",
		State:   "StreamClusters", Delta: "DeltaClusters", Fetch: "FetchClusters",
		Path: pathPrefix + "clusters",
	},
	{
		TypeURL: typePrefix + "envoy.config.endpoint.v3.ClusterLoadAssignment",
		Name:    "envoy.service.endpoint.v3.EndpointDiscoveryService",
		State:   "StreamEndpoints", Delta: "DeltaEndpoints", Fetch: "FetchEndpoints",
		Path: pathPrefix + "endpoints",
	},
	{
		TypeURL: typePrefix + "envoy.config.endpoint.v3.LbEndpoint",
		Name:    "envoy.service.endpoint.v3.LocalityEndpointDiscoveryService",
		Delta:   "DeltaLocalityEndpoints",
	},
	{
		TypeURL: typePrefix + "envoy.extensions.transport_sockets.tls.v3.Secret",
		Name:    "envoy.service.secret.v3.SecretDiscoveryService",
		State:   "StreamSecrets", Delta: "DeltaSecrets", Fetch: "FetchSecrets",
		Path: pathPrefix + "secrets",
	},
	{
		TypeURL: typePrefix + "envoy.service.runtime.v3.Runtime",
		Name:    "envoy.service.runtime.v3.RuntimeDiscoveryService",
		State:   "StreamRuntime", Delta: "DeltaRuntime", Fetch: "FetchRuntime",
		Path: pathPrefix + "runtime",
	},
	{
		TypeURL: typePrefix + "envoy.config.core.v3.TypedExtensionConfig",
		Name:    "envoy.service.extension.v3.ExtensionConfigDiscoveryService",
		State:   "StreamExtensionConfigs", Delta: "DeltaExtensionConfigs", Fetch: "FetchExtensionConfigs",
		Path: pathPrefix + "extension_configs",
	},
}

// All gives the services of v3.
func All() []Service { return slices.Clone(all[:]) }

// Serves reports whether requests for a type may go to the service: for its own, or
// for the list collections of that (LIST-1).
func (s Service) Serves(typeURL string) bool {
	return s.TypeURL != "" && (typeURL == s.TypeURL || typeURL == s.TypeURL+collectionSuffix)
}

// Of gives the service that serves a type; the zero Service where a type has none.
func Of(typeURL string) Service {
	for i := range all {
		if all[i].Serves(typeURL) {
			return all[i]
		}
	}
	return Service{}
}
