package cache

import "cmp"

// Rank orders types make-before-break. Pending types of one stream go out by rising rank, and
// removals of clusters and endpoints last (ADS-1).
type Rank int8

// The ranks, and the types that have them.
const (
	RankCluster Rank = iota
	RankEndpoint
	RankListener
	RankFilterChain
	RankRoute // and scoped routes
	RankVirtualHost
	RankOther
)

var ranks = map[string]Rank{
	"type.googleapis.com/envoy.config.cluster.v3.Cluster":                RankCluster,
	"type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment": RankEndpoint,
	"type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint":            RankEndpoint,
	"type.googleapis.com/envoy.config.listener.v3.Listener":              RankListener,
	"type.googleapis.com/envoy.config.listener.v3.FilterChain":           RankFilterChain,
	"type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration": RankRoute,
	"type.googleapis.com/envoy.config.route.v3.RouteConfiguration":       RankRoute,
	"type.googleapis.com/envoy.config.route.v3.VirtualHost":              RankVirtualHost,
	"type.googleapis.com/envoy.config.cluster.v3.ClusterCollection":      RankCluster,
	"type.googleapis.com/envoy.config.endpoint.v3.LbEndpointCollection":  RankEndpoint,
	"type.googleapis.com/envoy.config.listener.v3.ListenerCollection":    RankListener,
	"type.googleapis.com/envoy.api.v2.Cluster":                           RankCluster,
	"type.googleapis.com/envoy.api.v2.ClusterLoadAssignment":             RankEndpoint,
	"type.googleapis.com/envoy.api.v2.Listener":                          RankListener,
	"type.googleapis.com/envoy.api.v2.ScopedRouteConfiguration":          RankRoute,
	"type.googleapis.com/envoy.api.v2.RouteConfiguration":                RankRoute,
	"type.googleapis.com/envoy.api.v2.route.VirtualHost":                 RankVirtualHost,
}

// RankOf is a type's rank: RankOther for a type that is not listed above.
func RankOf(typeURL string) Rank {
	if r, ok := ranks[typeURL]; ok {
		return r
	}
	return RankOther
}

// compareTypes orders types by their ranks, and those of a rank by their URLs.
func compareTypes(a, b string) int {
	return cmp.Or(cmp.Compare(RankOf(a), RankOf(b)), cmp.Compare(a, b))
}

// Waits reports whether removals of the type wait for later types.
func (r Rank) Waits() bool { return r <= RankEndpoint }

// FollowsClusters reports whether resources of the type lead traffic to clusters.
func (r Rank) FollowsClusters() bool { return r >= RankListener && r <= RankVirtualHost }
