package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
)

// TestDevCerts_OPS6 makes certificates and has each end of a connection take the other one's, for a month, by
// the right authority only.
func TestDevCerts_OPS6(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "certs")
	got := xdsrelay(t, "dev-certs", dir, "--host", "xdsrelay-1", "--host", "192.0.2.1")
	if got.code != 0 || strings.Count(got.stdout, "\n") != 9 {
		t.Fatalf("%+v", got)
	}
	pair := func(name string) tls.Certificate {
		t.Helper()
		c, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem"))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	pool := func(name string) *x509.CertPool {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name+".pem"))
		if err != nil {
			t.Fatal(err)
		}
		p := x509.NewCertPool()
		if !p.AppendCertsFromPEM(text) {
			t.Fatal(name)
		}
		return p
	}
	for _, tt := range []struct {
		client, clients, server, servers, host string
		month                                  time.Duration
		ok                                     bool
	}{
		{"client", "clients-ca", "server", "ca", "localhost", 29 * 24 * time.Hour, true},
		{"client", "clients-ca", "server", "ca", "127.0.0.1", 0, true},
		{"client", "clients-ca", "server", "ca", "xdsrelay-1", 0, true},
		{"client", "clients-ca", "server", "ca", "192.0.2.1", 0, true},
		{"relay", "relays-ca", "relay", "relays-ca", "xdsrelay-1", 0, true},
		{"client", "clients-ca", "server", "ca", "elsewhere", 0, false},
		{"client", "clients-ca", "server", "ca", "localhost", 31 * 24 * time.Hour, false},
		{"client", "relays-ca", "server", "ca", "localhost", 0, false},
		{"relay", "clients-ca", "server", "ca", "localhost", 0, false},
		{"client", "clients-ca", "client", "clients-ca", "localhost", 0, false},
	} {
		later := func() time.Time { return time.Now().Add(tt.month) }
		err := handshake(t,
			&tls.Config{Certificates: []tls.Certificate{pair(tt.client)}, RootCAs: pool(tt.servers), ServerName: tt.host, Time: later, MinVersion: tls.VersionTLS13},
			&tls.Config{Certificates: []tls.Certificate{pair(tt.server)}, ClientCAs: pool(tt.clients), ClientAuth: tls.RequireAndVerifyClientCert, Time: later, MinVersion: tls.VersionTLS13})
		if (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 9 {
		t.Fatal(entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}

	// A folder that has one of the files stays as it is.
	if err := os.Remove(filepath.Join(dir, "ca.pem")); err != nil {
		t.Fatal(err)
	}
	if got := xdsrelay(t, "dev-certs", dir); got.code != cli.ExitFailure || !strings.Contains(got.stderr, "server.pem exists\nhint: ") {
		t.Errorf("%+v", got)
	}
	if _, err := os.Lstat(filepath.Join(dir, "ca.pem")); err == nil {
		t.Error("it wrote beside what exists")
	}
}

// handshake has a client and a server take each other's certificates, or not.
func handshake(t *testing.T, client, server *tls.Config) error {
	t.Helper()
	a, b := net.Pipe()
	deadline := time.Now().Add(10 * time.Second)
	for _, end := range []net.Conn{a, b} {
		if err := end.SetDeadline(deadline); err != nil {
			t.Fatal(err)
		}
	}
	served := make(chan error, 1)
	go func() {
		conn := tls.Server(b, server)
		err := conn.HandshakeContext(t.Context())
		if err == nil {
			_, err = conn.Write([]byte("x"))
		}
		_ = b.Close()
		served <- err
	}()
	conn := tls.Client(a, client)
	_, err := conn.Read(make([]byte, 1)) // with TLS 1.3 a client learns there that the server refuses it
	_ = a.Close()
	if other := <-served; err == nil {
		err = other
	}
	return err
}
