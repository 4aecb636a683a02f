package keyer

import "strings"

// typePrefix begins the URL of every type that is a protobuf message.
const typePrefix = "type.googleapis.com/"

// types are the resource types with the names that people call their discovery
// services by, in the order of the documents.
var types = [...]struct{ short, url string }{
	{"lds", typePrefix + "envoy.config.listener.v3.Listener"},
	{"rds", typePrefix + "envoy.config.route.v3.RouteConfiguration"},
	{"srds", typePrefix + "envoy.config.route.v3.ScopedRouteConfiguration"},
	{"vhds", typePrefix + "envoy.config.route.v3.VirtualHost"},
	{"cds", typePrefix + "envoy.config.cluster.v3.Cluster"},
	{"eds", typePrefix + "envoy.config.endpoint.v3.ClusterLoadAssignment"},
	{"sds", typePrefix + "envoy.extensions.transport_sockets.tls.v3.Secret"},
	{"rtds", typePrefix + "envoy.service.runtime.v3.Runtime"},
	{"ecds", typePrefix + "envoy.config.core.v3.TypedExtensionConfig"},
}

// ShortNames lists the short names of resource types: "lds", "cds" and so on.
func ShortNames() []string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.short
	}
	return names
}

// TypeURL gives the type URL that a short name stands for, in any case.
func TypeURL(short string) (string, bool) {
	for _, t := range types {
		if strings.EqualFold(t.short, short) {
			return t.url, true
		}
	}
	return "", false
}

// ShortName gives the short name of a type URL, and of one without the URL as
// it is: types that nobody here has heard of pass through too (VAR-8).
func ShortName(typeURL string) string {
	for _, t := range types {
		if t.url == typeURL {
			return t.short
		}
	}
	return typeURL
}
