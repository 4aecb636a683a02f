package restjson

import (
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
)

// services are the discovery services that have a REST method (VAR-5).
var services = [...]struct{ path, typeURL string }{
	{resource.FetchListeners, resource.ListenerType},
	{resource.FetchRoutes, resource.RouteType},
	{resource.FetchScopedRoutes, resource.ScopedRouteType},
	{resource.FetchClusters, resource.ClusterType},
	{resource.FetchEndpoints, resource.EndpointType},
	{resource.FetchSecrets, resource.SecretType},
	{resource.FetchRuntimes, resource.RuntimeType},
	{resource.FetchExtensionConfigs, resource.ExtensionConfigType},
}

// Paths are the paths that are served, such as "/v3/discovery:clusters".
func Paths() []string {
	paths := make([]string, len(services))
	for i, s := range services {
		paths[i] = s.path
	}
	return paths
}

// Path gives the path that a type is polled at, false if it cannot be polled.
func Path(typeURL string) (string, bool) {
	for _, s := range services {
		if s.typeURL == typeURL {
			return s.path, true
		}
	}
	return "", false
}

// TypeURL gives the type that is polled at a path, false for any other path.
func TypeURL(path string) (string, bool) {
	for _, s := range services {
		if s.path == path {
			return s.typeURL, true
		}
	}
	return "", false
}
