package downstream

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

// Defaults of Config.
const (
	DefaultMaxMessageSize = 4<<20 - 64<<10
	DefaultMaxReceiveSize = 16 << 20
	DefaultAckWait        = 200 * time.Millisecond
	DefaultMaxPolls       = 1 << 16
)

// maxParts is how many parts of one split response may be on their way together
// before they are acknowledged.
const maxParts = 8

// window is the flow-control window of a connection and of a stream. A fixed one
// turns the bandwidth estimation off, whose ping after each ACK costs more than
// the ACK.
const window = 1 << 20

// handshakeTimeout is how long a new connection may take until it speaks HTTP/2:
// short, because Stop and Drain wait for those that have not yet, and long enough
// for thousands of TLS handshakes at once after a restart.
const handshakeTimeout = 10 * time.Second

// Config says how a server treats its clients.
type Config struct {
	Limits

	Credentials    credentials.TransportCredentials // nil: plain text
	MaxReceiveSize int                              // bytes; larger requests are refused
	MaxPolls       int                              // at a time (OPS-5)
	Keepalive      keepalive.ServerParameters
	DebugServices  bool // gRPC reflection and channelz
	// FullState are the types whose state-of-the-world responses are always complete
	// (RES-2), as in the stores; nil: keyer.FullStateTypes.
	FullState map[string]bool

	// Identifier is what the relay calls itself towards clients, behind what control planes
	// do (STR-10); "" leaves it out.
	Identifier string

	Router   Router
	Observer Observer     // nil: nobody
	Log      *slog.Logger // nil: nowhere
}

// Server serves the discovery services to clients.
type Server struct {
	// immutable after NewServer
	config   Config // but for its Limits, which only begin as they are there
	observer Observer
	log      *slog.Logger
	grpc     *grpc.Server
	health   *health.Server
	drain    chan struct{} // closed when draining begins
	stop     chan struct{} // closed when everybody is cut off
	payloads *payloads
	pollers  *pollers
	rejected *rejectionLog
	bodies   atomic.Int64 // bytes of large bodies of polls that are being read
	seed     maphash.Seed

	limits     atomic.Pointer[Limits]
	identifier atomic.Pointer[string]

	drainOnce  sync.Once
	stopOnce   sync.Once
	spread     atomic.Int64 // nanoseconds over which streams are closed; set before drain closes
	moveSpread atomic.Int64 // nanoseconds over which streams end that have to move
	lastID     atomic.Uint64
	plans      atomic.Uint64 // counts Reroute

	senders *senders
	polling sync.WaitGroup // the handlers of polls; none is added once drain or stop is closed

	mu      sync.Mutex // guards what follows
	streams map[uint64]*stream
	polls   map[uint64]*poll // those that are held

	pollCount int // handlers of polls
}

// NewServer returns a server that is not serving yet.
func NewServer(c Config) *Server {
	c.MaxReceiveSize = cmp.Or(c.MaxReceiveSize, DefaultMaxReceiveSize)
	c.MaxPolls = cmp.Or(c.MaxPolls, DefaultMaxPolls)
	if c.FullState == nil {
		c.FullState = keyer.TypeSet(keyer.FullStateTypes())
	}
	s := &Server{
		config:   c,
		observer: c.Observer,
		log:      c.Log,
		drain:    make(chan struct{}),
		stop:     make(chan struct{}),
		streams:  make(map[uint64]*stream),
		polls:    make(map[uint64]*poll),
		payloads: newPayloads(maxPayloadBytes),
		pollers:  newPollers(),
		senders:  newSenders(),
		health:   health.NewServer(),
		seed:     maphash.MakeSeed(),
	}
	s.SetLimits(c.Limits)
	s.SetIdentifier(c.Identifier)
	if s.observer == nil {
		s.observer = silent{}
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.rejected = newRejectionLog(s.log)
	opts := []grpc.ServerOption{
		grpc.ForceServerCodecV2(wire.Codec()),
		grpc.MaxRecvMsgSize(c.MaxReceiveSize),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(window),
		grpc.KeepaliveParams(c.Keepalive),
		grpc.WaitForHandlers(true),
		grpc.ConnectionTimeout(handshakeTimeout),
		// Clients decide how often they ping; a fleet that is cut off for it comes
		// back at once.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	}
	if c.Credentials != nil {
		opts = append(opts, grpc.Creds(c.Credentials))
	}
	s.grpc = grpc.NewServer(opts...)
	s.register(s.grpc)
	healthpb.RegisterHealthServer(s.grpc, s.health)
	if c.DebugServices {
		reflection.Register(s.grpc)
		service.RegisterChannelzServiceToServer(s.grpc)
	}
	return s
}

// SetServing says whether the relay can serve anybody, for clients of gRPC's health service
// (ABS-2). Once draining began it has no effect.
func (s *Server) SetServing(serving bool) {
	state := healthpb.HealthCheckResponse_SERVING
	if !serving {
		state = healthpb.HealthCheckResponse_NOT_SERVING
	}
	s.health.SetServingStatus("", state)
}

// Serve accepts clients on lis until Stop or Drain, and closes it. The error is
// the listener's; nil after Stop and Drain.
func (s *Server) Serve(lis net.Listener) error { return s.grpc.Serve(lis) }

// Drain refuses new streams and polls and closes the present ones, each at a random
// moment within spread, so that the fleet does not arrive elsewhere all at once
// (OPS-4). It returns when all are closed; if ctx ends first, the rest is cut off: a
// client that does not read cannot be told to go.
func (s *Server) Drain(ctx context.Context, spread time.Duration) {
	s.drainOnce.Do(func() {
		s.spread.Store(int64(max(0, spread)))
		s.health.Shutdown()
		s.mu.Lock() // no stream and no poll begins after it
		defer s.mu.Unlock()
		close(s.drain)
		for _, st := range s.streams {
			time.AfterFunc(s.leaving(), func() { _ = st.end(errDraining) })
		}
	})
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		s.grpc.GracefulStop()
		s.polling.Wait()
		close(done)
	})
	select {
	case <-done:
	case <-ctx.Done():
		s.cutOff()
	}
	wg.Wait()
	s.senders.stop()
}

// leaving is how long somebody may stay who is there when draining begins.
func (s *Server) leaving() time.Duration {
	return rand.N(time.Duration(s.spread.Load()) + 1) //nolint:gosec // spreading, not secrecy
}

var errDraining = status.Error(codes.Unavailable, "draining: connect to another replica")

// Stop cuts all streams and polls off, and waits for their ends. A poll whose client
// does not read its answer ends when its connection is closed, or a while later.
func (s *Server) Stop() {
	s.cutOff()
	s.senders.stop()
	s.polling.Wait()
	s.rejected.end()
}

func (s *Server) cutOff() {
	s.stopOnce.Do(func() {
		s.mu.Lock() // no poll begins after it
		defer s.mu.Unlock()
		close(s.stop)
	})
	s.grpc.Stop()
}

// stopped reports whether everybody was cut off.
func (s *Server) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// draining reports whether Drain was called.
func (s *Server) draining() bool {
	select {
	case <-s.drain:
		return true
	default:
		return false
	}
}
