package baseline

import (
	"fmt"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
)

// window is the relay's flow-control window (package downstream): a fixed one turns
// the estimation of bandwidth off.
const window = 1 << 20

// service is the name of the one service.
const service = "envoy.service.discovery.v3.AggregatedDiscoveryService"

// Server is a baseline server.
type Server struct {
	grpc    *grpc.Server
	rest    *http.Server
	senders []*sender
	stop    chan struct{}
	running sync.WaitGroup
	next    atomic.Uint64 // spreads streams over the senders

	requests atomic.Int64
	streams  atomic.Int64

	mu     sync.Mutex
	tables map[string]*table // by type URL; their contents are guarded by mu
}

// New makes a server of the first revisions of these resources. Close must be called.
func New(sets ...content.Set) (*Server, error) {
	s := &Server{stop: make(chan struct{}), tables: make(map[string]*table)}
	for _, set := range sets {
		t, err := newTable(set)
		if err != nil {
			return nil, err
		}
		s.tables[set.TypeURL] = t
	}
	s.grpc = grpc.NewServer(
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(16<<20),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(window),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.WaitForHandlers(true),
		grpc.ConnectionTimeout(10*time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	)
	s.grpc.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{
			{StreamName: "DeltaAggregatedResources", ServerStreams: true, ClientStreams: true, Handler: s.handler(false)},
			{StreamName: "StreamAggregatedResources", ServerStreams: true, ClientStreams: true, Handler: s.handler(true)},
		},
	}, s)
	s.rest = &http.Server{Handler: s.polls(), ReadHeaderTimeout: 10 * time.Second}
	for range runtime.GOMAXPROCS(0) {
		sender := &sender{kick: make(chan struct{}, 1)}
		s.senders = append(s.senders, sender)
		s.running.Go(func() { sender.run(s.stop) })
	}
	return s, nil
}

// Serve accepts clients until Close, and closes the listener.
func (s *Server) Serve(lis net.Listener) error { return s.grpc.Serve(lis) }

// Close cuts all streams and polls off.
func (s *Server) Close() {
	s.grpc.Stop()
	_ = s.rest.Close() // an error is that of a listener
	close(s.stop)
	s.running.Wait()
}

// Update sends a revision of a resource to every stream that follows its type.
func (s *Server) Update(typeURL string, item, revision int) error {
	s.mu.Lock()
	t := s.tables[typeURL]
	if t == nil || item >= t.set.Count {
		s.mu.Unlock()
		return fmt.Errorf("there is no resource %d of type %s", item, typeURL)
	}
	err := t.update(item, revision)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	for _, sender := range s.senders {
		sender.ring()
	}
	return nil
}

// Requests is the number of requests that came until now.
func (s *Server) Requests() int { return int(s.requests.Load()) }

// Streams is the number of streams opened until now.
func (s *Server) Streams() int { return int(s.streams.Load()) }
