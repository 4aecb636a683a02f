package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/xdsrelay/xdsrelay/internal/logs"
)

var (
	errClientOnly = errors.New("credentials of a TLS client cannot serve")
	errNoServer   = errors.New("tls server: a certificate file and a key file are needed")
)

// TLSServerConfig says which files a server uses, all PEM, or which SPIFFE Workload API.
type TLSServerConfig struct {
	// CertFile and KeyFile are the server's certificate (its chain) and key;
	// both are needed.
	CertFile, KeyFile string
	// ClientCAFile holds the roots that a client's certificate must chain to.
	// With it a client without such a certificate is refused (mutual TLS);
	// without it clients are not asked for one.
	ClientCAFile string
	// ClientCRLFile has revocation lists of these roots: a client with a certificate of them is refused. "": none.
	ClientCRLFile string
	// SPIFFE takes the place of the files. A client without an X509-SVID that counts
	// is refused.
	SPIFFE *WorkloadParty
	// Refresh and Report are as in TLSClientConfig.
	Refresh time.Duration
	Report  func(error)
	// Panics is as in TLSClientConfig.
	Panics *logs.Panics
}

// TLSServer is the server's side of TLS, always with the newest good files.
type TLSServer struct {
	from atomic.Pointer[source]
	base *tls.Config
}

// NewTLSServer reads the files of cfg. The error names the file and what is wrong
// with it. Close ends the watching.
func NewTLSServer(cfg TLSServerConfig) (*TLSServer, error) {
	f := paths{cert: cfg.CertFile, key: cfg.KeyFile, ca: cfg.ClientCAFile, crl: cfg.ClientCRLFile}
	if f.cert == "" && f.key == "" && cfg.SPIFFE == nil {
		return nil, errNoServer
	}
	from, err := followTLS(f, cfg.SPIFFE, cfg.Refresh, cfg.Report, cfg.Panics)
	if err != nil {
		return nil, fmt.Errorf("tls server: %w", err)
	}
	s := new(TLSServer)
	s.from.Store(&from)
	// The outer configuration lives as long as the server because the keys of
	// session tickets belong to it. A resumed session is checked against the
	// roots of today by crypto/tls, and by Roots.Check, so a client CA that is
	// withdrawn is withdrawn from resumption too.
	s.base = &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.current() },
	}
	return s, nil
}

// current is a configuration with the certificate and the roots as they are now.
func (s *TLSServer) current() (*tls.Config, error) {
	m, err := (*s.from.Load()).current()
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2"},
		Certificates: []tls.Certificate{*m.cert},
	}
	if m.roots != nil {
		cfg.ClientCAs = m.roots.Pool()
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
		cfg.VerifyConnection = m.roots.Check(x509.ExtKeyUsageClientAuth)
	}
	return cfg, nil
}

// Ready returns why no client can connect now: a Workload API gives no certificate. It
// is nil otherwise.
func (s *TLSServer) Ready() error {
	_, err := (*s.from.Load()).current()
	return err
}

// Clients says whose certificates count for clients, as it is now; nil if clients are
// not asked for one.
func (s *TLSServer) Clients() *Roots { return (*s.from.Load()).roots() }

// Config returns a configuration for a listener: TLS 1.2 at least, ALPN h2.
// Every connection it accepts uses what there is then.
func (s *TLSServer) Config() *tls.Config { return s.base.Clone() }

// HTTPConfig is Config for a server that speaks HTTP/1.1 beside HTTP/2.
func (s *TLSServer) HTTPConfig() *tls.Config {
	outer := s.base.Clone()
	outer.NextProtos = []string{"h2", "http/1.1"}
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		cfg, err := s.current()
		if err != nil {
			return nil, err
		}
		cfg.NextProtos = outer.NextProtos
		return cfg, nil
	}
	return outer
}

// Outgoing returns a configuration for a connection to another server of the same kind, as it is now: it shows the
// server's certificate, and the other one's is verified as those of clients are. Its name is the caller's business, in
// VerifyConnection. The error says that a Workload API gives no certificate.
func (s *TLSServer) Outgoing() (*tls.Config, error) {
	m, err := (*s.from.Load()).current()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"},
		// The server's list of CAs may lack the relay's.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return m.cert, nil },
		InsecureSkipVerify:   true, //nolint:gosec // VerifyConnection verifies
		VerifyConnection: func(state tls.ConnectionState) error {
			_, err := m.roots.Verify(state.PeerCertificates, x509.ExtKeyUsageServerAuth, time.Now())
			return err
		},
	}, nil
}

// Credentials returns the same for a grpc server.
func (s *TLSServer) Credentials() credentials.TransportCredentials {
	return credentials.NewTLS(s.base)
}

// Adopt has s use the files of next from now on, in place of its own: connections that
// begin after it do, those that are open stay. next must not be used any more, nor be
// closed. Adopt and Close may be called one at a time only.
func (s *TLSServer) Adopt(next *TLSServer) { (*s.from.Swap(next.from.Load())).close() }

// Close stops watching the files and waits for that; what was made from them
// goes on working with the last good ones.
func (s *TLSServer) Close() { (*s.from.Load()).close() }
