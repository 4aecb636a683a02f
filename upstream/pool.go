package upstream

import (
	"context"
	"fmt"
	"log/slog"
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

// Upstream is one control plane: its endpoints, and the connections to them
// that the sessions share. Its methods may be called from any goroutine.
type Upstream struct {
	// Immutable after New.
	cfg   Config
	creds credentials.TransportCredentials
	tls   *tlsfiles.Client         // nil in plain text
	opts  [paces][]grpc.DialOption // by the pace of pings

	*roster
	*health

	entrance *entrance

	mu    sync.Mutex
	conns [][]*conn // by endpoint
	paces []pace    // by endpoint: of the connections that are made from now on (UPS-1)
}

// conn is a connection and how many users it has.
type conn struct {
	*grpc.ClientConn
	endpoint int
	pace     pace
	users    int // guarded by Upstream.mu
}

// New checks cfg and reads its TLS files. It connects to nothing: sessions do.
// Close must be called.
func New(cfg Config) (*Upstream, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("upstream %q: %w", cfg.Name, err)
	}
	u := &Upstream{
		cfg:    cfg,
		creds:  insecure.NewCredentials(),
		roster: newRoster(),
		health: newHealth(len(cfg.Endpoints)),

		entrance: newEntrance(cfg.Outages, cfg.BackoffBase, cfg.BackoffMax),

		conns: make([][]*conn, len(cfg.Endpoints)),
		paces: make([]pace, len(cfg.Endpoints)),
	}
	if cfg.TLS != nil {
		files := *cfg.TLS
		if files.Report == nil {
			files.Report = func(err error) { reportFiles(cfg.Logger, err) }
		}
		if u.tls, err = tlsfiles.NewClient(files); err != nil {
			return nil, fmt.Errorf("upstream %q: %w", cfg.Name, err)
		}
		u.creds = u.tls.Credentials()
	}
	u.creds = watchful{u.creds, cfg.KeepaliveTimeout}
	for i := range u.opts {
		u.opts[i] = u.dialOptions(pace(i))
	}
	for _, endpoint := range cfg.Endpoints {
		// Making a connection does no I/O and says whether the target makes sense.
		cc, err := grpc.NewClient(endpoint, u.opts[paceConfigured]...)
		if err != nil {
			u.Close()
			return nil, fmt.Errorf("upstream %q: endpoint %q: %w", cfg.Name, endpoint, err)
		}
		_ = cc.Close() // it was not in use
	}
	return u, nil
}

// reportFiles tells the operator what became of changed TLS files.
func reportFiles(log *slog.Logger, err error) {
	if err != nil {
		log.Error("TLS files cannot be used, keeping the last good ones", "error", err)
		return
	}
	log.Info("TLS files taken up")
}

func (u *Upstream) dialOptions(p pace) []grpc.DialOption {
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(u.creds),
		grpc.WithUserAgent(userAgent()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wire.Codec()), grpc.MaxCallRecvMsgSize(u.cfg.MaxReceiveSize)),
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithKeepaliveParams(u.cfg.pings(p)),
		// A connection that sessions hold on to while it fails is dialled at this
		// pace, however many sessions there are.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: grpcbackoff.Config{BaseDelay: u.cfg.BackoffBase, Multiplier: 2, Jitter: 0.5, MaxDelay: u.cfg.BackoffMax},
			// Beyond our own timeout, which is the one to tell of.
			MinConnectTimeout: 2 * u.cfg.ConnectTimeout,
		}),
		// A connection without users is closed, and a stream is never retried but
		// by its session.
		grpc.WithIdleTimeout(0),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
	}
	if u.cfg.TLS != nil && u.cfg.TLS.ServerName != "" {
		opts = append(opts, grpc.WithAuthority(u.cfg.TLS.ServerName))
	}
	return append(opts, u.cfg.DialOptions...)
}

// Close ends the sessions, whose Run returns ErrClosed, waits for them and
// closes what is left.
func (u *Upstream) Close() {
	u.close()
	u.entrance.shut()
	if u.tls != nil {
		u.tls.Close()
	}
}

// acquire gives a connection to an endpoint with room for one more stream. It
// does no I/O. The caller must release it.
func (u *Upstream) acquire(endpoint int) (*conn, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.paces[endpoint]
	for _, c := range u.conns[endpoint] {
		if c.users < streamsPerConn && c.pace == p {
			c.users++
			return c, nil
		}
	}
	cc, err := grpc.NewClient(u.cfg.Endpoints[endpoint], u.opts[p]...)
	if err != nil {
		return nil, err
	}
	c := &conn{ClientConn: cc, endpoint: endpoint, pace: p, users: 1}
	u.conns[endpoint] = append(u.conns[endpoint], c)
	return c, nil
}

// release gives a connection back; the last user's closes it.
func (u *Upstream) release(c *conn) {
	u.mu.Lock()
	c.users--
	last := c.users == 0
	if last {
		list := u.conns[c.endpoint]
		i := slices.Index(list, c)
		u.conns[c.endpoint] = slices.Delete(list, i, i+1)
	}
	u.mu.Unlock()
	if last {
		_ = c.Close() // fails only where it is closed already
	}
}

// ready connects and says whether that succeeded before ctx ended.
func (c *conn) ready(ctx context.Context) bool {
	for {
		state := c.GetState()
		switch state {
		case connectivity.Ready:
			return true
		case connectivity.TransientFailure, connectivity.Shutdown:
			return false
		case connectivity.Idle:
			c.Connect()
		case connectivity.Connecting:
		}
		if !c.WaitForStateChange(ctx, state) {
			return false
		}
	}
}
