package loadreport

import (
	"context"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/logs"
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
	// Panics is as in Scopes.
	Panics *logs.Panics

	finder Finder
	nodeOf NodeOf
	end    func(grpc.ServerStream, error)
	turns  chan struct{} // one for each report that is decoded now

	mu       sync.Mutex // guards what follows
	draining bool
	streams  map[*stream]struct{}
}

// NodeOf decodes the node of a stream's first request. The error is a status that ends the stream.
type NodeOf func(ctx context.Context, encoded []byte) (*corev3.Node, error)

// NewServer returns a server. end ends a stream with a status, from any goroutine: reading
// and sending fail then.
func NewServer(finder Finder, nodeOf NodeOf, end func(grpc.ServerStream, error)) *Server {
	return &Server{
		finder: finder, nodeOf: nodeOf, end: end,
		turns: make(chan struct{}, runtime.GOMAXPROCS(0)), streams: make(map[*stream]struct{}),
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
	st := &stream{server: s, grpc: g, done: make(chan struct{}), timer: time.NewTimer(0)}
	st.timer.Stop()
	if err := s.open(st); err != nil {
		return err
	}
	defer s.close(st)
	return st.serve()
}

func (s *Server) open(st *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return errDraining
	}
	s.streams[st] = struct{}{}
	return nil
}

func (s *Server) close(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, st)
	st.timer.Stop()
}

// Drain refuses new streams, and ends the present ones, each at a random moment within spread.
func (s *Server) Drain(spread time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	s.within(spread, func(st *stream) { st.end(errDraining) })
}

// Recheck has each client's place looked at again, at a random moment within spread: the
// configuration has changed.
func (s *Server) Recheck(spread time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.within(spread, (*stream).check)
}

// End ends each stream for whose context why gives a status.
func (s *Server) End(why func(context.Context) error) {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.streams))
	s.mu.Unlock()
	for _, st := range all {
		if err := why(st.grpc.Context()); err != nil {
			st.end(err)
		}
	}
}

// within does something with each stream. The caller holds mu.
func (s *Server) within(spread time.Duration, f func(*stream)) {
	for st := range s.streams {
		after := rand.N(max(0, spread) + 1) //nolint:gosec // spreading, not secrecy
		st.timer.Stop()                     // of the reload before
		st.timer = time.AfterFunc(after, s.Panics.Func(logs.PartLoadReports, func() { f(st) }))
	}
}
