package downstream

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/contain"
	"github.com/xdsrelay/xdsrelay/internal/crowd"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// Beside serves other services on the same port: register registers them. It must be called
// before Serve. Drain waits for their streams, and does not end them.
func (s *Server) Beside(register func(grpc.ServiceRegistrar)) {
	register(guard{s, contain.LoadReports})
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

// row is what a call of a method of another service than those of discovery may take.
type row struct {
	bytes   int // of a message
	watches int // of one connection at a time; 0: as many as it may have streams
}

// ofCalls is for methods without a row of their own. A load report takes fifteen times as much when it is decoded.
var ofCalls = row{bytes: 1 << 20}

// rows are by method. A health check is a service's name, which a call of Watch keeps, for ever and for next to nothing.
var rows = map[string]row{
	healthpb.Health_Check_FullMethodName: {bytes: 1 << 10},
	healthpb.Health_Watch_FullMethodName: {bytes: 1 << 10, watches: 8},
}

var errManyWatches = status.Error(codes.ResourceExhausted, "the connection has as many calls of this method as it may have: a client needs one for each service that it watches")

// guard registers services of other packages. Each of their methods is a call, whose panics end it alone.
type guard struct {
	server *Server
	part   contain.Part
}

// RegisterService implements grpc.ServiceRegistrar.
func (g guard) RegisterService(desc *grpc.ServiceDesc, impl any) {
	guarded := *desc
	guarded.Methods, guarded.Streams = nil, nil
	for _, m := range desc.Streams {
		m.Handler = g.handler(m.Handler)
		guarded.Streams = append(guarded.Streams, m)
	}
	for _, m := range desc.Methods {
		guarded.Streams = append(guarded.Streams, grpc.StreamDesc{
			StreamName: m.MethodName,
			Handler: g.handler(func(impl any, s grpc.ServerStream) error {
				reply, err := m.Handler(impl, s.Context(), s.RecvMsg, nil)
				if err != nil {
					return err
				}
				return s.SendMsg(reply)
			}),
		})
	}
	g.server.grpc.RegisterService(&guarded, impl)
}

// handler gives a handler for calls.
func (g guard) handler(serve grpc.StreamHandler) grpc.StreamHandler {
	return func(impl any, s grpc.ServerStream) (err error) {
		defer g.server.shared.safety.panics.Catch(g.part, func(e *contain.Error) { err = failed(e) })
		c, err := g.begin(s)
		if err != nil {
			peer := peerOf(s.Context())
			g.server.shared.turnAway(s.Context(), "the relay refuses a client", &peer, "", err)
			return err
		}
		defer g.end(c)
		return serve(impl, c)
	}
}

// GetServiceInfo implements reflection.GRPCServer.
func (g guard) GetServiceInfo() map[string]grpc.ServiceInfo { return g.server.grpc.GetServiceInfo() }

// call is a stream of another service than those of discovery: of gRPC's health service, of load reports.
type call struct {
	grpc.ServerStream

	who   crowd.Who
	watch *identity.Client // the connection, if it may have only so many calls of the method; else nil
	first *time.Timer      // ends a call that sends no request; nil: none does
}

// RecvMsg implements grpc.ServerStream.
func (c *call) RecvMsg(m any) error {
	err := c.ServerStream.RecvMsg(m)
	if c.first != nil {
		c.first.Stop()
	}
	return err
}

// begin begins a call, which takes the place of a stream (LIM-1). Nothing of it has been read. It may begin while the
// server drains: health checks are answered until the end.
func (g guard) begin(stream grpc.ServerStream) (*call, error) {
	s := g.server
	method, _ := grpc.MethodFromServerStream(stream)
	may, ok := rows[method]
	if !ok {
		may = ofCalls
	}
	stream, err := s.shared.accept(stream, may.bytes)
	if err != nil {
		return nil, err
	}
	peer := peerOf(stream.Context())
	c := &call{ServerStream: stream, who: crowd.Of(&peer)}
	if may.watches > 0 {
		c.watch = identity.ClientOf(stream.Context())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.watch != nil && s.watches[c.watch] >= may.watches {
		s.shared.observer.Limited(LimitWatches)
		return nil, errManyWatches
	}
	if err := s.takePlace(c.who); err != nil {
		return nil, err
	}
	s.calls[c] = struct{}{}
	if c.watch != nil {
		s.watches[c.watch]++
	}
	if most := s.shared.limits.Load().PerClient.FirstRequest; most > 0 {
		c.first = time.AfterFunc(most, func() {
			s.shared.observer.Limited(LimitFirstRequest)
			EndStream(stream, errNoRequest)
		})
	}
	return c, nil
}

// end ends a call.
func (g guard) end(c *call) {
	s := g.server
	if c.first != nil {
		c.first.Stop()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, c)
	s.leavePlace(c.who)
	if c.watch != nil {
		crowd.AddTo(s.watches, c.watch, -1)
	}
}
