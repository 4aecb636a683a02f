package loadreport

import (
	"context"
	"runtime"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/relay/streams"
)

// services are the names of the service, now and in v2. Its messages have not changed but in
// name.
var services = []string{
	"envoy.service.load_stats.v3.LoadReportingService",
	"envoy.service.load_stats.v2.LoadReportingService",
}

// Finder finds the place of a client. Its method may be called from any goroutine.
type Finder interface {
	// Find is given the node of a stream's first request, and the stream's context. The
	// error is a status that ends the stream.
	Find(ctx context.Context, node *corev3.Node) (Place, error)
}

// Place is where a client belongs. Its methods may be called from any goroutine.
type Place interface {
	// Scope is the scope that the client is in.
	Scope() *Scope
	// Allows reports whether the client may have a cluster.
	Allows(cluster string) bool
	// Check looks again after the configuration has changed. The error is a status that ends
	// the client's stream.
	Check() error
	// Close gives the place back.
	Close()
}

// Server serves the clients that report (LRS-1). Its methods may be called from any
// goroutine.
type Server struct {
	streams.Set[*stream]

	finder Finder
	nodeOf NodeOf
	end    func(grpc.ServerStream, error)
	turns  chan struct{} // one for each report that is decoded now
}

// NodeOf decodes the node of a stream's first request. The error is a status that ends the stream.
type NodeOf func(ctx context.Context, encoded []byte) (*corev3.Node, error)

// NewServer returns a server. end ends a stream with a status, from any goroutine: reading
// and sending fail then.
func NewServer(finder Finder, nodeOf NodeOf, end func(grpc.ServerStream, error), panics *logs.Panics) *Server {
	return &Server{
		Set:    streams.Set[*stream]{Draining: errDraining, Panics: panics, Part: logs.PartLoadReports},
		finder: finder, nodeOf: nodeOf, end: end, turns: make(chan struct{}, runtime.GOMAXPROCS(0)),
	}
}

// Register has a gRPC server serve it.
func (s *Server) Register(g grpc.ServiceRegistrar) {
	for _, name := range services {
		g.RegisterService(&grpc.ServiceDesc{ServiceName: name, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
			StreamName: "StreamLoadStats", ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, g grpc.ServerStream) error { return s.serve(g) },
		}}}, s)
	}
}

var errDraining = status.Error(codes.Unavailable, "draining: connect to another replica")

// serve runs a client's stream.
func (s *Server) serve(g grpc.ServerStream) error {
	st := &stream{server: s, grpc: g, done: make(chan struct{})}
	if err := s.Add(st); err != nil {
		return err
	}
	defer s.Remove(st)
	return st.serve()
}

// Recheck has each client's place looked at again, at a random moment within spread: the
// configuration has changed.
func (s *Server) Recheck(spread time.Duration) {
	for _, st := range s.All() {
		s.Later(spread, st, st.check)
	}
}
