package envoy

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/traffic"
)

// soon is how long what is no scenario's subject may take: an Envoy's start, the first
// resources.
const soon = 10 * time.Second

// world is what a scenario plays in: a control plane, relays or none, and Envoys.
type world struct {
	*play
	resources

	form   form
	side   side
	binary string
	plane  *plane.Plane
	second *plane.Plane    // nil without one
	goCP   *goControlPlane // nil without it
	relays []*relayProcess // from the control plane's side to the Envoys', or a pair
	addr   string          // where Envoys are sent
	same   *same           // what other plays have in common with this one; nil: nothing
	fleet  *fleetTLS       // of Envoys and relays that are peers; nil without
	client *traffic.Client
	last   traffic.Outcome // of the last ask
}

// newWorld starts everything but the Envoys.
func newWorld(t *testing.T, s *scenario, f form, at side) *world {
	t.Helper()
	w := &world{
		play: &play{t: t, slack: busySlack}, resources: resources{variant: f.envoy, fetch: s.fetch},
		form: f, side: at, binary: binary(t), client: traffic.NewClient(),
	}
	switch {
	case knownFault(s.name, f.name, at) != nil:
		w.slack = 1
	case soaking():
		w.slack = soakSlack
	}
	w.plane = plane.Start(t, s.behaviour)
	w.addr = w.plane.Addr()
	if f.envoy.REST {
		w.addr = w.plane.RESTAddr()
	}
	if s.second {
		w.second = plane.Start(t, s.behaviour)
	}
	if s.goCP {
		w.goCP = startGoControlPlane(t, s.plain)
		w.addr = w.goCP.Addr()
	}
	if w.same = s.same; w.same != nil {
		w.record(s, at)
	}
	switch {
	case at != relayed:
	case s.pair:
		w.addPair(s)
	default:
		for range max(1, s.tiers) {
			w.addRelay(s)
		}
	}
	return w
}

// settings are those of a relay in a scenario.
func (w *world) settings(s *scenario, c *config.Config) {
	w.t.Helper()
	if s.relay != nil {
		s.relay(c)
	}
	if s.disk {
		c.Cache.Dir, c.Cache.SnapshotEvery = w.t.TempDir(), config.Duration(time.Second)
	}
	if w.second != nil {
		c.Upstreams[0].Endpoints = append(c.Upstreams[0].Endpoints, []string{w.second.Addr()})
	}
}

// addRelay puts a relay in front of what is there.
func (w *world) addRelay(s *scenario) {
	w.t.Helper()
	addr := w.plane.Addr()
	if w.form.up == config.REST {
		addr = w.plane.RESTAddr()
	}
	if w.goCP != nil {
		addr = w.goCP.Addr()
	}
	if n := len(w.relays); n > 0 {
		addr = w.relays[n-1].addr
		if w.form.up == config.REST {
			addr = w.relays[n-1].rest
		}
	}
	socket := w.door(s)
	r := startRelay(w.t, w.form.up, addr, s.killed, func(c *config.Config) {
		w.settings(s, c)
		if w.fleet != nil {
			w.fleet.serve(c)
		}
		if socket != nil {
			c.Server.Listeners = []config.Listener{*socket}
		}
	})
	w.relays = append(w.relays, r)
	switch {
	case socket != nil:
		w.addr = socket.Listen
	case w.form.envoy.REST:
		w.addr = r.rest
	default:
		w.addr = r.addr
	}
}

// door prepares how Envoys come to a relay: with certificates, or through a unix socket, which is
// returned. Nil: neither.
func (w *world) door(s *scenario) *config.Listener {
	w.t.Helper()
	if s.mutual {
		w.fleet = newFleetTLS(w.t)
	}
	if !s.pipe {
		return nil
	}
	folder, err := os.MkdirTemp("", "pipe") // the path of a socket is short, and tests have long names
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = os.RemoveAll(folder) }) // it is in the folder for temporary files
	l := config.DefaultListener()
	l.Name, l.Listen = "local", "unix://"+filepath.Join(folder, "xds.sock")
	if w.form.envoy.REST {
		l.Protocol = config.ProtocolREST
	}
	return &l
}

// envoy starts an Envoy.
func (w *world) envoy(id string) *envoyproc.Envoy {
	w.t.Helper()
	return w.envoyAt(id, w.addr)
}

// envoyAt starts an Envoy that goes to one of several servers.
func (w *world) envoyAt(id string, addrs ...string) *envoyproc.Envoy {
	w.t.Helper()
	b := w.variant.Bootstrap(id, addrs...)
	if w.fleet != nil {
		w.fleet.secure(b)
	}
	return envoyproc.Start(w.t, w.binary, b)
}

// backend starts a server that answers with its name, and gives its address.
func (w *world) backend(name string) string {
	w.t.Helper()
	return once(w, "backend "+name, func() string { return traffic.Backend(w.owner(), name) })
}

// get makes a request to a listener.
func (w *world) get(e *envoyproc.Envoy, listener string) traffic.Outcome {
	return w.ask(e, listener, "")
}

// ask makes a request for a host to a listener.
func (w *world) ask(e *envoyproc.Envoy, listener, host string) traffic.Outcome {
	w.last = traffic.Outcome{At: time.Now(), Failure: "no listener"}
	if addr := e.Addr(listener); addr != "" {
		w.last = w.client.Get(context.Background(), addr, host, "/")
	}
	return w.last
}

// answers is the condition that a backend answers requests to the listener.
func (w *world) answers(e *envoyproc.Envoy, listener, backend string) func() bool {
	return func() bool { return w.get(e, listener).OK(backend) }
}
