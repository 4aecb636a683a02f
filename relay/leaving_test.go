package relay

import (
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"google.golang.org/grpc/codes"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
)

// A client with TLS says that it leaves within TLS, before its connection ends. Keepalive has nothing to do with that.
func TestLeaves_LIM4(t *testing.T) {
	tr := newTrust(t, func(*config.Config) {})
	for range 10 {
		conn := tr.dial("spiffe://td/a")
		if got, text := code(tr.begin(conn, openForms[0].method, firstDelta(&corev3.Node{Id: "a"}))); got != codes.OK {
			t.Fatalf("%v: %s", got, text)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var gone []downstream.Gone
	if _, all := wait.Until(10*time.Second, func() bool { gone = tr.relay.server.Gone(); return len(gone) == 10 }); !all {
		t.Fatalf("%d streams ended", len(gone))
	}
	for _, g := range gone {
		if g.Why != downstream.WhyClient {
			t.Errorf("a client has gone because of %s: %s %s", g.Why, g.Code, g.Reason)
		}
	}
	if strings.Contains(tr.log.String(), "keepalive ended") {
		t.Errorf("the relay logged %s", tr.log.String())
	}
}
