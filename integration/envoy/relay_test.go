package envoy

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/logtest"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/internal/testkit/relays"
	"github.com/xdsrelay/xdsrelay/relay"
)

// relayProcess is a relay that can end and come back at the same addresses. It runs in
// the process of the tests, or in one of its own, which is killed.
type relayProcess struct {
	// immutable
	t                 *testing.T
	config            *config.Config
	killed            bool
	addr, rest, admin string
	log               *logtest.Text

	stop  func() // of the run
	leave func() // as a deployment ends a relay; only of one that is a process of its own
}

// startRelay runs a relay in front of a control plane at addr. Its settings are the
// defaults, but for what a test cannot wait for.
func startRelay(t *testing.T, up config.APIType, addr string, killed bool, change func(*config.Config)) *relayProcess {
	t.Helper()
	return startRelayAt(t, ports.Listen(t), up, addr, killed, change)
}

// startRelayAt is startRelay with the listener for streams.
func startRelayAt(t *testing.T, xds net.Listener, up config.APIType, addr string, killed bool, change func(*config.Config)) *relayProcess {
	t.Helper()
	cfg := config.Default()
	cfg.Aggregation.Otherwise = config.Share
	cfg.Access.Rules = []config.AccessRule{{Name: "secrets", Match: "type == sds", Effect: config.Allow, Secrets: true}}
	cfg.Server.Drain = config.Duration(10 * time.Millisecond)
	u := config.DefaultUpstream()
	u.Name, u.Endpoints, u.Default, u.APIType = "plane", [][]string{{addr}}, true, up
	u.Poll.Interval = config.Duration(100 * time.Millisecond) // as often as the Envoys poll
	cfg.Upstreams = []config.Upstream{u}
	if change != nil {
		change(cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	rest, admin := ports.Listen(t), ports.Listen(t)
	r := &relayProcess{
		t: t, config: cfg, killed: killed, log: new(logtest.Text),
		addr: xds.Addr().String(), rest: rest.Addr().String(), admin: admin.Addr().String(),
	}
	r.run(xds, rest, admin)
	t.Cleanup(func() {
		r.stop()
		if t.Failed() {
			t.Logf("the relay logged:\n%s", r.log)
		}
	})
	return r
}

func (r *relayProcess) run(xds, rest, admin net.Listener) {
	r.t.Helper()
	if r.killed {
		r.runChild(xds, rest, admin)
		return
	}
	r.stop = relays.Run(r.t, r.config, relay.Options{
		Version: "test", Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}, relays.Listeners{XDS: xds, REST: rest, Admin: admin}).Stop
}

// restart ends the relay, and has another one come at the same addresses that knows
// nothing.
func (r *relayProcess) restart() {
	r.t.Helper()
	r.stop()
	r.again()
}

// again has another relay come at the addresses of one that has ended.
func (r *relayProcess) again() {
	r.t.Helper()
	r.run(ports.Again(r.t, r.addr), ports.Again(r.t, r.rest), ports.Again(r.t, r.admin))
}
