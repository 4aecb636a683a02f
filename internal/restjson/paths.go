package restjson

import "github.com/xdsrelay/xdsrelay/internal/apiservices"

// Paths are the paths that are served, such as "/v3/discovery:clusters" (VAR-5).
func Paths() []string {
	var paths []string
	for _, s := range apiservices.All() {
		if s.Path != "" {
			paths = append(paths, s.Path)
		}
	}
	return paths
}

// Path gives the path that a type is polled at, false if it cannot be polled.
func Path(typeURL string) (string, bool) {
	path := apiservices.Of(typeURL).Path
	return path, path != ""
}

// TypeURL gives the type that is polled at a path, false for any other path. The list
// collections of the type are polled there too (LIST-1).
func TypeURL(path string) (string, bool) {
	s := serviceAt(path)
	return s.TypeURL, s.TypeURL != ""
}

// serviceAt gives the service that is polled at a path, the zero Service for any other.
func serviceAt(path string) apiservices.Service {
	for _, s := range apiservices.All() {
		if s.Path == path && path != "" {
			return s
		}
	}
	return apiservices.Service{}
}
