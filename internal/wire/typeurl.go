package wire

// knownTypeURL gives a type URL that clients of all kinds ask for without allocating: each
// of their acknowledgements names it. For all others it gives "".
func knownTypeURL(b []byte) string {
	const (
		cluster         = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
		endpoint        = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
		lbEndpoint      = "type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint"
		listener        = "type.googleapis.com/envoy.config.listener.v3.Listener"
		filterChain     = "type.googleapis.com/envoy.config.listener.v3.FilterChain"
		route           = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
		scopedRoute     = "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration"
		virtualHost     = "type.googleapis.com/envoy.config.route.v3.VirtualHost"
		extensionConfig = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
		secret          = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
		runtime         = "type.googleapis.com/envoy.service.runtime.v3.Runtime"
	)
	switch string(b) {
	case cluster:
		return cluster
	case endpoint:
		return endpoint
	case lbEndpoint:
		return lbEndpoint
	case listener:
		return listener
	case filterChain:
		return filterChain
	case route:
		return route
	case scopedRoute:
		return scopedRoute
	case virtualHost:
		return virtualHost
	case extensionConfig:
		return extensionConfig
	case secret:
		return secret
	case runtime:
		return runtime
	}
	return ""
}
