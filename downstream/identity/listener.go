package identity

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pires/go-proxyproto"
	grpccredentials "google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/xdsrelay/xdsrelay/downstream/connections"
	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// Listener is one of the listeners through which clients come. Its fields do not change once it is
// in use.
type Listener struct {
	Name string
	// Credentials are for gRPC's connections; nil: plaintext. HTTP servers have their own TLS.
	Credentials grpccredentials.TransportCredentials

	// Connections bounds them; nil: nothing does.
	Connections *connections.Limit

	// Proxied says that each connection begins with a PROXY header. Failed is told of those of
	// gRPC that do not.
	Proxied bool
	Failed  func(from, reason string)

	// Handshake begins the TLS handshake of a connection, whose waits end with ctx; nil: nothing waits.
	Handshake func(ctx context.Context) Handshake

	tokens atomic.Pointer[credentials.Verifier]
}

// Handshake is a TLS handshake that may have to wait for others before it computes (LIM-1).
type Handshake interface {
	// Pause comes before the client is waited for, and Resume after it has sent something. The error of
	// Resume ends the handshake.
	Pause()
	Resume() error
	// End ends it. done reports that there is a connection.
	End(done bool)
}

// headerTime is how long a PROXY header may take.
const headerTime = 5 * time.Second

// Guard gives a listener whose connections know that they came through l, and which process is at
// the other end of a unix socket.
func (l *Listener) Guard(lis net.Listener) net.Listener {
	var settle func(net.Conn)
	if l.Proxied {
		settle = readHeader
		lis = &proxyproto.Listener{
			Listener: lis, ReadHeaderTimeout: headerTime,
			ConnPolicy: func(proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) { return proxyproto.REQUIRE, nil },
		}
	}
	if l.Connections != nil {
		lis = l.Connections.Listen(lis, settle)
	}
	return guardedListener{lis, l}
}

// readHeader waits for the PROXY header of a connection.
func readHeader(conn net.Conn) {
	if p, ok := conn.(*proxyproto.Conn); ok {
		_ = p.ProxyHeader() // whether there is one is the handshake's business
	}
}

// underlying gives the connection that another one is about.
func underlying(conn net.Conn) net.Conn {
	if c, ok := conn.(*connections.Conn); ok {
		return c.NetConn()
	}
	return conn
}

type guardedListener struct {
	net.Listener

	of *Listener
}

// Accept implements net.Listener.
func (g guardedListener) Accept() (net.Conn, error) {
	conn, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &accepted{Conn: conn, of: g.of}
	if unix, ok := underlying(conn).(*net.UnixConn); ok {
		c.from = processAt(unix)
	}
	return c, nil
}

// accepted is a connection that came through a listener.
type accepted struct {
	net.Conn

	of   *Listener
	from *process // at the other end of a unix socket; nil: nobody knows, or another network

	handshake Handshake // while it goes on; nil: none does, or it does not wait
}

// Read implements net.Conn.
func (c *accepted) Read(b []byte) (int, error) {
	if c.handshake == nil {
		return c.Conn.Read(b)
	}
	c.handshake.Pause()
	n, err := c.Conn.Read(b)
	if err != nil {
		return n, err
	}
	return n, c.handshake.Resume()
}

// RemoteAddr is the client's address. Unix sockets of clients have no names: the address says
// which process it is.
func (c *accepted) RemoteAddr() net.Addr {
	if c.from != nil {
		return c.from
	}
	return c.Conn.RemoteAddr()
}

// SyscallConn implements syscall.Conn: gRPC reads and sets options of sockets.
func (c *accepted) SyscallConn() (syscall.RawConn, error) { return syscallConn(c.Conn) }

// Client is who is at the other end of a connection: the AuthInfo of its streams.
type Client struct {
	Listener *Listener
	TLS      *Conn       // nil: plaintext, or an HTTP server's connection
	User     *keyer.User // of a unix socket; nil: nobody knows, or another network
	Since    time.Time   // when the connection began

	conn *connections.Conn // nil: nothing bounds connections
}

// Conn is the client's connection, which handlers tell what they read. It is nil, which takes no notice, if nothing
// bounds connections, or if the client is nil.
func (c *Client) Conn() *connections.Conn {
	if c == nil {
		return nil
	}
	return c.conn
}

// AuthType implements grpccredentials.AuthInfo.
func (c *Client) AuthType() string {
	if c.TLS != nil {
		return c.TLS.AuthType()
	}
	return "plaintext"
}

// GetCommonAuthInfo tells gRPC how safe the connection is.
func (c *Client) GetCommonAuthInfo() grpccredentials.CommonAuthInfo {
	if c.TLS != nil {
		return c.TLS.GetCommonAuthInfo()
	}
	return grpccredentials.CommonAuthInfo{SecurityLevel: grpccredentials.NoSecurity}
}

// client says who is at the other end.
func (c *accepted) client() *Client {
	client := &Client{Listener: c.of, Since: time.Now()}
	client.conn, _ = c.Conn.(*connections.Conn)
	if c.from != nil {
		client.User = &c.from.user
	}
	return client
}

