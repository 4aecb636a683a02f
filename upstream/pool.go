package upstream

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/xdsrelay/xdsrelay/internal/retry"
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
	token bearer // nil: no bearer token

	mu    sync.Mutex
	conns map[*replica][]*conn
}

// conn is a connection and how many users it has.
type conn struct {
	cc      *grpc.ClientConn
	replica *replica
	pace    pace
	users   int // guarded by pool.mu
}

func newPool(cfg *Config, keys keyring) (*pool, error) {
	p := &pool{
		cfg: cfg, creds: insecure.NewCredentials(), token: keys.token, conns: make(map[*replica][]*conn),
	}
	if keys.tls != nil {
		p.creds = keys.tls.Credentials()
	}
	p.creds = watchful{p.creds, cfg.Keepalive.Timeout}
	for _, endpoint := range slices.Concat(cfg.Endpoints...) {
		// Making a connection does no I/O and says whether the target makes sense.
		cc, err := grpc.NewClient(endpoint, p.dialOptions(paceConfigured, "")...)
		if err != nil {
			return nil, fmt.Errorf("endpoint %q: %w", endpoint, err)
		}
		_ = cc.Close() // it was not in use
	}
	return p, nil
}

// dialOptions are for a connection that is pinged at a pace. The authority is what the server
// is called in requests, and in its certificate; "" stands for the host that is dialled.
func (p *pool) dialOptions(at pace, authority string) []grpc.DialOption {
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(retry.PacedCredentials(p.creds)),
		grpc.WithUserAgent(UserAgent()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wire.Codec()), grpc.MaxCallRecvMsgSize(p.cfg.MaxReceiveSize)),
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithKeepaliveParams(p.cfg.pings(at)),
		// A connection that sessions hold on to while it fails is dialled at this
		// pace, however many sessions there are. redial has the pace of those that stand, and do not last.
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
		authority = p.cfg.TLS.ServerName
	}
	if authority != "" {
		opts = append(opts, grpc.WithAuthority(authority))
	}
	if connect := p.cfg.Dial.Connect; connect != nil {
		opts = append(opts, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return connect(ctx, "tcp", address)
		}))
	}
	return append(opts, p.cfg.Dial.Options...)
}

// close implements transport: each connection is closed by its last user.
func (*pool) close() {}

// acquire gives a connection to a replica with room for one more stream. It
// does no I/O. The caller must release it.
func (p *pool) acquire(x *replica) (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := x.endpoint.pace
	for _, c := range p.conns[x] {
		if c.users < streamsPerConn && c.pace == at {
			c.users++
			return c, nil
		}
	}
	cc, err := p.dial(x, at)
	if err != nil {
		return nil, err
	}
	c := &conn{cc: cc, replica: x, pace: at, users: 1}
	p.conns[x] = append(p.conns[x], c)
	return c, nil
}

// dial makes a connection. Where the relay has looked the name up gRPC does not, and asks no
// proxy, which NO_PROXY may forbid for the name only. The server is still called by the name.
func (p *pool) dial(x *replica, at pace) (*grpc.ClientConn, error) {
	if x.endpoint.host == "" {
		return grpc.NewClient(x.address, p.dialOptions(at, "")...)
	}
	return grpc.NewClient("passthrough:///"+x.address, append(p.dialOptions(at, x.endpoint.target), grpc.WithNoProxy())...)
}

// release gives a connection back; the last user's closes it.
func (p *pool) release(c *conn) {
	p.mu.Lock()
	c.users--
	last := c.users == 0
	if last {
		p.conns[c.replica] = slices.DeleteFunc(p.conns[c.replica], func(o *conn) bool { return o == c })
		if len(p.conns[c.replica]) == 0 {
			delete(p.conns, c.replica)
		}
	}
	p.mu.Unlock()
	if last {
		_ = c.cc.Close() // fails only where it is closed already
	}
}

// proxied reports whether connections to a target go through the environment's HTTP proxy.
// That looks names up by itself: the relay may not know them.
func proxied(target string) bool {
	via, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: "https", Host: target}})
	return err != nil || via != nil
}

// ready connects. The error is that this failed, or did not succeed before ctx ended.
func (c *conn) ready(ctx context.Context) error {
	for {
		state := c.cc.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure, connectivity.Shutdown:
			return c.failure(ctx)
		case connectivity.Idle:
			c.cc.Connect()
		case connectivity.Connecting:
		}
		if !c.cc.WaitForStateChange(ctx, state) {
			return context.Cause(ctx)
		}
	}
}

// failure is why the connection failed; nil if it is there after all. gRPC says it to
// streams only: one that is begun while there is no connection fails at once, and nothing
// of it is written.
func (c *conn) failure(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, err := c.cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName)
	return err
}

// reach implements transport.
func (p *pool) reach(ctx context.Context, x *replica) (release func(), err error) {
	c, err := p.acquire(x)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.cfg.ConnectTimeout, errConnectTimeout)
	defer cancel()
	if err := c.ready(ctx); err != nil {
		p.release(c)
		return nil, err
	}
	return func() { p.release(c) }, nil
}
