package upstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// web has the HTTP connections of an upstream that is polled. Its methods may be called
// from any goroutine.
type web struct {
	// Immutable after newWeb.
	cfg *Config
	keyring
	doors map[*endpoint]*http.Transport
	tcp   func(ctx context.Context, network, address string) (net.Conn, error)
}

func newWeb(cfg *Config, keys keyring, all *replicas) (*web, error) {
	w := &web{cfg: cfg, keyring: keys, doors: make(map[*endpoint]*http.Transport), tcp: cfg.Dial.Connect}
	if w.tcp == nil {
		w.tcp = new(net.Dialer).DialContext
	}
	for _, g := range all.groups {
		for _, e := range g.endpoints {
			host, _, err := net.SplitHostPort(e.target)
			if err != nil {
				return nil, fmt.Errorf("endpoint %q: %w", e.target, err)
			}
			w.doors[e] = w.door(host)
		}
	}
	return w, nil
}

// door makes the connections to an endpoint, whose host is name: a certificate must be for it,
// also where an address of it is dialled.
func (w *web) door(name string) *http.Transport {
	dial := func(ctx context.Context, _, address string) (net.Conn, error) { return w.dial(ctx, name, address) }
	return &http.Transport{
		DialContext: dial, DialTLSContext: dial,
		// Each type of each scope has a poll under way, or soon again.
		MaxIdleConnsPerHost: streamsPerConn,
		IdleConnTimeout:     2*w.cfg.Poll.Interval + time.Minute,
		DisableCompression:  true, // the limit is for decoded bytes, and must be for bytes on the wire
	}
}

// base is where a replica is polled.
func (w *web) base(x *replica) *url.URL {
	if w.tls != nil {
		return &url.URL{Scheme: "https", Host: x.address}
	}
	return &url.URL{Scheme: "http", Host: x.address}
}

// close implements transport.
func (w *web) close() {
	for _, door := range w.doors {
		door.CloseIdleConnections()
	}
}

// unreachableError says that no connection could be made.
type unreachableError struct{ error }

func (e unreachableError) Unwrap() error { return e.error }

// dial connects to an address of an endpoint, whose host is name. A handshake uses the
// certificate and roots as they are then.
func (w *web) dial(ctx context.Context, name, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, w.cfg.ConnectTimeout, errConnectTimeout)
	defer cancel()
	conn, err := w.connect(ctx, name, address)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, unreachableError{err}
	}
	return conn, nil
}

func (w *web) connect(ctx context.Context, name, address string) (net.Conn, error) {
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
	cfg, err := w.tls.Config()
	if err != nil {
		_ = conn.Close() // nothing was written
		return nil, err
	}
	cfg.NextProtos = []string{"http/1.1"} // polls gain nothing from sharing a connection
	if cfg.ServerName == "" {
		cfg.ServerName = name
	}
	secured := tls.Client(conn, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // of no use without the handshake
		return nil, err
	}
	return secured, nil
}

// reach implements transport. The connection is of no use to polls.
func (w *web) reach(ctx context.Context, x *replica) (release func(), err error) {
	host, _, _ := net.SplitHostPort(x.endpoint.target)
	conn, err := w.dial(ctx, host, x.address)
	if err != nil {
		return nil, err
	}
	_ = conn.Close() // nothing was written
	return func() {}, nil
}
