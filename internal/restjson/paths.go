package restjson

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// services are those that are polled, v2's after v3's (VAR-5, VAR-9).
var services = slices.DeleteFunc(slices.Concat(xds.Services(), xds.V2Services()),
	func(s xds.Service) bool { return s.Path == "" })

// Paths are the paths that are served, such as "/v3/discovery:clusters", in v3's and v2's
// spelling (VAR-5, VAR-9).
func Paths() []string {
	paths := make([]string, 0, len(services))
	for _, s := range services {
		paths = append(paths, s.Path)
	}
	return paths
}

// Path gives the path of v3 that a type is polled at, false if it cannot be polled.
func Path(typeURL string) (string, bool) {
	path := xds.ServiceOf(typeURL).Path
	return path, path != ""
}

// serviceAt gives the service that is polled at a path, the zero Service for any other. The list
// collections of its type are polled there too (LIST-1). At v2's paths it is v3's type that is polled (VAR-9).
func serviceAt(path string) xds.Service {
	for _, s := range services {
		if s.Path == path {
			return s
		}
	}
	return xds.Service{}
}