var errNoListener = errors.New("the connection came through no listener that the relay knows")

var errNoHeader = errors.New("the connection does not begin with a PROXY header")

// Credentials are credentials for one gRPC server and many listeners: each connection is dealt with
// by those of its own, and its AuthInfo is a *[Client].
func Credentials() grpccredentials.TransportCredentials { return byListener{} }

type byListener struct{}

// ServerHandshake implements grpccredentials.TransportCredentials.
func (byListener) ServerHandshake(raw net.Conn) (net.Conn, grpccredentials.AuthInfo, error) {
	c, ok := raw.(*accepted)
	if !ok {
		return nil, nil, errNoListener
	}
	if p, ok := underlying(c.Conn).(*proxyproto.Conn); ok && p.ProxyHeader() == nil {
		// gRPC writes before it reads: without this the relay would speak to anybody.
		if c.of.Failed != nil {
			c.of.Failed(c.RemoteAddr().String(), errNoHeader.Error())
		}
		return nil, nil, errNoHeader
	}
	client := c.client()
	if client.conn != nil {
		client.conn.Pace()
	}
	if c.of.Credentials == nil {
		return c.plain(), client, nil
	}
	conn, info, err := c.shakeHands()
	if err != nil {
		return conn, info, err
	}
	if client.TLS, ok = info.(*Conn); !ok {
		return nil, nil, errNoListener
	}
	return &encrypted{conn, client.conn}, client, nil
}

// encrypted is a connection with TLS. Its client says within TLS that it leaves, so that the one below may never end.
type encrypted struct {
	net.Conn

	below *connections.Conn // nil: none is known
}

// Read implements net.Conn.
func (c *encrypted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.below.Note(err)
	return n, err
}

// SyscallConn implements syscall.Conn, as gRPC's own connections with TLS do.
func (c *encrypted) SyscallConn() (syscall.RawConn, error) {
	if inner, ok := c.Conn.(syscall.Conn); ok {
		return inner.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// shakeHands has the credentials of the connection's listener shake hands.
func (c *accepted) shakeHands() (net.Conn, grpccredentials.AuthInfo, error) {
	c.begin(context.Background()) // gRPC gives none
	conn, info, err := c.of.Credentials.ServerHandshake(c)
	c.end(err == nil)
	return conn, info, err
}

// begin says that a handshake begins, which may have to wait until ctx ends, and end that it is over.
func (c *accepted) begin(ctx context.Context) {
	if c.of.Handshake != nil {
		c.handshake = c.of.Handshake(ctx)
	}
}

func (c *accepted) end(done bool) {
	if c.handshake != nil {
		c.handshake.End(done)
		c.handshake = nil
	}
}

// ClientHandshake implements grpccredentials.TransportCredentials, for servers only.
func (byListener) ClientHandshake(context.Context, string, net.Conn) (net.Conn, grpccredentials.AuthInfo, error) {
	return nil, nil, errors.ErrUnsupported
}

// Info implements grpccredentials.TransportCredentials.
func (byListener) Info() grpccredentials.ProtocolInfo { return grpccredentials.ProtocolInfo{} }

// Clone implements grpccredentials.TransportCredentials.
func (b byListener) Clone() grpccredentials.TransportCredentials { return b }

// OverrideServerName implements grpccredentials.TransportCredentials, for servers only.
func (byListener) OverrideServerName(string) error { return errors.ErrUnsupported }

// plain gives gRPC a connection without TLS. gRPC keeps no buffer at rest for a connection that tells when
// there is something to read, or that is of a type of package net.
func (c *accepted) plain() net.Conn {
	switch conn := c.Conn.(type) {
	case *connections.Conn:
		if c.from != nil {
			return &local{conn, c.from}
		}
		return conn
	case *net.TCPConn:
		return conn
	}
	return c
}

// local is a connection through a unix socket.
type local struct {
	*connections.Conn

	from *process
}

// RemoteAddr says which process is at the other end.
func (c *local) RemoteAddr() net.Addr { return c.from }

type clientKey struct{}

// Context gives the context of the requests of a connection of an HTTP server, with its Client. It
// is the ConnContext of a server whose listener is guarded. Its handler is to be one of Requests: the
// connection is read slowly if it sends far more than requests take ([connections.Conn.Pace]).
func Context(ctx context.Context, conn net.Conn) context.Context {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if c, ok := conn.(*accepted); ok {
		client := c.client()
		if client.conn != nil {
			client.conn.Pace()
		}
		return context.WithValue(ctx, clientKey{}, client)
	}
	return ctx
}

// ClientOf gives the client of a stream or of a poll, by its context; nil if its connection came
// through no Listener.
func ClientOf(ctx context.Context) *Client {
	if c, ok := ctx.Value(clientKey{}).(*Client); ok {
		return c
	}
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	c, _ := p.AuthInfo.(*Client)
	return c
}

// Of gives the connection of a stream, by its context; nil if no watch knows it.
func Of(ctx context.Context) *Conn {
	if client := ClientOf(ctx); client != nil {
		return client.TLS
	}
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	c, _ := p.AuthInfo.(*Conn)
	return c
}
