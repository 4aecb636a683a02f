package downstream

import (
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// healthState is what gRPC's health service says of the server (ABS-2): the same under the empty
// name and under the name of each service that clients come for.
type healthState struct {
	server *health.Server
	told   atomic.Int32 // the last healthpb.HealthCheckResponse_ServingStatus; UNKNOWN: none yet
}

// SetServing tells clients of gRPC's health service whether the relay can serve any client (ABS-2).
// A server that was told nothing serves. SetServing has no effect once the server drains. It is to be
// called after Beside, and may be called from any goroutine.
func (s *Server) SetServing(serving bool) {
	state := healthpb.HealthCheckResponse_SERVING
	if !serving {
		state = healthpb.HealthCheckResponse_NOT_SERVING
	}
	if s.health.told.Swap(int32(state)) == int32(state) {
		return
	}
	s.health.tell(s.grpc, state)
}

// begin has the health service speak of each service, if nobody called SetServing.
func (h *healthState) begin(s *grpc.Server) {
	if h.told.CompareAndSwap(int32(healthpb.HealthCheckResponse_UNKNOWN), int32(healthpb.HealthCheckResponse_SERVING)) {
		h.tell(s, healthpb.HealthCheckResponse_SERVING)
	}
}

func (h *healthState) tell(s *grpc.Server, state healthpb.HealthCheckResponse_ServingStatus) {
	h.server.SetServingStatus("", state)
	for name := range s.GetServiceInfo() {
		if !strings.HasPrefix(name, "grpc.") { // health itself, reflection, channelz
			h.server.SetServingStatus(name, state)
		}
	}
}
