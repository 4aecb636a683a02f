package upstream

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// Whatever becomes of pings, the system looks after connections: an idle one is probed
// after ten seconds, and none waits for an acknowledgement for longer than the timeout.
func TestUPS1_TCPOptions(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	options := func(t *testing.T, c net.Conn) {
		t.Helper()
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		for name, o := range map[string]struct{ level, option, want int }{
			"SO_KEEPALIVE":     {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
			"TCP_KEEPIDLE":     {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 10},
			"TCP_KEEPINTVL":    {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 5},
			"TCP_KEEPCNT":      {unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 2},
			"TCP_USER_TIMEOUT": {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 10_000},
		} {
			var got int
			var failed error
			if err := raw.Control(func(fd uintptr) { got, failed = unix.GetsockoptInt(int(fd), o.level, o.option) }); err != nil || failed != nil {
				t.Fatal(err, failed)
			}
			if got != o.want {
				t.Errorf("%s = %d, want %d", name, got, o.want)
			}
		}
	}
	t.Run("gRPC", func(t *testing.T) {
		u := newUpstream(t, Config{Endpoints: [][]string{{lis.Addr().String()}}})
		c, err := net.Dial("tcp", lis.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		secured, _, err := u.transport.(*pool).creds.Clone().ClientHandshake(t.Context(), "", c)
		if err != nil {
			t.Fatal(err)
		}
		options(t, c)
		_ = secured.Close()
	})
	t.Run("REST", func(t *testing.T) {
		u, err := New(Config{APIType: REST, Endpoints: [][]string{{lis.Addr().String()}}})
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		c, err := u.transport.(*web).dial(t.Context(), "127.0.0.1", lis.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		options(t, c)
	})
}
