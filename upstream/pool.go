package upstream

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/xdsrelay/xdsrelay/internal/tlsfiles"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// streamsPerConn is how many streams share a connection. Servers and proxies
// commonly allow 100 and let further streams wait without a word, which would
// stall a scope for no visible reason.
const streamsPerConn = 50

// Static windows save the ping that grpc otherwise sends for every burst to
// measure bandwidth. A stream's covers a first state of some megabytes in one
// round trip; a connection's keeps some streams from waiting for each other.
const (
	streamWindow = 4 << 20
	connWindow   = 16 << 20
)

// pool has the gRPC connections of an upstream. Its methods may be called from any goroutine.
type pool struct {
	// Immutable after newPool.
	cfg   *Config
	creds credentials.TransportCredentials
	opts  [paces][]grpc.DialOption // by the pace of pings

	mu    sync.Mutex
	conns [][]*conn // by endpoint
	paces []pace    // by endpoint: of the connections that are made from now on (UPS-1)
}

// conn is a connection and how many users it has.
type conn struct {
	cc       *grpc.ClientConn
	endpoint int
	pace     pace
	users    int // guarded by pool.mu
}

// newPool makes a pool. TLS files are nil in plain text.
func newPool(cfg *Config, files *tlsfiles.Client) (*pool, error) {
	p := &pool{
		cfg: cfg, creds: insecure.NewCredentials(),
		conns: make([][]*conn, len(cfg.Endpoints)), paces: make([]pace, len(cfg.Endpoints)),
	}
	if files != nil {
		p.creds = files.Credentials()
	}
	p.creds = watchful{p.creds, cfg.Keepalive.Timeout}
	for i := range p.opts {
		p.opts[i] = p.dialOptions(pace(i))
	}
	for _, endpoint := range cfg.Endpoints {
		// Making a connection does no I/O and says whether the target makes sense.
		cc, err := grpc.NewClient(endpoint, p.opts[paceConfigured]...)
		if err != nil {
			return nil, fmt.Errorf("endpoint %q: %w", endpoint, err)
		}
		_ = cc.Close() // it was not in use
	}
	return p, nil
}

func (p *pool) dialOptions(at pace) []grpc.DialOption {
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(p.creds),
		grpc.WithUserAgent(userAgent()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wire.Codec()), grpc.MaxCallRecvMsgSize(p.cfg.MaxReceiveSize)),
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithKeepaliveParams(p.cfg.pings(at)),
		// A connection that sessions hold on to while it fails is dialled at this
		// pace, however many sessions there are.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: grpcbackoff.Config{BaseDelay: p.cfg.Backoff.Base, Multiplier: 2, Jitter: 0.5, MaxDelay: p.cfg.Backoff.Max},
			// Beyond our own timeout, which is the one to tell of.
			MinConnectTimeout: 2 * p.cfg.ConnectTimeout,
		}),
		// A connection without users is closed, and a stream is never retried but
		// by its session.
		grpc.WithIdleTimeout(0),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
	}
	if p.cfg.TLS != nil && p.cfg.TLS.ServerName != "" {
		opts = append(opts, grpc.WithAuthority(p.cfg.TLS.ServerName))
	}
	return append(opts, p.cfg.DialOptions...)
}

// close implements transport: each connection is closed by its last user.
func (*pool) close() {}

// acquire gives a connection to an endpoint with room for one more stream. It
// does no I/O. The caller must release it.
func (p *pool) acquire(endpoint int) (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.paces[endpoint]
	for _, c := range p.conns[endpoint] {
		if c.users < streamsPerConn && c.pace == at {
			c.users++
			return c, nil
		}
	}
	cc, err := grpc.NewClient(p.cfg.Endpoints[endpoint], p.opts[at]...)
	if err != nil {
		return nil, err
	}
	c := &conn{cc: cc, endpoint: endpoint, pace: at, users: 1}
	p.conns[endpoint] = append(p.conns[endpoint], c)
	return c, nil
}

// release gives a connection back; the last user's closes it.
func (p *pool) release(c *conn) {
	p.mu.Lock()
	c.users--
	last := c.users == 0
	if last {
		list := p.conns[c.endpoint]
		i := slices.Index(list, c)
		p.conns[c.endpoint] = slices.Delete(list, i, i+1)
	}
	p.mu.Unlock()
	if last {
		_ = c.cc.Close() // fails only where it is closed already
	}
}

// ready connects and says whether that succeeded before ctx ended.
func (c *conn) ready(ctx context.Context) bool {
	for {
		state := c.cc.GetState()
		switch state {
		case connectivity.Ready:
			return true
		case connectivity.TransientFailure, connectivity.Shutdown:
			return false
		case connectivity.Idle:
			c.cc.Connect()
		case connectivity.Connecting:
		}
		if !c.cc.WaitForStateChange(ctx, state) {
			return false
		}
	}
}

// reach implements transport.
func (p *pool) reach(ctx context.Context, endpoint int) (release func(), ok bool) {
	c, err := p.acquire(endpoint)
	if err != nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.ConnectTimeout)
	defer cancel()
	if !c.ready(ctx) {
		p.release(c)
		return nil, false
	}
	return func() { p.release(c) }, true
}
