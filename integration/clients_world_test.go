package integration

import (
	"net"
	"strconv"
	"testing"

	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"google.golang.org/protobuf/proto"
)

// world is a control plane, perhaps a relay, and the backends: what a scenario
// plays in.
type world struct {
	kind     clientKind
	version  string // of the client, from the first join
	names    naming
	plane    managementServer
	relay    *testRelay // nil: clients are at the control plane
	streams  int        // of the relay
	ordered  bool       // the relay is told of changes in their order
	server   string     // address of what clients are at
	backends map[string]string
}

func newWorld(t testing.TB, kind clientKind, server xdsServer, names naming) *world {
	t.Helper()
	w := &world{kind: kind, names: names, plane: server.plane(t), backends: make(map[string]string)}
	for _, name := range []string{"a", "b", "c"} {
		w.backends[name] = newBackend(t, name)
	}
	if err := w.plane.Start(t.Context(), net.JoinHostPort("127.0.0.1", strconv.Itoa(ports.Free(t)))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.plane.Close)
	w.server = w.plane.Addr()
	if server.relayed {
		w.streams, w.ordered = 1, server.ordered
		if server.up.perType {
			w.streams = len(everyType)
		}
		w.relay = startRelay(t, func(c *config.Config) {
			c.Upstreams[0].APIType = config.APIType(server.up.apiType)
			if names.authority != "" {
				c.Upstreams[0].Authorities = []string{names.authority}
			}
			if server.settings != nil {
				server.settings(c)
			}
		}, w.plane.Addr())
		w.server = w.relay.addr
	}
	return w
}

// set adds or changes resources, one after the other.
func (w *world) set(t testing.TB, messages ...proto.Message) {
	t.Helper()
	for _, m := range messages {
		if _, err := w.plane.UpdateResource(cache.GetResourceName(m), m); err != nil {
			t.Fatal(err)
		}
	}
}

// drop removes resources, one after the other.
func (w *world) drop(t testing.TB, messages ...proto.Message) {
	t.Helper()
	for _, m := range messages {
		if err := w.plane.DeleteResource(gocontrolplane.TypeURL(m), cache.GetResourceName(m)); err != nil {
			t.Fatal(err)
		}
	}
}

// client names what joined.
func (w *world) client() string { return w.kind.name + " " + w.version }

// join starts a client of the service, which calls from then on.
func (w *world) join(t testing.TB, node string) *caller {
	t.Helper()
	client := w.kind.start(t, w.names.bootstrap(t, node, w.server), rpcTimeout)
	w.version = client.version()
	return newCaller(t, client, w.names.target("service"))
}

// awaitAsked waits until the control plane was asked for a resource.
func (w *world) awaitAsked(t testing.TB, m proto.Message) {
	t.Helper()
	waitFor(t, "a request for "+cache.GetResourceName(m), func() bool {
		for _, stream := range w.plane.Stats().Streams {
			if stream.Types[gocontrolplane.TypeURL(m)].Names[cache.GetResourceName(m)] > 0 {
				return true
			}
		}
		return false
	})
}

// check is what holds at the end of every scenario: nobody refused what the
// control plane sent, and a relay asked it for everything once.
func (w *world) check(t testing.TB) {
	t.Helper()
	stats := w.plane.Stats()
	if stats.Nacks > 0 {
		t.Errorf("the control plane was sent %d NACKs", stats.Nacks)
	}
	if w.relay == nil {
		return
	}
	w.relay.consistent(t)
	stats = awaitStreams(t, "SUB-10: the streams of the relay", w.plane, w.streams)
	for _, stream := range stats.Streams {
		for url, of := range stream.Types {
			for name, times := range of.Names {
				if times != 1 {
					t.Errorf("SUB-10: the relay asked %d times for %s of %s", times, name, url)
				}
			}
		}
	}
}
