package passthrough

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/relay/streams"
)

// Rule selects the streams that are served 1:1. What is "" selects all.
type Rule struct {
	Upstream string
	Scope    string
	TypeURL  string // of v3. A rule with a type selects streams of the type's own service, and no aggregated ones.
}

// Selects reports whether the rule selects a stream. typeURL is that of its service; "": it is aggregated.
func (r Rule) Selects(upstream, scope, typeURL string) bool {
	return (r.Upstream == "" || r.Upstream == upstream) && (r.Scope == "" || r.Scope == scope) && (r.TypeURL == "" || r.TypeURL == typeURL)
}

// Finder finds the place of a client. Its methods may be called from any goroutine.
type Finder interface {
	// Find is given the node of a stream's first request, nil if it has none, and the type that the request is
	// about. The place is nil if the stream is not served 1:1, or if something is wrong that the cache
	// then tells the client. The error is a status that ends the stream.
	Find(t *downstream.Through, node *corev3.Node, typeURL string) (Place, error)
}

// Place is where a client belongs, and what it may have. Its methods may be called from any goroutine.
type Place interface {
	// Origin is the upstream, and the scope there.
	Origin() downstream.Origin
	// Open opens the stream to the control plane. The error is a status.
	Open(ctx context.Context) (Stream, error)
	// Serves says why the client may not ask for a name, a glob or "*" of a type here; nil: it may. The error is
	// a status.
	Serves(typeURL, name string) error
	// Judges reports whether the client may not have everything of a type.
	Judges(typeURL string) bool
	// Denies says why the client may not have a resource; nil: it may. The error is a status.
	Denies(typeURL, name string) error
	// Check looks again after the configuration has changed. types are those that the client has asked for. The
	// error is a status that ends the client's stream: until then it gets nothing that the new access rules deny.
	Check(types []string) error
	// Presents judges the node of a later request, which passes like the first one's. The error is a status that
	// ends the client's stream.
	Presents(node *corev3.Node, types []string) error
	// Close gives the place back.
	Close()
}

// Stream is one to a control plane. Send is called by one goroutine, and Receive by another.
type Stream interface {
	Send(message any) error
	Receive(message any) error
	// CloseSend says that nothing more will be sent.
	CloseSend()
	// Closed reports whether the relay itself ends the stream: it reaches the control plane in another way now.
	Closed() bool
	// Cancel ends the stream, and Send and Receive with it. Close also waits for that.
	Cancel()
	Close()
}

// Server serves clients 1:1. Its methods may be called from any goroutine.
type Server struct {
	streams.Set[*stream]

	finder Finder
	end    func(grpc.ServerStream, error)
	log    *slog.Logger
}

// NewServer returns a server. end ends a stream with a status, from any goroutine: reading and sending fail then.
func NewServer(finder Finder, end func(grpc.ServerStream, error), panics *logs.Panics, log *slog.Logger) *Server {
	return &Server{
		Set:    streams.Set[*stream]{Draining: downstream.ErrDraining, Panics: panics, Part: logs.PartClient},
		finder: finder, end: end, log: log,
	}
}

// Serve runs a client's stream. If it is not served 1:1, first is its first request.
func (s *Server) Serve(t *downstream.Through) (first wire.Raw, err error) {
	st := &stream{server: s, client: t, types: make(map[string]bool)}
	if err := s.Add(st); err != nil {
		return nil, err
	}
	defer s.Remove(st)
	return st.serve()
}

// Recheck looks at each client's place again: the configuration has changed, or which streams are served 1:1. Who
// may not be served any more ends at once, and who only has to come again at a random moment within spread.
func (s *Server) Recheck(spread time.Duration) {
	for _, st := range s.All() {
		s.recheck(st, spread)
	}
}

func (s *Server) recheck(st *stream, spread time.Duration) {
	defer s.Panics.Catch(s.Part, func(e *logs.PanicError) { st.End(status.Error(codes.Internal, e.Error())) })
	switch err := st.check(); {
	case err == nil:
		s.Later(0, st, nil)
	case status.Code(err) == codes.Unavailable:
		s.Later(spread, st, func() { st.End(err) })
	default:
		st.End(err)
	}
}

// Clients lists the streams that are served 1:1, of the nodes that of wants; nil: of all.
func (s *Server) Clients(of func(node string) bool) (all []downstream.Status) {
	for _, st := range s.All() {
		if v, ok := st.status(); ok && (of == nil || of(v.Node)) {
			all = append(all, v)
		}
	}
	return all
}

// Places calls f with the place of each stream that is served 1:1, and the types that its client asked for.
func (s *Server) Places(f func(place Place, types []string)) {
	for _, st := range s.All() {
		if place, types := st.asked(); place != nil {
			f(place, types)
		}
	}
}

// Count counts the streams that are served 1:1, by upstream.
func (s *Server) Count() map[string]int {
	n := make(map[string]int)
	for _, st := range s.All() {
		if place := st.placed(); place != nil {
			n[place.Origin().Upstream]++
		}
	}
	return n
}

// The statuses of streams that a change ends.
var (
	// ErrCached has a client come again that is served from the cache.
	ErrCached = downstream.Moved("the client is not served 1:1 any more: connect again")
	// ErrMoved has a client come again, and be found where it belongs.
	ErrMoved = downstream.Moved("the client belongs elsewhere now, or its control plane is reached in another way: connect again")
	// ErrNarrowed has a client come again whose access rules have changed.
	ErrNarrowed = downstream.Moved("what the client may have has changed: connect again")
)
