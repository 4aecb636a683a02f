package downstream

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/quota"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// Beside serves other services on the same port: register registers them. It must be called
// before Serve. Each of their methods needs a row in the table of methods. Drain waits for their streams, and does not end them.
func (s *Server) Beside(register func(grpc.ServiceRegistrar)) {
	register(gate{s})
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

// errManyWatches ends a call of a method beyond row.watches.
var errManyWatches = status.Error(codes.ResourceExhausted, "the connection has as many calls of this method as it may have: a client needs one for each service that it watches")

// pass lets a stream through of which nothing has been read, or says why not: its method has a row, there is memory,
// its messages are bounded, and its context says who the client is.
func (s *Server) pass(g grpc.ServerStream) (_ grpc.ServerStream, may *row, err error) {
	method, _ := grpc.MethodFromServerStream(g)
	may, ok := rows[method]
	switch a := s.shared.admission; {
	case !ok:
		err = errNoRow
	case may.refused != nil:
		err = may.refused
	case a != nil && !may.brief:
		err = a.Room()
	}
	if err != nil {
		return nil, may, s.turnedBack(g, err)
	}
	g = s.shared.receiving(g, cmp.Or(may.bytes, s.shared.config.MaxReceiveSize))
	if f := s.shared.identified; f != nil {
		g, err = f(g)
	}
	return g, may, err
}

// gate registers services of other packages. Each of their methods is a call, whose panics end it alone.
type gate struct{ server *Server }

// RegisterService implements grpc.ServiceRegistrar.
func (a gate) RegisterService(desc *grpc.ServiceDesc, impl any) {
	passed := *desc
	passed.Methods, passed.Streams = nil, nil
	for _, m := range desc.Streams {
		m.Handler = a.handler(desc.ServiceName, m.StreamName, m.Handler)
		passed.Streams = append(passed.Streams, m)
	}
	for _, m := range desc.Methods {
		passed.Streams = append(passed.Streams, grpc.StreamDesc{
			StreamName: m.MethodName,
			Handler: a.handler(desc.ServiceName, m.MethodName, func(impl any, s grpc.ServerStream) error {
				reply, err := m.Handler(impl, s.Context(), s.RecvMsg, nil)
				if err != nil {
					return err
				}
				return s.SendMsg(reply)
			}),
		})
	}
	a.server.grpc.RegisterService(&passed, impl)
}

// handler gives a handler for calls of a method.
func (a gate) handler(service, method string, serve grpc.StreamHandler) grpc.StreamHandler {
	part := logs.PartClient
	if may := rows["/"+service+"/"+method]; may != nil {
		part = may.part
	}
	return func(impl any, g grpc.ServerStream) (err error) {
		defer a.server.shared.safety.panics.Catch(part, func(e *logs.PanicError) { err = failed(e) })
		passed, may, err := a.server.pass(g)
		if err != nil {
			return err
		}
		return a.server.call(passed, may, func(g grpc.ServerStream) error { return serve(impl, g) })
	}
}

// GetServiceInfo implements reflection.GRPCServer.
func (a gate) GetServiceInfo() map[string]grpc.ServiceInfo { return a.server.grpc.GetServiceInfo() }

// turnedBack logs that a stream was not let through.
func (s *Server) turnedBack(g grpc.ServerStream, err error) error {
	peer := peerOf(g.Context())
	s.shared.turnAway(g.Context(), "the relay refuses a client", &peer, "", err)
	return err
}

// call serves a stream that is none of a client of a discovery service.
func (s *Server) call(g grpc.ServerStream, may *row, serve func(grpc.ServerStream) error) error {
	c, err := s.begin(g, may)
	if err != nil {
		return s.turnedBack(g, err)
	}
	defer s.end(c)
	return serve(c)
}

// call is a stream of another service than those of discovery.
type call struct {
	grpc.ServerStream

	who   quota.Client
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
func (s *Server) begin(g grpc.ServerStream, may *row) (*call, error) {
	peer := peerOf(g.Context())
	c := &call{ServerStream: g, who: quota.ClientOf(&peer)}
	if may.watches > 0 {
		c.watch = identity.ClientOf(g.Context())
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
			EndStream(g, errNoRequest)
		})
	}
	return c, nil
}

// end ends a call.
func (s *Server) end(c *call) {
	if c.first != nil {
		c.first.Stop()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, c)
	s.leavePlace(c.who)
	if c.watch != nil {
		quota.AddTo(s.watches, c.watch, -1)
	}
}
