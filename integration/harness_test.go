package integration

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/logtest"
	"github.com/xdsrelay/xdsrelay/internal/testkit/parallel"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/internal/testkit/relays"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"github.com/xdsrelay/xdsrelay/relay"
	"go.uber.org/goleak"
)

// atOnce is how many parallel tests run at once. They wait most of their time.
const atOnce = 8

func TestMain(m *testing.M) {
	if file := os.Getenv(relayFile); file != "" {
		if err := runRelay(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if childPlane() {
		return
	}
	parallel.Tests(atOnce)
	// grpc-go's xDS client never stops watching the certificates of its bootstrap.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("google.golang.org/grpc/credentials/tls/certprovider/pemfile.(*watcher).run"))
}

// testRelay is a whole relay on loopback ports.
type testRelay struct {
	addr, admin string
	rest        string // where clients poll
	log         *logtest.Text
	stop        func() // as a signal does; returns when the relay has ended
	force       chan struct{}

	relay  *relay.Relay
	config *config.Config // in force
}

// absentAfter is when a SotW source's silence about a name is told (RES-7): long enough for a busy machine to bring what does exist.
const absentAfter = 200 * time.Millisecond

// startRelay runs a relay in front of control planes. change adapts the
// configuration, whose times are made for tests.
func startRelay(t testing.TB, change func(*config.Config), planes ...string) *testRelay {
	t.Helper()
	return startRelayAt(t, ports.Listen(t), ports.Listen(t), change, planes...)
}

// testConfig is the configuration of a relay in front of control planes.
func testConfig(t testing.TB, change func(*config.Config), planes []string) *config.Config {
	t.Helper()
	cfg := config.Default()
	cfg.Limits.StreamsPerConnection = 100_000  // tests have many clients on one connection
	cfg.Limits.Admission = config.AdmissionOff // the clients of tests do not come back when a busy machine has no place for them
	cfg.Aggregation.Otherwise = config.Share
	cfg.Access.Rules = []config.AccessRule{{Name: "secrets", Match: "type == sds", Effect: config.Allow, Secrets: true}}
	cfg.Server.Drain = config.Duration(10 * time.Millisecond)
	for i, addr := range planes {
		u := config.DefaultUpstream()
		u.Name, u.Endpoints, u.Default = fmt.Sprintf("plane-%d", i), [][]string{{addr}}, i == 0
		cfg.Upstreams = append(cfg.Upstreams, u)
	}
	if change != nil {
		change(cfg)
	}
	linger, age := cfg.Aggregation.Linger, cfg.Server.MaxConnectionAge
	cfg.Aggregation.Linger = max(linger, config.Duration(time.Second))
	if age != 0 {
		cfg.Server.MaxConnectionAge = max(age, config.Duration(time.Minute))
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	cfg.Aggregation.Linger, cfg.Server.MaxConnectionAge = linger, age // which may be shorter than an operator may have them
	for i := range cfg.Upstreams {                                    // shorter than an operator may have them
		u := &cfg.Upstreams[i]
		u.Backoff = config.Backoff{Base: config.Duration(5 * time.Millisecond), Max: config.Duration(50 * time.Millisecond)}
		if u.Settle == config.DefaultUpstream().Settle {
			u.Settle = config.Duration(100 * time.Millisecond)
		}
		if u.AbsentAfter == config.DefaultUpstream().AbsentAfter {
			u.AbsentAfter = config.Duration(absentAfter)
		}
		u.Poll.Interval = config.Duration(pollInterval)
	}
	cfg.Server.TLSRefresh = config.Duration(10 * time.Millisecond)
	return cfg
}

// startRelayAt is startRelay with the listeners for clients' streams and polls.
func startRelayAt(t testing.TB, xds, rest net.Listener, change func(*config.Config), planes ...string) *testRelay {
	t.Helper()
	cfg := testConfig(t, change, planes)
	log := new(logtest.Text)
	r := relays.Run(t, cfg, relay.Options{
		Version: "test", Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}, relays.Listeners{XDS: xds, REST: rest})
	t.Cleanup(r.Stop)
	return &testRelay{addr: r.XDS, admin: "http://" + r.Admin, rest: r.REST, log: log, stop: r.Stop, force: r.Force, relay: r.Relay, config: cfg}
}

// get reads a page of the admin port.
func (r *testRelay) get(t testing.TB, path string) (int, string) {
	t.Helper()
	return relays.Page(t, r.admin+path)
}

// consistent runs the relay's own check.
func (r *testRelay) consistent(t testing.TB) {
	t.Helper()
	if code, body := r.get(t, "/check"); code != http.StatusOK {
		t.Errorf("the cache is inconsistent: %s", body)
	}
}

// waitFor asks again and again until cond holds: for what tells nobody when it
// changes.
func waitFor(t testing.TB, what string, cond func() bool) {
	t.Helper()
	waitLonger(t, 0, what, cond)
}

// waitLonger is waitFor, for what takes a time of its own.
func waitLonger(t testing.TB, takes time.Duration, what string, cond func() bool) {
	t.Helper()
	if _, held := wait.Until(takes+patienceOf(t), cond); !held {
		t.Fatalf("%s: never happened", what)
	}
}

// awaitStreams waits until a control plane has so many streams, and returns what it saw then. Of one
// that broke, a control plane learns a moment after the relay has replaced it.
func awaitStreams(t testing.TB, what string, cp interface{ Stats() gocontrolplane.Stats }, want int) (stats gocontrolplane.Stats) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%s: %d", what, want), func() bool {
		stats = cp.Stats()
		return len(stats.Streams) == want
	})
	return stats
}

// federated gives the first upstream the authorities a, b and b.c, the second one
// c and what else ends in .c, and nobody the rest.
func federated(c *config.Config) {
	c.Upstreams[0].Default = false
	c.Upstreams[0].Authorities = []string{"a", "b", "b.c"}
	c.Upstreams[1].Authorities = []string{"c", "*.c"}
}

// newRelayError is the error of a relay that cannot be made.
func newRelayError(t testing.TB, change func(*config.Config), planes ...string) error {
	t.Helper()
	_, err := relay.New(testConfig(t, change, planes), relay.Options{})
	return err
}
