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

// TypeURL gives the type that is polled at a path, false for any other path.
func TypeURL(path string) (string, bool) {
	for _, s := range apiservices.All() {
		if s.Path == path && path != "" {
			return s.TypeURL, true
		}
	}
	return "", false
}
