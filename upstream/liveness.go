package upstream

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
)

// idleProbe is how long a connection may be silent before TCP asks whether the other side
// is still there. Together with the keepalive timeout it is how long a dead connection
// may go unnoticed (UPS-1), also where the server takes no pings.
const idleProbe = 10 * time.Second

// watchConn has the system find out that a connection is dead: a silent one by probes,
// one with data under way by the time that its acknowledgement takes. Others than TCP
// connections need neither.
func watchConn(c net.Conn, timeout time.Duration) error {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	interval := max(time.Second, timeout/2)
	err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: idleProbe, Interval: interval, Count: max(1, int(timeout/interval)),
	})
	if err != nil {
		return err
	}
	return setUserTimeout(tcp, timeout)
}

// watchful are transport credentials that watch the connections that they secure. gRPC
// hands them every connection, also one through a proxy.
type watchful struct {
	credentials.TransportCredentials

	timeout time.Duration
}

// ClientHandshake implements credentials.TransportCredentials.
func (w watchful) ClientHandshake(ctx context.Context, authority string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if err := watchConn(c, w.timeout); err != nil {
		return nil, nil, err
	}
	return w.TransportCredentials.ClientHandshake(ctx, authority, c)
}

// Clone implements credentials.TransportCredentials.
func (w watchful) Clone() credentials.TransportCredentials {
	return watchful{w.TransportCredentials.Clone(), w.timeout}
}
