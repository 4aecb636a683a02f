package controlplanes

import (
	"fmt"
	"net"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/traffic"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
)

// controlPlane is a real one.
type controlPlane interface {
	addr() string
	version() string
	// lead has it lead the Envoys to a backend.
	lead(t *testing.T, backend string)
	kill()
}

// subject is a control plane with its recipe.
type subject struct {
	name    string
	recipe  string
	variant envoyproc.Variant
	start   func(*testing.T) controlPlane
	// node is that of an Envoy. Envoys with different numbers get the same resources.
	node func(number int) *corev3.Node
	// bootstrap changes an Envoy's bootstrap: its credentials; nil: nothing.
	bootstrap func(p controlPlane, number int, b *bootstrapv3.Bootstrap)
	// relay changes what the recipe cannot know; nil: nothing.
	relay func(controlPlane, *config.Config)
	// isolated: the recipe shares nothing.
	isolated bool
	// listener is asked for the backend, if its port is the test's alone: "" is none.
	listener string
	// backends are made up, where the control plane does not take those of this machine.
	backends []string
}

// envoysBehind is the number of Envoys behind the relay.
const envoysBehind = 3

// TestRecipes plays each recipe.
func TestRecipes_AGG1_AGG3_OPS1(t *testing.T) {
	envoy := binary(t)
	for _, s := range []*subject{goControlPlane(), javaControlPlane(), sovereign(), istio(), envoyGateway(), consul()} {
		t.Run("AGG-1 OPS-1 "+s.name, func(t *testing.T) { s.play(t, envoy) })
	}
}

// fleet is a play: a control plane, an Envoy at it, a relay, and Envoys behind the relay.
type fleet struct {
	t      *testing.T
	of     *subject
	binary string
	plane  controlPlane
	relay  *relayRun
	direct *envoyproc.Envoy
	behind []*envoyproc.Envoy
}

func (s *subject) play(t *testing.T, envoy string) {
	t.Helper()
	f := &fleet{t: t, of: s, binary: envoy, plane: s.start(t)}
	report(t, s, f.plane.version)
	backends := s.backends
	if backends == nil {
		backends = []string{traffic.Backend(t, "a"), traffic.Backend(t, "b")}
	}
	f.plane.lead(t, backends[0])
	f.relay = startRelay(t, s.recipe, f.plane.addr(), func(c *config.Config) {
		if s.relay != nil {
			s.relay(f.plane, c)
		}
	})
	f.direct = f.join(0, f.plane.addr())
	for number := range envoysBehind {
		f.behind = append(f.behind, f.join(number, f.relayAddr()))
	}
	f.agree("at the start", backends[0], "a")
	f.shares()

	f.plane.lead(t, backends[1])
	f.agree("after the change", backends[1], "b")

	// A control plane may give a listener a new version that is otherwise the same, and Envoys
	// that have it keep the old version. So a fresh Envoy is compared with a fresh one.
	last := f.leads(f.join(0, f.plane.addr()), backends[1])
	f.plane.kill()
	f.silent()
	f.agree("the control plane is dead", backends[1], "b")
	number := envoysBehind // a new one
	if s.isolated {
		number = 1 // one that restarts: nobody but the control plane knows a new one's resources
		f.behind[number].Kill()
	}
	fresh := f.join(number, f.relayAddr())
	f.has(fresh, last, "the control plane is dead: a fresh Envoy", "b")
	f.unscathed(append(f.behind, fresh)...)
}

// silent makes sure that nobody listens in place of the control plane: a process that it has
// started, for instance.
func (f *fleet) silent() {
	f.t.Helper()
	conn, err := new(net.Dialer).DialContext(f.t.Context(), "tcp", f.plane.addr())
	if err == nil {
		_ = conn.Close()
		f.t.Fatal("the control plane is dead, and takes connections")
	}
}

// relayAddr is where Envoys are sent.
func (f *fleet) relayAddr() string {
	if f.of.variant.REST {
		return f.relay.rest
	}
	return f.relay.addr
}

