package keyer

import (
	"fmt"
	"strings"
)

// typePrefix begins the URL of every type that is a protobuf message.
const typePrefix = "type.googleapis.com/"

// types are the resource types with the names that people call their discovery
// services by, in the order of the documents, and the messages of the v2 API, "" if it had none.
var types = [...]struct{ short, url, v2 string }{
	{"lds", typePrefix + "envoy.config.listener.v3.Listener", "envoy.api.v2.Listener"},
	{"fcds", typePrefix + "envoy.config.listener.v3.FilterChain", ""},
	{"rds", typePrefix + "envoy.config.route.v3.RouteConfiguration", "envoy.api.v2.RouteConfiguration"},
	{"srds", typePrefix + "envoy.config.route.v3.ScopedRouteConfiguration", "envoy.api.v2.ScopedRouteConfiguration"},
	{"vhds", typePrefix + "envoy.config.route.v3.VirtualHost", "envoy.api.v2.route.VirtualHost"},
	{"cds", typePrefix + "envoy.config.cluster.v3.Cluster", "envoy.api.v2.Cluster"},
	{"eds", typePrefix + "envoy.config.endpoint.v3.ClusterLoadAssignment", "envoy.api.v2.ClusterLoadAssignment"},
	{"sds", typePrefix + "envoy.extensions.transport_sockets.tls.v3.Secret", "envoy.api.v2.auth.Secret"},
	{"rtds", typePrefix + "envoy.service.runtime.v3.Runtime", "envoy.service.discovery.v2.Runtime"},
	{"ecds", typePrefix + "envoy.config.core.v3.TypedExtensionConfig", ""},
}

// V2TypeURL gives the type URL of v2 for one of v3 (VAR-9); "" if there is none.
func V2TypeURL(typeURL string) string {
	for _, t := range types {
		if t.url == typeURL && t.v2 != "" {
			return typePrefix + t.v2
		}
	}
	return ""
}

// KnownType gives the v3 type URL for any form of a type that has a short name: its name in v2, the type of its list
// collections, and a URL that has something else before the message's name. A control plane may take all of them for
// the same. It is false for other types.
func KnownType(typeURL string) (string, bool) {
	message := typeURL[strings.LastIndexByte(typeURL, '/')+1:]
	if member, isList := MemberType(message); isList {
		message = member
	}
	for _, t := range types {
		if message == t.url[len(typePrefix):] || message == t.v2 && message != "" {
			return t.url, true
		}
	}
	return "", false
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

// ParseType gives the type URL of what somebody typed for a type: a short name, a type URL, or the name of a message.
func ParseType(s string) (string, error) {
	if url, ok := TypeURL(s); ok {
		return url, nil
	}
	switch {
	case strings.Contains(s, "/"):
		return s, nil
	case strings.Contains(s, "."):
		return typePrefix + s, nil
	}
	return "", fmt.Errorf("unknown type %q: expected a type URL or one of %s", s, strings.Join(ShortNames(), ", "))
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
