package upstream

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/test/bufconn"
)

// A server that sends each connection away before it has a stream is not dialled without pause. gRPC takes its
// connections for good ones, and dials again at once for a stream that waits.
func TestServerThatSendsAway_OPS2_UPS2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		lis := bufconn.Listen(1 << 20)
		n.hosts["a"] = lis
		var connections atomic.Int64
		go func() {
			for {
				c, err := lis.Accept()
				if err != nil {
					return
				}
				go sendAway(c)
				if connections.Add(1) == 1000 { // or it would never end, and no time would pass
					_ = lis.Close()
				}
			}
		}()
		s := run(t, newUpstream(t, n.config("a")), newStore(sub(clusters, "*")), nil)
		<-time.After(time.Minute)
		if got := connections.Load(); got == 0 || got > 120 {
			t.Errorf("%d connections in a minute", got)
		}
		_ = s.stop()
		_ = lis.Close()
		synctest.Wait()
	})
}

// sendAway serves a connection on which the server refuses all streams from the start.
func sendAway(c net.Conn) {
	defer func() { _ = c.Close() }()
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(c, c)
	if f.WriteSettings() != nil || f.WriteGoAway(0, http2.ErrCodeNo, nil) != nil {
		return
	}
	for {
		if _, err := f.ReadFrame(); err != nil {
			return
		}
	}
}
