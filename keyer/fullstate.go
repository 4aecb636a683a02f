package keyer

// FullStateTypes lists the types of which a state-of-the-world response always
// holds everything that is subscribed to, so that what is absent is deleted
// (RES-2), under the URLs of v3 and v2.
func FullStateTypes() []string {
	return []string{
		typePrefix + "envoy.config.listener.v3.Listener",
		typePrefix + "envoy.config.cluster.v3.Cluster",
		typePrefix + "envoy.config.route.v3.ScopedRouteConfiguration",
		typePrefix + "envoy.api.v2.Listener",
		typePrefix + "envoy.api.v2.Cluster",
		typePrefix + "envoy.api.v2.ScopedRouteConfiguration",
	}
}

// TypeSet gives type URLs as a set.
func TypeSet(typeURLs []string) map[string]bool {
	set := make(map[string]bool, len(typeURLs))
	for _, typeURL := range typeURLs {
		set[typeURL] = true
	}
	return set
}
