//go:build linux

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"

	"github.com/xdsrelay/xdsrelay/internal/pkitest"
)

// Names in the folder of a [mutual]: a certificate is NAME.crt, its key NAME.key.
const (
	serverPair = "server"
	clientPair = "client"
	authority  = "fleet"
)

// mutual is a socket for clients with mutual TLS, and a folder with the certificates of both sides, which it
// owns.
type mutual struct {
	lis    net.Listener
	folder *pkitest.Folder
	server tls.Certificate
	fleet  *pkitest.Authority
}

// maker makes certificates outside of a test: what fails is a panic with an error.
type maker struct{ folder string }

func (maker) Helper() {}

func (maker) Fatal(args ...any) { panic(fmt.Errorf("certificates: %s", fmt.Sprint(args...))) }

func (m maker) TempDir() string { return m.folder }

// openMutual opens a socket, and makes certificates. close must be called.
func openMutual(ctx context.Context) (m *mutual, err error) {
	folder, err := os.MkdirTemp("", "bench-tls-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if failed, is := recover().(error); is {
			m, err = nil, failed
		}
		if err != nil {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}()
	by := maker{folder}
	m = &mutual{folder: pkitest.NewFolder(by), fleet: pkitest.NewAuthority(by, authority)}
	m.server = m.fleet.Server("localhost")
	m.folder.PutCA(authority, m.fleet)
	m.folder.PutPair(serverPair, m.server)
	m.folder.PutPair(clientPair, m.fleet.Client(clientPair))
	if m.lis, err = listen(ctx); err != nil {
		return nil, err
	}
	return m, nil
}

// config is that of a server.
func (m *mutual) config() *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{m.server}, ClientCAs: m.fleet.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
		NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13,
	}
}

// files are the paths of a server's certificate, of its key, and of the authority of clients.
func (m *mutual) files() (cert, key, clients string) {
	return m.folder.Path(serverPair + ".crt"), m.folder.Path(serverPair + ".key"), m.folder.Path(authority + ".crt")
}

// address is that of [Process.Mutual]; "" for nil.
func (m *mutual) address() string {
	if m == nil {
		return ""
	}
	return (&url.URL{Scheme: MutualScheme, Host: m.lis.Addr().String(), Path: m.folder.Path("")}).String()
}

// close removes the certificates. The socket is closed by its server. It does nothing for nil.
func (m *mutual) close() error {
	if m == nil {
		return nil
	}
	return os.RemoveAll(m.folder.Path(""))
}

// MutualScheme is the scheme of [Process.Mutual].
const MutualScheme = "mtls"

// ClientPair is the certificate that clients show, in the folder of a [Process.Mutual].
func ClientPair(folder string) (tls.Certificate, error) {
	at := filepath.Join(folder, clientPair)
	return tls.LoadX509KeyPair(at+".crt", at+".key")
}
