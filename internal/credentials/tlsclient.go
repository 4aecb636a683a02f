package credentials

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/xdsrelay/xdsrelay/internal/logs"
)

// TLSClientConfig says which files a client uses, all PEM, or which SPIFFE Workload API.
type TLSClientConfig struct {
	// CertFile and KeyFile are what the client shows of itself (mutual TLS):
	// both or neither.
	CertFile, KeyFile string
	// SPIFFE takes the place of the three files, and of ServerName: the server is who its SPIFFE ID
	// says, whatever its host is called.
	SPIFFE *WorkloadParty
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
	Panics *logs.Panics
}

// TLSClient is the client's side of TLS, always with the newest good files.
type TLSClient struct {
	from       source
	serverName string
}

// NewTLSClient reads the files of cfg. The error names the file and what is wrong
// with it. A Workload API need not be there. Close ends the watching.
func NewTLSClient(cfg TLSClientConfig) (*TLSClient, error) {
	f := paths{cert: cfg.CertFile, key: cfg.KeyFile, ca: cfg.CAFile}
	from, err := followTLS(f, cfg.SPIFFE, cfg.Refresh, cfg.Report, cfg.Panics)
	if err != nil {
		return nil, fmt.Errorf("tls client: %w", err)
	}
	return &TLSClient{from: from, serverName: cfg.ServerName}, nil
}

// Config returns a configuration with the certificate and the roots as they are
// now: TLS 1.2 at least, ALPN h2. It is the caller's own and does not change
// afterwards, so it is to be asked for anew for every connection. The error says
// that a Workload API gives no certificate.
func (c *TLSClient) Config() (*tls.Config, error) {
	m, err := c.from.current()
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2"},
		ServerName: c.serverName,
	}
	if m.cert != nil {
		cfg.Certificates = []tls.Certificate{*m.cert}
	}
	if m.roots != nil {
		cfg.RootCAs = m.roots.Pool()
		if check := m.roots.Check(x509.ExtKeyUsageServerAuth); check != nil {
			// A SPIFFE ID takes the place of the host's name: check verifies the
			// certificate, and fails where nobody is trusted.
			cfg.InsecureSkipVerify, cfg.VerifyConnection = true, check
			// The server's list of CAs may lack the relay's: it has the bundles to judge by.
			cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return m.cert, nil }
		}
	}
	return cfg, nil
}

// Credentials returns what a grpc client dials with: every handshake uses what
// there is then.
func (c *TLSClient) Credentials() credentials.TransportCredentials {
	return &clientCredentials{client: c, serverName: c.serverName}
}

// Close stops watching and waits for that; what was made from c goes on working
// with the last good files.
func (c *TLSClient) Close() { c.from.close() }

// clientCredentials lends every handshake a configuration of its own: a
// tls.Config has no hook for the roots on the client's side.
type clientCredentials struct {
	client     *TLSClient
	serverName string
}

func (c *clientCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if c.serverName != "" {
		authority = c.serverName
	}
	cfg, err := c.client.Config()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(cfg).ClientHandshake(ctx, authority, conn)
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
