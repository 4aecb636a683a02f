// Package behaviours holds tests of the whole before control planes that behave like others
// than the protocol's: each scenario is played directly at one, and behind one relay or two,
// with clients that ask in every way that there is. It needs nothing but Go.
package behaviours

import (
	"log/slog"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/relays"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"github.com/xdsrelay/xdsrelay/relay"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long anything may take that must happen.
const patience = 20 * time.Second

// node is what all clients and relays call themselves.
const node = "node"

// world is a control plane with relays in front of it.
type world struct {
	t     *testing.T
	plane *plane.Plane
	addr  string // where clients are sent
}

// newWorld starts a control plane, and relays that ask it in a form.
func newWorld(t *testing.T, b plane.Behaviour, relays int, up config.APIType, change ...func(*config.Config)) *world {
	t.Helper()
	w := &world{t: t, plane: plane.Start(t, b)}
	w.addr = w.plane.Addr()
	for range relays {
		w.addr = startRelay(t, up, w.addr, change...)
	}
	return w
}

// startRelay runs a relay in front of a server until the test ends, and gives its address.
func startRelay(t *testing.T, up config.APIType, addr string, change ...func(*config.Config)) string {
	t.Helper()
	cfg := config.Default()
	cfg.Aggregation.Otherwise = config.Share
	cfg.Access.Rules = []config.AccessRule{{Name: "secrets", Match: "type == sds", Effect: config.Allow, Secrets: true}}
	cfg.Server.Drain = config.Duration(10 * time.Millisecond)
	u := config.DefaultUpstream()
	u.Name, u.Endpoints, u.Default, u.APIType = "plane", [][]string{{addr}}, true, up
	u.Settle = config.Duration(100 * time.Millisecond)
	u.Backoff.Base = config.Duration(10 * time.Millisecond)
	cfg.Upstreams = []config.Upstream{u}
	for _, f := range change {
		f(cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	r := relays.Run(t, cfg, relay.Options{Version: "test", Log: slog.New(slog.DiscardHandler)}, relays.Listeners{})
	t.Cleanup(r.Stop)
	return r.XDS
}

// until waits for what must happen; state tells how things stand if it does not.
func (w *world) until(what string, cond func() bool, state func() any) {
	w.t.Helper()
	if _, ok := wait.Until(patience, cond); !ok {
		w.t.Fatalf("%s: never; %v", what, state())
	}
}
