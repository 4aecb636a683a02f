package attack

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/server"
	"github.com/xdsrelay/xdsrelay/internal/testkit/frames"
)

// dialer connects to the server.
type dialer func(context.Context) (net.Conn, error)

// dialerOf connects to an address; with mutual TLS it is that of a server.Process.Mutual, with a certificate. The
// connections come from an address of the attacker's own. Nothing but address and identity tells one client from
// the others, and a server cannot be fair to those that it cannot tell apart.
func dialerOf(addr string, mutual bool) (dialer, error) {
	own := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	if !mutual {
		return func(ctx context.Context) (net.Conn, error) { return own.DialContext(ctx, "tcp", addr) }, nil
	}
	at, err := url.Parse(addr)
	if err != nil {
		return nil, fmt.Errorf("the address: %w", err)
	}
	shown, err := server.ClientPair(at.Path)
	if err != nil {
		return nil, fmt.Errorf("the clients' certificate: %w", err)
	}
	secure := &tls.Dialer{NetDialer: own, Config: &tls.Config{
		Certificates: []tls.Certificate{shown}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13,
		InsecureSkipVerify: true, //nolint:gosec // it costs the client work, and says nothing of the server
	}}
	return func(ctx context.Context) (net.Conn, error) { return secure.DialContext(ctx, "tcp", at.Host) }, nil
}

// connected does something on a connection of its own, which is closed afterwards.
func (to dialer) connected(something func(context.Context, *frames.Wire) error) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := to(ctx)
		if err != nil {
			return err
		}
		w, end, err := frames.Over(conn)
		if err != nil {
			return err
		}
		defer end()
		stop := context.AfterFunc(ctx, w.Close)
		defer stop()
		return something(ctx, w)
	}
}
