package downstream

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/contain"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// Beside serves other services on the same port: register registers them. It must be called
// before Serve. Drain waits for their streams, and does not end them.
func (s *Server) Beside(register func(grpc.ServiceRegistrar)) {
	register(guard{s.grpc, s.shared, contain.LoadReports})
}

// PeerOf is who the client of a stream of another service is, as it would be on a stream of a
// discovery service.
func PeerOf(ctx context.Context) keyer.Peer { return peerOf(ctx) }

// ScopeError is how a stream ends that may not have a scope (Router).
func ScopeError(err error) error { return scopeError(err) }

// EndStream ends a stream of another service with a status, as returning from its handler
// does, but from any goroutine: reading and sending fail from then on.
func EndStream(g grpc.ServerStream, err error) {
	if t := transportOf(g); t != nil {
		_ = t.WriteStatus(status.Convert(err)) // an error says that the connection is gone
	}
}
