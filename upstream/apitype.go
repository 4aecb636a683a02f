package upstream

import (
	"fmt"
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// APIType says which variant of the protocol a control plane speaks, in the words of
// envoy.config.core.v3.ApiConfigSource.
type APIType string

// The variants that an Upstream speaks.
const (
	AggregatedDeltaGRPC APIType = "AGGREGATED_DELTA_GRPC" // VAR-4
	AggregatedGRPC      APIType = "AGGREGATED_GRPC"       // VAR-3
	DeltaGRPC           APIType = "DELTA_GRPC"            // VAR-2
	GRPC                APIType = "GRPC"                  // VAR-1
	REST                APIType = "REST"                  // VAR-5
)

// APITypes returns every variant over gRPC.
func APITypes() []APIType { return []APIType{AggregatedDeltaGRPC, AggregatedGRPC, DeltaGRPC, GRPC} }

// State says that responses are the state of the world, and not what changed.
func (a APIType) State() bool { return a == AggregatedGRPC || a == GRPC || a == REST }

// PerType says that each type has a stream, and a service or a path, of its own.
func (a APIType) PerType() bool { return a == DeltaGRPC || a == GRPC || a == REST }

// check accepts the variants over gRPC.
func (a APIType) check() error {
	if !slices.Contains(APITypes(), a) {
		return fmt.Errorf("API type %q is none of %v", a, APITypes())
	}
	return nil
}

// method is the gRPC method that carries a stream; "" if there is none, as for a
// type that has no service.
func (a APIType) method(id wire.StreamID) string {
	service := xds.Aggregated("v3")
	if a.PerType() {
		service = xds.ServiceOf(id.TypeURL)
	}
	if a.State() {
		return service.StateMethod()
	}
	return service.DeltaMethod()
}
