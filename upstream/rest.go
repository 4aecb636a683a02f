package upstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/tlsfiles"
)

// RESTConfig describes a control plane that is polled (VAR-5). Zero values mean the
// defaults; those without a word here are as in [Config].
type RESTConfig struct {
	Name      string
	Endpoints []string // "host:port" in order of priority (LOC-6)
	FullState map[string]bool
	TLS       *tlsfiles.ClientConfig // nil: http, else https

	Metadata map[string][]string // HTTP headers, as gRPC metadata has them

	MaxReceiveSize int
	// MaxRequestSize bounds the names of a poll, in bytes: above it those that nobody
	// watches are let go (RES-17).
	MaxRequestSize int
	ConnectTimeout time.Duration
	// PollInterval is the time from the end of a poll to the next one, give or take a
	// quarter (REST-3); PollTimeout is how long one may take. A server may hold it.
	PollInterval, PollTimeout time.Duration
	// AbsentAfter is what the Store has for cache.Source.Absent, so that no clock is
	// stopped before it may have run out; 0 stands for the least that is of use, a second.
	AbsentAfter             time.Duration
	BackoffBase, BackoffMax time.Duration
	FailbackInterval        time.Duration
	Batch                   time.Duration
	Outages                 *Outages

	Logger *slog.Logger
}

func (c RESTConfig) withDefaults() (RESTConfig, error) {
	err := c.common().withDefaults(
		setting[time.Duration]{"poll interval", &c.PollInterval, DefaultPollInterval},
		setting[time.Duration]{"poll timeout", &c.PollTimeout, DefaultPollTimeout},
		setting[time.Duration]{"time of absence", &c.AbsentAfter, 0},
	)
	return c, err
}

// common are the settings that all servers have.
func (c *RESTConfig) common() common {
	return common{
		name: c.Name, endpoints: c.Endpoints, fullState: &c.FullState,
		receive: &c.MaxReceiveSize, request: &c.MaxRequestSize,
		connect: &c.ConnectTimeout, backoffBase: &c.BackoffBase, backoffMax: &c.BackoffMax,
		failback: &c.FailbackInterval, batch: &c.Batch, logger: &c.Logger,
	}
}

// REST is a control plane that is polled: its endpoints, and the connections to them
// that the sessions share. Its methods may be called from any goroutine.
type REST struct {
	// Immutable after NewREST.
	cfg       RESTConfig
	bases     []*url.URL       // by endpoint
	tls       *tlsfiles.Client // nil in plain text
	transport *http.Transport
	tcp       func(ctx context.Context, network, address string) (net.Conn, error)

	*roster
	*health

	entrance *entrance
}

// NewREST checks cfg and reads its TLS files. It connects to nothing: sessions do.
// Close must be called.
func NewREST(cfg RESTConfig) (*REST, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("upstream %q: %w", cfg.Name, err)
	}
	u := &REST{
		cfg: cfg, roster: newRoster(), health: newHealth(len(cfg.Endpoints)), tcp: new(net.Dialer).DialContext,
		entrance: newEntrance(cfg.Outages, cfg.BackoffBase, cfg.BackoffMax),
	}
	scheme := "http"
	if cfg.TLS != nil {
		scheme = "https"
		files := *cfg.TLS
		if files.Report == nil {
			files.Report = func(err error) { reportFiles(cfg.Logger, err) }
		}
		if u.tls, err = tlsfiles.NewClient(files); err != nil {
			return nil, fmt.Errorf("upstream %q: %w", cfg.Name, err)
		}
	}
	for _, endpoint := range cfg.Endpoints {
		if _, _, err := net.SplitHostPort(endpoint); err != nil {
			u.Close()
			return nil, fmt.Errorf("upstream %q: endpoint %q: %w", cfg.Name, endpoint, err)
		}
		u.bases = append(u.bases, &url.URL{Scheme: scheme, Host: endpoint})
	}
	u.transport = &http.Transport{
		DialContext:    func(ctx context.Context, _, address string) (net.Conn, error) { return u.dial(ctx, address) },
		DialTLSContext: func(ctx context.Context, _, address string) (net.Conn, error) { return u.dial(ctx, address) },
		// Each type of each scope has a poll under way, or soon again.
		MaxIdleConnsPerHost: streamsPerConn,
		IdleConnTimeout:     2*cfg.PollInterval + time.Minute,
		DisableCompression:  true, // the limit is for what was decoded, and must be for what is sent
	}
	return u, nil
}

// Close ends the sessions, whose Run returns ErrClosed, waits for them and closes
// what is left.
func (u *REST) Close() {
	u.close()
	u.entrance.shut()
	if u.transport != nil {
		u.transport.CloseIdleConnections()
	}
	if u.tls != nil {
		u.tls.Close()
	}
}

// unreachableError says that no connection could be made.
type unreachableError struct{ error }

func (e unreachableError) Unwrap() error { return e.error }

// dial connects to an endpoint. A handshake uses the TLS files as they are then.
func (u *REST) dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, u.cfg.ConnectTimeout, errConnectTimeout)
	defer cancel()
	conn, err := u.connect(ctx, address)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, unreachableError{err}
	}
	return conn, nil
}

func (u *REST) connect(ctx context.Context, address string) (net.Conn, error) {
	conn, err := u.tcp(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if err := watchConn(conn, DefaultKeepaliveTimeout); err != nil {
		_ = conn.Close() // nothing was written
		return nil, err
	}
	if u.tls == nil {
		return conn, nil
	}
	cfg := u.tls.Config()
	cfg.NextProtos = []string{"http/1.1"} // polls gain nothing from sharing a connection
	if cfg.ServerName == "" {
		cfg.ServerName, _, err = net.SplitHostPort(address)
	}
	secured := tls.Client(conn, cfg)
	if err == nil {
		err = secured.HandshakeContext(ctx)
	}
	if err != nil {
		_ = conn.Close() // of no use without the handshake
		return nil, err
	}
	return secured, nil
}

// reaches says whether an endpoint takes connections, and notes it for the others.
func (u *REST) reaches(ctx context.Context, endpoint int) bool {
	conn, err := u.dial(ctx, u.cfg.Endpoints[endpoint])
	if err == nil {
		_ = conn.Close() // nothing was written
	}
	if ctx.Err() == nil {
		u.found(endpoint, err == nil)
	}
	return err == nil
}

// Reach connects to the endpoints in order of priority until one answers. The error is
// that none did before ctx ended or its connect timeout ran out.
func (u *REST) Reach(ctx context.Context) error {
	if err := u.enter(); err != nil {
		return err
	}
	defer u.leave()
	for i := range u.cfg.Endpoints {
		if u.reaches(ctx, i) {
			return nil
		}
	}
	return fmt.Errorf("upstream %q: no endpoint answers", u.cfg.Name)
}
