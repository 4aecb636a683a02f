package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/xdsrelay/xdsrelay/internal/contain"
)

var (
	errClientOnly = errors.New("tlsfiles: client credentials cannot serve")
	errNoServer   = errors.New("tls server: a certificate file and a key file are needed")
)

// ServerConfig says which files a server uses. All are PEM.
type ServerConfig struct {
	// CertFile and KeyFile are the server's certificate (its chain) and key;
	// both are needed.
	CertFile, KeyFile string
	// ClientCAFile holds the roots that a client's certificate must chain to.
	// With it a client without such a certificate is refused (mutual TLS);
	// without it clients are not asked for one.
	ClientCAFile string
	// Refresh and Report are as in ClientConfig.
	Refresh time.Duration
	Report  func(error)
	// Panics is as in ClientConfig.
	Panics *contain.Panics
}

// Server is the server's side of TLS, always with the newest good files.
type Server struct {
	w    atomic.Pointer[watcher]
	base *tls.Config
}

// NewServer reads the files of cfg. The error names the file and what is wrong
// with it. Close ends the watching.
func NewServer(cfg ServerConfig) (*Server, error) {
	if cfg.CertFile == "" && cfg.KeyFile == "" {
		return nil, errNoServer
	}
	w, err := newWatcher(files{cert: cfg.CertFile, key: cfg.KeyFile, ca: cfg.ClientCAFile}, cfg.Refresh, cfg.Report, cfg.Panics)
	if err != nil {
		return nil, fmt.Errorf("tls server: %w", err)
	}
	s := new(Server)
	s.w.Store(w)
	// The outer configuration lives as long as the server because the keys of
	// session tickets belong to it. A resumed session is checked against the
	// roots of today by crypto/tls, so a client CA that is withdrawn is
	// withdrawn from resumption too.
	s.base = s.current()
	s.base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.current(), nil }
	return s, nil
}

// current is a configuration with the files as they are now.
func (s *Server) current() *tls.Config {
	m := s.w.Load().current.Load()
	cfg := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2"},
		Certificates: []tls.Certificate{*m.cert},
	}
	if m.roots != nil {
		cfg.ClientCAs = m.roots
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return cfg
}

// ClientCAs gives the roots that a client's certificate must chain to, as they are now; nil if
// clients are not asked for one.
func (s *Server) ClientCAs() *x509.CertPool { return s.w.Load().current.Load().roots }

// Config returns a configuration for a listener: TLS 1.2 at least, ALPN h2.
// Every connection it accepts uses the files as they are then.
func (s *Server) Config() *tls.Config { return s.base.Clone() }

// HTTPConfig is Config for a server that speaks HTTP/1.1 beside HTTP/2.
func (s *Server) HTTPConfig() *tls.Config {
	both := func(cfg *tls.Config) *tls.Config {
		cfg.NextProtos = append(cfg.NextProtos, "http/1.1")
		return cfg
	}
	outer := both(s.base.Clone())
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return both(s.current()), nil }
	return outer
}

// Credentials returns the same for a grpc server.
func (s *Server) Credentials() credentials.TransportCredentials {
	return credentials.NewTLS(s.base)
}

// Adopt has s use the files of next from now on, in place of its own: connections that
// begin after it do, those that are open stay. next must not be used any more, nor be
// closed. Adopt and Close may be called one at a time only.
func (s *Server) Adopt(next *Server) { s.w.Swap(next.w.Load()).close() }

// Close stops watching the files and waits for that; what was made from them
// goes on working with the last good ones.
func (s *Server) Close() { s.w.Load().close() }