// join starts an Envoy.
func (f *fleet) join(number int, addr string) *envoyproc.Envoy {
	f.t.Helper()
	b := f.of.variant.Bootstrap("", addr)
	b.Node = f.of.node(number)
	if f.of.bootstrap != nil {
		f.of.bootstrap(f.plane, number, b)
	}
	return envoyproc.Start(f.t, f.binary, b)
}

// leads waits until an Envoy at the control plane leads to a backend, and gives what it has.
func (f *fleet) leads(e *envoyproc.Envoy, backend string) (last holdings) {
	f.t.Helper()
	_, port, err := net.SplitHostPort(backend)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, ok := wait.Until(patience, func() bool {
		if !e.Live() {
			return false // the first listeners are still to come
		}
		last = holdingsOf(e)
		return last.mentions(`"port_value":` + port)
	}); !ok {
		f.t.Fatalf("the Envoy %s at the control plane does not lead to %s: %v", e.Node(), backend, last)
	}
	if f.of.variant.REST {
		// Each Envoy polls for its own routes, and the relay for those of all. So an answer,
		// of which the version is, is not one of the control plane's.
		last.forgetVersions("route_config")
	}
	return last
}

// agree waits until the Envoy at the control plane leads to the backend, and until all others
// have what it has then: it may change once more while the others are looked at.
func (f *fleet) agree(when, backend, name string) {
	f.t.Helper()
	var differences []string
	_, ok := wait.Until(patience, func() bool {
		want := f.leads(f.direct, backend)
		differences = nil
		for _, e := range f.behind {
			for _, d := range want.differences(holdingsOf(e)) {
				differences = append(differences, e.Node()+": "+d)
			}
		}
		return len(differences) == 0
	})
	if !ok {
		f.t.Fatalf("%s, Envoys behind the relay do not have what the one at the control plane has:\n%s", when, strings.Join(differences, "\n"))
	}
	for _, e := range append([]*envoyproc.Envoy{f.direct}, f.behind...) {
		f.answers(e, when, name)
	}
}

// has waits until an Envoy has the same resources and versions, and leads to a backend.
func (f *fleet) has(e *envoyproc.Envoy, want holdings, what, backend string) {
	f.t.Helper()
	var differences []string
	_, ok := wait.Until(patience, func() bool {
		differences = []string{"it is not live"}
		if e.Live() {
			differences = want.differences(holdingsOf(e))
		}
		return len(differences) == 0
	})
	if !ok {
		f.t.Fatalf("%s (%s) does not have what the one at the control plane has:\n%s", what, e.Node(), strings.Join(differences, "\n"))
	}
	f.answers(e, what, backend)
}

// answers makes requests through an Envoy, where it can be told from others.
func (f *fleet) answers(e *envoyproc.Envoy, what, backend string) {
	f.t.Helper()
	if f.of.listener == "" {
		return
	}
	client := traffic.NewClient()
	var last traffic.Outcome
	if _, ok := wait.Until(patience, func() bool {
		last = client.Get(f.t.Context(), e.Addr(f.of.listener), "", "/")
		return last.OK(backend)
	}); !ok {
		f.t.Fatalf("%s (%s): %v, want an answer of %s", what, e.Node(), last, backend)
	}
}

// shares looks at what the Envoys cost the control plane.
func (f *fleet) shares() {
	f.t.Helper()
	want := 1
	if f.of.isolated {
		want = envoysBehind
	}
	scopes, streams := f.relay.sessions(f.t)
	if scopes != want || !f.of.variant.REST && streams != want {
		f.t.Errorf("AGG-1: %d Envoys have %d scopes and %d streams, want %d", envoysBehind, scopes, streams, want)
	}
}

// unscathed looks for resources that Envoys rejected.
func (f *fleet) unscathed(envoys ...*envoyproc.Envoy) {
	f.t.Helper()
	for _, e := range envoys {
		if e.Ended() {
			continue
		}
		for name, n := range e.Stats(`update_rejected$`) {
			if n > 0 {
				f.t.Errorf("%s: %s is %d", e.Node(), name, n)
			}
		}
	}
}

// named is the usual node of an Envoy.
func named(id, cluster string) func(int) *corev3.Node {
	return func(number int) *corev3.Node {
		return &corev3.Node{Id: fmt.Sprintf(id, number), Cluster: cluster}
	}
}
