package downstream

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// services are the services of v3, and those of v2 under their v2 names (VAR-1 to VAR-4,
// VAR-9). Over v2 services a client may ask for v3 resources too.
var services = slices.Concat(
	[]xds.Service{xds.Aggregated("v3"), xds.Aggregated("v2")}, xds.Services(), xds.V2Services(),
)
