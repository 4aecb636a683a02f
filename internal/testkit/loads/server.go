// Package loads is the load reporting service of a control plane under test: it asks for
// reports, adds them up by scope, and watches how it is reported to.
package loads

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	loadv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Server is the service. What is a scope the cluster of a stream's node says. Its methods may
// be called from any goroutine.
type Server struct {
	Book Book // of all reports

	mu     sync.Mutex // guards what follows
	wants  *loadv3.LoadStatsResponse
	open   map[string]int // streams now, by node id
	ever   int            // streams
	kill   chan struct{}  // closed to end all streams
	nodes  []*corev3.Node // of all streams
	tokens []string       // likewise: their authorization
	faults []string
}

// New returns a server that asks for all clusters, at an interval.
func New(interval time.Duration) *Server {
	return &Server{
		open: make(map[string]int), kill: make(chan struct{}),
		wants: &loadv3.LoadStatsResponse{SendAllClusters: true, LoadReportingInterval: durationpb.New(interval)},
	}
}

// Register has a gRPC server serve it.
func (s *Server) Register(g grpc.ServiceRegistrar) { loadv3.RegisterLoadReportingServiceServer(g, s) }

// Option has a gRPC server serve it that registers its services by itself.
func (s *Server) Option() grpc.ServerOption {
	return grpc.UnknownServiceHandler(func(_ any, g grpc.ServerStream) error {
		if method, _ := grpc.MethodFromServerStream(g); method != loadv3.LoadReportingService_StreamLoadStats_FullMethodName {
			return status.Error(codes.Unimplemented, "unknown service")
		}
		return s.StreamLoadStats(&grpc.GenericServerStream[loadv3.LoadStatsRequest, loadv3.LoadStatsResponse]{ServerStream: g})
	})
}

// StreamLoadStats implements the service.
func (s *Server) StreamLoadStats(g loadv3.LoadReportingService_StreamLoadStatsServer) error {
	first, err := g.Recv()
	if err != nil {
		return err
	}
	scope := first.GetNode().GetCluster()
	answer, kill := s.opened(g.Context(), first)
	defer s.closed(first.GetNode().GetId())
	if err := g.Send(answer); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		for {
			r, err := g.Recv()
			if err != nil {
				ended <- err
				return
			}
			s.Book.Add(scope, r.GetClusterStats())
		}
	}()
	select {
	case <-kill:
		return status.Error(codes.Unavailable, "broken")
	case err := <-ended:
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
}

func (s *Server) opened(ctx context.Context, first *loadv3.LoadStatsRequest) (*loadv3.LoadStatsResponse, chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ever++
	id := first.GetNode().GetId()
	s.open[id]++
	if s.open[id] > 1 {
		s.faults = append(s.faults, fmt.Sprintf("%d streams of node %q", s.open[id], id))
	}
	if len(first.GetClusterStats()) > 0 {
		s.faults = append(s.faults, "a report before it was asked for")
	}
	s.nodes = append(s.nodes, first.GetNode())
	s.tokens = append(s.tokens, metadata.ValueFromIncomingContext(ctx, "authorization")...)
	return s.wants, s.kill
}

func (s *Server) closed(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[id]--
}

// Want changes what streams are asked for that are opened from now on.
func (s *Server) Want(r *loadv3.LoadStatsResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wants = r
}

// Break ends all streams.
func (s *Server) Break() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.kill)
	s.kill = make(chan struct{})
}

// Streams are how many streams there are now, and ever were.
func (s *Server) Streams() (now, ever int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.open {
		now += n
	}
	return now, s.ever
}

// Presented are the nodes of all streams, and their authorization.
func (s *Server) Presented() (nodes []*corev3.Node, tokens []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.nodes), slices.Clone(s.tokens)
}

// Faults are what a relay must not do.
func (s *Server) Faults() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.faults)
}
