package tlsfiles

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/xdsrelay/xdsrelay/internal/contain"
)

// ClientConfig says which files a client uses. All are PEM.
type ClientConfig struct {
	// CertFile and KeyFile are what the client shows of itself (mutual TLS):
	// both or neither.
	CertFile, KeyFile string
	// CAFile holds the roots that the server must chain to; the system's
	// without it.
	CAFile string
	// ServerName is what the server's certificate must be for, and the SNI; the
	// host of the endpoint without it.
	ServerName string
	// Refresh is how often the files are looked at; DefaultRefresh if 0.
	Refresh time.Duration
	// Report is called with the reason when changed files cannot be used (once
	// for each reason; the last good ones stay in use), and with nil when changed
	// files were taken up or the trouble reported before is over. It is called
	// from the goroutine that looks after the files, must not block for long and
	// must not call Close.
	Report func(error)
	// Panics catches a panic in that goroutine, which goes on after a pause (SUR-6); nil: none
	// is caught.
	Panics *contain.Panics
}

// Client is the client's side of TLS, always with the newest good files.
type Client struct {
	w          *watcher
	serverName string
}

// NewClient reads the files of cfg. The error names the file and what is wrong
// with it. Close ends the watching.
func NewClient(cfg ClientConfig) (*Client, error) {
	w, err := newWatcher(files{cert: cfg.CertFile, key: cfg.KeyFile, ca: cfg.CAFile}, cfg.Refresh, cfg.Report, cfg.Panics)
	if err != nil {
		return nil, fmt.Errorf("tls client: %w", err)
	}
	return &Client{w: w, serverName: cfg.ServerName}, nil
}

// Config returns a configuration with the files as they are now: TLS 1.2 at
// least, ALPN h2. It is the caller's own and does not change afterwards, so it
// is to be asked for anew for every connection.
func (c *Client) Config() *tls.Config {
	m := c.w.current.Load()
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2"},
		ServerName: c.serverName,
		RootCAs:    m.roots,
	}
	if m.cert != nil {
		cfg.Certificates = []tls.Certificate{*m.cert}
	}
	return cfg
}

// Credentials returns what a grpc client dials with: every handshake uses the
// files as they are then.
func (c *Client) Credentials() credentials.TransportCredentials {
	return &clientCredentials{client: c, serverName: c.serverName}
}

// Close stops watching the files and waits for that; what was made from them
// goes on working with the last good ones.
func (c *Client) Close() { c.w.close() }

// clientCredentials lends every handshake a configuration of its own. A
// tls.Config has no hook for the roots on the client's side but switching the
// verification off and doing it by hand, and that is not a thing to do by hand.
type clientCredentials struct {
	client     *Client
	serverName string
}

func (c *clientCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if c.serverName != "" {
		authority = c.serverName
	}
	return credentials.NewTLS(c.client.Config()).ClientHandshake(ctx, authority, conn)
}

func (c *clientCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errClientOnly
}

func (c *clientCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (c *clientCredentials) Clone() credentials.TransportCredentials {
	clone := *c
	return &clone
}

// OverrideServerName is part of the interface though deprecated there; grpc no
// longer calls it.
func (c *clientCredentials) OverrideServerName(name string) error {
	c.serverName = name
	return nil
}
