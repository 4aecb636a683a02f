package integration

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// The types that the tests use.
const (
	clusterType         = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	endpointType        = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	lbEndpointType      = "type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint"
	listenerType        = "type.googleapis.com/envoy.config.listener.v3.Listener"
	routeType           = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	scopedRouteType     = "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration"
	virtualHostType     = "type.googleapis.com/envoy.config.route.v3.VirtualHost"
	secretType          = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
	runtimeType         = "type.googleapis.com/envoy.service.runtime.v3.Runtime"
	extensionConfigType = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
	wrapperType         = "type.googleapis.com/envoy.service.discovery.v3.Resource"
	locatorType         = "type.googleapis.com/xds.core.v3.ResourceLocator"
)

const (
	aggregated   = "envoy.service.discovery.v3.AggregatedDiscoveryService"
	aggregatedV2 = "envoy.service.discovery.v2.AggregatedDiscoveryService"
	aggregation  = "AggregatedResources" // behind "Stream" or "Delta"
)

// service is a type's own discovery service. Its streams are called "Stream" and
// "Delta" with noun behind, its REST path ends with path.
type service struct {
	typeURL, name, noun, path string
	deltaOnly                 bool
}

var services = []service{
	{typeURL: clusterType, name: "envoy.service.cluster.v3.ClusterDiscoveryService", noun: "Clusters", path: "clusters"},
	{typeURL: endpointType, name: "envoy.service.endpoint.v3.EndpointDiscoveryService", noun: "Endpoints", path: "endpoints"},
	{typeURL: lbEndpointType, name: "envoy.service.endpoint.v3.LocalityEndpointDiscoveryService", noun: "LocalityEndpoints", deltaOnly: true},
	{typeURL: listenerType, name: "envoy.service.listener.v3.ListenerDiscoveryService", noun: "Listeners", path: "listeners"},
	{typeURL: routeType, name: "envoy.service.route.v3.RouteDiscoveryService", noun: "Routes", path: "routes"},
	{typeURL: scopedRouteType, name: "envoy.service.route.v3.ScopedRoutesDiscoveryService", noun: "ScopedRoutes", path: "scoped-routes"},
	{typeURL: virtualHostType, name: "envoy.service.route.v3.VirtualHostDiscoveryService", noun: "VirtualHosts", deltaOnly: true},
	{typeURL: secretType, name: "envoy.service.secret.v3.SecretDiscoveryService", noun: "Secrets", path: "secrets"},
	{typeURL: runtimeType, name: "envoy.service.runtime.v3.RuntimeDiscoveryService", noun: "Runtime", path: "runtime"},
	{typeURL: extensionConfigType, name: "envoy.service.extension.v3.ExtensionConfigDiscoveryService", noun: "ExtensionConfigs", path: "extension_configs"},
}

// serviceOf finds a type's service.
func serviceOf(typeURL string) service {
	i := slices.IndexFunc(services, func(s service) bool { return s.typeURL == typeURL })
	if i < 0 {
		return service{typeURL: typeURL} // it has none: ADS only
	}
	return services[i]
}

// fullState has the types of which a SotW response holds everything (RES-2).
var fullState = map[string]bool{clusterType: true, listenerType: true, scopedRouteType: true}

// variant is how a client speaks.
type variant struct {
	name    string // in docs/protocol.md
	sotw    bool   // REST is SotW too
	perType bool
	v2      bool // v2 method names, and the legacy wildcard that came with them
	rest    bool
}

// form is what xdsclient speaks for the variant.
func (v variant) form() xdsclient.Form {
	switch {
	case v.rest:
		return xdsclient.REST
	case v.sotw:
		return xdsclient.SotW
	default:
		return xdsclient.Incremental
	}
}

// The variants that clients speak.
var (
	deltaADS   = variant{name: "incremental ADS"}
	delta      = variant{name: "incremental", perType: true}
	sotwADS    = variant{name: "SotW ADS", sotw: true}
	sotw       = variant{name: "SotW", sotw: true, perType: true}
	restPoll   = variant{name: "REST", sotw: true, perType: true, rest: true}
	sotwADSv2  = variant{name: "SotW ADS, v2 names", sotw: true, v2: true}
	deltaADSv2 = variant{name: "incremental ADS, v2 names", v2: true}
)

var variants = []variant{deltaADS, delta, sotwADS, sotw, restPoll, sotwADSv2, deltaADSv2}

// method is the full name of the gRPC method that carries a type.
func (v variant) method(typeURL string) string {
	name, noun := aggregated, aggregation
	if v.v2 {
		name = aggregatedV2
	}
	if v.perType {
		s := serviceOf(typeURL)
		name, noun = s.name, s.noun
	}
	if v.sotw {
		return "/" + name + "/Stream" + noun
	}
	return "/" + name + "/Delta" + noun
}

// stream is the key of the stream that carries a type: "" is ADS.
func (v variant) stream(typeURL string) string {
	if v.perType {
		return typeURL
	}
	return ""
}
