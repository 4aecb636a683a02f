package downstream

import (
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/apiservices"
)

const (
	typePrefix = "type.googleapis.com/"
	// listSuffix makes the type of a list collection from that of its members.
	listSuffix = "Collection"
)

// discoveryService is a service of one resource type, or of all.
type discoveryService struct {
	name  string
	types []string // that it serves; the first is for requests without a type; none: all (ADS)

	// Methods; "" if there is none.
	state, delta, fetch string
}

// services are the services of v3, and those of v2 under their v2 names (VAR-1 to VAR-4,
// VAR-9). Over v2 services a client may ask for v3 resources too.
var services = discoveryServices()

func discoveryServices() []discoveryService {
	ads := func(version string) discoveryService {
		return discoveryService{
			name:  "envoy.service.discovery." + version + ".AggregatedDiscoveryService",
			state: "StreamAggregatedResources", delta: "DeltaAggregatedResources",
		}
	}
	all := []discoveryService{ads("v3"), ads("v2")}
	for _, s := range slices.Concat(apiservices.All(), apiservices.V2()) {
		v := discoveryService{name: s.Name, state: s.State, delta: s.Delta, fetch: s.Fetch}
		for _, typeURL := range s.Types() {
			v.types = append(v.types, strings.TrimPrefix(typeURL, typePrefix))
		}
		all = append(all, v)
	}
	return all
}
