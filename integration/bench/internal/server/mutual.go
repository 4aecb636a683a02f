//go:build linux

package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"path/filepath"

	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

// Names in the folder of a [mutual]: a certificate is NAME.crt, its key NAME.key.
const (
	serverPair = "server"
	clientPair = "client"
	authority  = "fleet"
)

// mutual is a socket for clients with mutual TLS, and a folder with the certificates of both sides. The folder is the
// parent's, which may kill this process.
type mutual struct {
	lis    net.Listener
	folder *pki.Folder
	server tls.Certificate
	fleet  *pki.Authority
}

// maker makes certificates outside of a test: what fails is a panic with a notMadeError.
type maker struct{ folder string }

type notMadeError struct{ error }

func (maker) Helper() {}

func (maker) Fatal(args ...any) {
	panic(notMadeError{fmt.Errorf("certificates: %s", fmt.Sprint(args...))})
}

func (m maker) TempDir() string { return m.folder }

// openMutual opens a socket, and makes certificates in a folder.
func openMutual(ctx context.Context, folder string) (m *mutual, err error) {
	defer func() {
		switch failed := recover().(type) {
		case nil:
		case notMadeError:
			m, err = nil, failed
		default:
			panic(failed)
		}
	}()
	by := maker{folder}
	m = &mutual{folder: pki.NewFolder(by), fleet: pki.NewAuthority(by, authority)}
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

// MutualScheme is the scheme of [Process.Mutual].
const MutualScheme = "mtls"

// ClientPair is the certificate that clients show, in the folder of a [Process.Mutual].
func ClientPair(folder string) (tls.Certificate, error) {
	at := filepath.Join(folder, clientPair)
	return tls.LoadX509KeyPair(at+".crt", at+".key")
}
