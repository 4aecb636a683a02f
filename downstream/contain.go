package downstream

import (
	"context"
	"net/http"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/contain"
	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// safety keeps panics to the clients that are served (SUR-6).
type safety struct {
	panics  *contain.Panics    // nil: none is caught
	suspect func(*cache.Store) // nil: nobody is told
}

// Contain has panics caught: one in the serving of a client ends its stream with INTERNAL, or its
// poll with 500 (SUR-6). suspect is told then of each store that the client used, from any goroutine.
// It must not block. Contain is to be called before Serve.
func (s *Server) Contain(panics *contain.Panics, suspect func(*cache.Store)) {
	s.shared.safety = safety{panics, suspect}
}

// broke ends a stream after a panic in the goroutine that owns it (SUR-6), and returns the status.
// The value is that of recover. The owner may be a sender: it goes on with the next stream.
func broke(st *stream, value any) error {
	e := st.shared.safety.panics.Note(contain.Client, value)
	if st.subscriber != nil {
		st.shared.suspect(st.subscriber.Places())
	}
	return st.link.close(failed(e))
}

// failed is the status of a stream that a panic ended.
func failed(e *contain.Error) error { return status.Error(codes.Internal, e.Error()) }

// failedPoll is the answer to a poll that a panic ended.
func failedPoll(e *contain.Error) *answer {
	return refused(&restjson.StatusError{Code: http.StatusInternalServerError, Message: e.Error()})
}

// suspect has the stores checked that a client used whose serving panicked.
func (s *shared) suspect(places []*delivery.Place) {
	if s.safety.suspect == nil {
		return
	}
	for _, place := range places {
		s.safety.suspect(place.Store())
	}
}

// try does a part of the end of a stream or poll: the other parts are to be done even if it panics.
func (s *shared) try(part func()) { _ = s.safety.panics.Do(contain.Client, part) }

// guard registers services of other packages, such that a panic in a handler ends its call.
type guard struct {
	*grpc.Server

	shared *shared
	part   contain.Part
}

// RegisterService implements grpc.ServiceRegistrar.
func (g guard) RegisterService(desc *grpc.ServiceDesc, impl any) {
	guarded := *desc
	guarded.Streams = make([]grpc.StreamDesc, len(desc.Streams))
	for i, m := range desc.Streams {
		handler := m.Handler
		m.Handler = func(server any, s grpc.ServerStream) (err error) {
			defer g.shared.safety.panics.Catch(g.part, func(e *contain.Error) { err = failed(e) })
			if m.ClientStreams {
				s = g.shared.receiving(s)
			} else {
				identity.ClientOf(s.Context()).Conn().Served()
			}
			return handler(server, s)
		}
		guarded.Streams[i] = m
	}
	guarded.Methods = make([]grpc.MethodDesc, len(desc.Methods))
	for i, m := range desc.Methods {
		handler := m.Handler
		m.Handler = func(server any, ctx context.Context, decode func(any) error, between grpc.UnaryServerInterceptor) (reply any, err error) {
			defer g.shared.safety.panics.Catch(g.part, func(e *contain.Error) { err = failed(e) })
			identity.ClientOf(ctx).Conn().Served()
			return handler(server, ctx, decode, between)
		}
		guarded.Methods[i] = m
	}
	g.Server.RegisterService(&guarded, impl)
}
