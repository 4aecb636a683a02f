package peers

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/xdsrelay/xdsrelay/internal/testkit/frames"
)

// A peer that sends each connection away before it has a stream is not dialled without pause.
func TestPeerThatSendsAway_OPS2_SUR1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lis := bufconn.Listen(1 << 20)
		connections := frames.SendAway(lis)
		c := NewClient(ClientConfig{
			ID: "asks", Addresses: []string{"192.0.2.1:1"}, Credentials: insecure.NewCredentials(), UserAgent: "test",
			Connect: func(ctx context.Context, _, _ string) (net.Conn, error) { return lis.DialContext(ctx) },
		})
		for began := time.Now(); time.Since(began) < time.Minute; <-time.After(time.Second) {
			for _, p := range c.Peers(t.Context()) {
				if _, err := p.Look(t.Context()); err == nil {
					t.Error("the peer has answered")
				}
			}
		}
		c.Close()
		_ = lis.Close()
		if got := connections(); got == 0 || got > 70 {
			t.Errorf("%d connections in a minute", got)
		}
	})
}
