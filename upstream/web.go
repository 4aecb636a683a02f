package upstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/tlsfiles"
)

// web has the HTTP connections of an upstream that is polled. Its methods may be called
// from any goroutine.
type web struct {
	// Immutable after newWeb.
	cfg       *Config
	tls       *tlsfiles.Client // nil in plain text
	bases     []*url.URL       // by endpoint
	transport *http.Transport
	tcp       func(ctx context.Context, network, address string) (net.Conn, error)
}

// newWeb makes a web. TLS files are nil in plain text.
func newWeb(cfg *Config, files *tlsfiles.Client) (*web, error) {
	w := &web{cfg: cfg, tls: files, tcp: new(net.Dialer).DialContext}
	scheme := "http"
	if files != nil {
		scheme = "https"
	}
	for _, endpoint := range cfg.Endpoints {
		if _, _, err := net.SplitHostPort(endpoint); err != nil {
			return nil, fmt.Errorf("endpoint %q: %w", endpoint, err)
		}
		w.bases = append(w.bases, &url.URL{Scheme: scheme, Host: endpoint})
	}
	dial := func(ctx context.Context, _, address string) (net.Conn, error) { return w.dial(ctx, address) }
	w.transport = &http.Transport{
		DialContext: dial, DialTLSContext: dial,
		// Each type of each scope has a poll under way, or soon again.
		MaxIdleConnsPerHost: streamsPerConn,
		IdleConnTimeout:     2*cfg.Poll.Interval + time.Minute,
		DisableCompression:  true, // the limit is for what was decoded, and must be for what is sent
	}
	return w, nil
}

// close implements transport.
func (w *web) close() { w.transport.CloseIdleConnections() }

// unreachableError says that no connection could be made.
type unreachableError struct{ error }

func (e unreachableError) Unwrap() error { return e.error }

// dial connects to an endpoint. A handshake uses the TLS files as they are then.
func (w *web) dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, w.cfg.ConnectTimeout, errConnectTimeout)
	defer cancel()
	conn, err := w.connect(ctx, address)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, unreachableError{err}
	}
	return conn, nil
}

func (w *web) connect(ctx context.Context, address string) (net.Conn, error) {
	conn, err := w.tcp(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if err := watchConn(conn, DefaultKeepaliveTimeout); err != nil {
		_ = conn.Close() // nothing was written
		return nil, err
	}
	if w.tls == nil {
		return conn, nil
	}
	cfg := w.tls.Config()
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

// reach implements transport. The connection is of no use to polls.
func (w *web) reach(ctx context.Context, endpoint int) (release func(), ok bool) {
	conn, err := w.dial(ctx, w.cfg.Endpoints[endpoint])
	if err != nil {
		return nil, false
	}
	_ = conn.Close() // nothing was written
	return func() {}, true
}
