// Package xds has what the relay knows of the resource types of Envoy's API, as data: the discovery services that they
// have of their own. What serves, asks and polls reads its methods and paths here. It links no
// generated stubs; package apitypes links the messages.
package xds

import (
	"slices"
	"strings"
)

const (
	typePrefix   = "type.googleapis.com/"
	pathPrefix   = "/v3/discovery:"
	v2PathPrefix = "/v2/discovery:"

	// collectionSuffix makes the type of a list collection from that of its members.
	collectionSuffix = "Collection"
)

// Service is the discovery service of one resource type, and of the list collections
// of it (LIST-1). What it does not have is "".
type Service struct {
	TypeURL string
	V3      string // of a service of v2: the type of now, which it serves too (VAR-9)
	Name    string // full name of the gRPC service
	State   string // its state-of-the-world method (VAR-1)
	Delta   string // its incremental method (VAR-2)
	Fetch   string // its unary method, which stands for Path
	Path    string // that it is polled at over REST (VAR-5)
}

// OfV2 reports whether it is a service of v2 (VAR-9).
func (s Service) OfV2() bool { return strings.Contains(s.Name, ".v2.") }

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

// before are v2's services and their types, by the type of now. Extension configurations
// and locality endpoints came later.
var before = map[string]struct{ service, resource string }{
	"envoy.config.listener.v3.Listener":                {"envoy.api.v2.ListenerDiscoveryService", "envoy.api.v2.Listener"},
	"envoy.config.route.v3.RouteConfiguration":         {"envoy.api.v2.RouteDiscoveryService", "envoy.api.v2.RouteConfiguration"},
	"envoy.config.route.v3.ScopedRouteConfiguration":   {"envoy.api.v2.ScopedRoutesDiscoveryService", "envoy.api.v2.ScopedRouteConfiguration"},
	"envoy.config.route.v3.VirtualHost":                {"envoy.api.v2.VirtualHostDiscoveryService", "envoy.api.v2.route.VirtualHost"},
	"envoy.config.cluster.v3.Cluster":                  {"envoy.api.v2.ClusterDiscoveryService", "envoy.api.v2.Cluster"},
	"envoy.config.endpoint.v3.ClusterLoadAssignment":   {"envoy.api.v2.EndpointDiscoveryService", "envoy.api.v2.ClusterLoadAssignment"},
	"envoy.extensions.transport_sockets.tls.v3.Secret": {"envoy.service.discovery.v2.SecretDiscoveryService", "envoy.api.v2.auth.Secret"},
	"envoy.service.runtime.v3.Runtime":                 {"envoy.service.discovery.v2.RuntimeDiscoveryService", "envoy.service.discovery.v2.Runtime"},
}

// Aggregated is the service of all types, of an API version: "v3", or "v2" (VAR-3, VAR-4, VAR-9).
func Aggregated(version string) Service {
	return Service{
		Name:  "envoy.service.discovery." + version + ".AggregatedDiscoveryService",
		State: "StreamAggregatedResources", Delta: "DeltaAggregatedResources",
	}
}

// Services gives the services of v3.
func Services() []Service { return slices.Clone(all[:]) }

// V2Services gives the services of v2 (VAR-9). Their methods have the names of v3's, and clients of
// theirs may ask for v3's types.
func V2Services() []Service {
	var old []Service
	for _, s := range Services() {
		was, ok := before[strings.TrimPrefix(s.TypeURL, typePrefix)]
		if !ok {
			continue
		}
		s.V3, s.TypeURL, s.Name = s.TypeURL, typePrefix+was.resource, was.service
		if s.Path != "" {
			s.Path = v2PathPrefix + strings.TrimPrefix(s.Path, pathPrefix)
		}
		old = append(old, s)
	}
	return old
}

// Types are the types that the service serves, besides their list collections: the first
// is that of a request without a type. An aggregated service serves all, and has none.
func (s Service) Types() []string {
	return slices.DeleteFunc([]string{s.TypeURL, s.V3}, func(t string) bool { return t == "" })
}

// Serves reports whether requests for a type may go to the service: for its own, or
// for the list collections of that (LIST-1).
func (s Service) Serves(typeURL string) bool {
	member := strings.TrimSuffix(typeURL, collectionSuffix)
	return member != "" && (member == s.TypeURL || member == s.V3)
}

// ServiceOf gives the service of v3 that serves a type; the zero Service where a type has none.
func ServiceOf(typeURL string) Service {
	for i := range all {
		if all[i].Serves(typeURL) {
			return all[i]
		}
	}
	return Service{}
}

// HasService reports whether a type has a service, in v3 or in v2, or is that of the list collections of one.
func HasService(typeURL string) bool {
	if ServiceOf(typeURL).TypeURL != "" {
		return true
	}
	name := strings.TrimSuffix(strings.TrimPrefix(typeURL, typePrefix), collectionSuffix)
	for _, was := range before {
		if was.resource == name {
			return true
		}
	}
	return false
}
