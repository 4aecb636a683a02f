package metrics

import "strings"

// kind is a resource type as the label "type" shows it.
type kind uint8

// The kinds. Unknown types are other, so that no client can add a series.
const (
	cds kind = iota
	eds
	lds
	fcds
	rds
	srds
	vhds
	sds
	rtds
	ecds
	other
	kinds int = iota
)

// shortNames are the label's values.
var shortNames = [kinds]string{
	cds: "cds", eds: "eds", lds: "lds", fcds: "fcds", rds: "rds", srds: "srds", vhds: "vhds",
	sds: "sds", rtds: "rtds", ecds: "ecds", other: "other",
}

// kindsByURL is read only.
var kindsByURL = map[string]kind{
	"type.googleapis.com/envoy.config.cluster.v3.Cluster":                  cds,
	"type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment":   eds,
	"type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint":              eds,
	"type.googleapis.com/envoy.config.listener.v3.Listener":                lds,
	"type.googleapis.com/envoy.config.listener.v3.FilterChain":             fcds,
	"type.googleapis.com/envoy.config.route.v3.RouteConfiguration":         rds,
	"type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration":   srds,
	"type.googleapis.com/envoy.config.route.v3.VirtualHost":                vhds,
	"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret": sds,
	"type.googleapis.com/envoy.service.runtime.v3.Runtime":                 rtds,
	"type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig":        ecds,

	"type.googleapis.com/envoy.api.v2.Cluster":                  cds,
	"type.googleapis.com/envoy.api.v2.ClusterLoadAssignment":    eds,
	"type.googleapis.com/envoy.api.v2.Listener":                 lds,
	"type.googleapis.com/envoy.api.v2.RouteConfiguration":       rds,
	"type.googleapis.com/envoy.api.v2.ScopedRouteConfiguration": srds,
	"type.googleapis.com/envoy.api.v2.route.VirtualHost":        vhds,
	"type.googleapis.com/envoy.api.v2.auth.Secret":              sds,
	"type.googleapis.com/envoy.service.discovery.v2.Runtime":    rtds,
}

// kindOf is the kind of a type URL. A list collection ("…ListenerCollection") is of
// its members' kind.
func kindOf(typeURL string) kind {
	if k, ok := kindsByURL[typeURL]; ok {
		return k
	}
	if members, ok := strings.CutSuffix(typeURL, "Collection"); ok {
		if k, ok := kindsByURL[members]; ok {
			return k
		}
	}
	return other
}
