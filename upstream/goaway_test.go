package upstream

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/xdsrelay/xdsrelay/internal/testkit/frames"
)

// A server that sends each connection away before it has a stream is not dialled without pause. gRPC takes its
// connections for good ones, and dials again at once for a stream that waits.
func TestServerThatSendsAway_OPS2_UPS2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		lis := bufconn.Listen(1 << 20)
		n.hosts["a"] = lis
		connections := frames.SendAway(lis)
		s := run(t, newUpstream(t, n.config("a")), newStore(sub(clusters, "*")), nil)
		<-time.After(time.Minute)
		_ = s.stop()
		_ = lis.Close()
		if got := connections(); got == 0 || got > 120 {
			t.Errorf("%d connections in a minute", got)
		}
	})
}
