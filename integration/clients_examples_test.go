package integration

import (
	"encoding/json"
	"os"
	"sync"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/config/bootstrap"
	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/xds"
	"google.golang.org/protobuf/proto"
)

// The servers that the examples of bootstraps name.
const (
	exampleFirst   = "dns:///xdsrelay-1.example.com:18100"
	exampleSecond  = "dns:///xdsrelay-2.example.com:18100"
	examplePlane   = "dns:///control-plane.example.com:443"
	examplePartner = "dns:///control-plane.partner.example.com:443"
)

// readBootstrap reads an example of a bootstrap.
func readBootstrap(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile("../examples/bootstraps/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// leadTo has an example name other servers, without TLS. All that the example names must be
// among them.
func leadTo(t *testing.T, bootstrap []byte, servers map[string]string) []byte {
	t.Helper()
	var file any
	if err := json.Unmarshal(bootstrap, &file); err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		case map[string]any:
			if uri, ok := v["server_uri"].(string); ok {
				found[uri] = true
				v["server_uri"] = servers[uri]
				v["channel_creds"] = []any{map[string]any{"type": "insecure"}}
			}
			for _, inner := range v {
				walk(inner)
			}
		}
	}
	walk(file)
	for uri := range found {
		if servers[uri] == "" {
			t.Fatalf("the example names %s, and the test does not", uri)
		}
	}
	if len(found) != len(servers) {
		t.Fatalf("the example names %v, the test %v", found, servers)
	}
	encoded, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// TestGRPCBootstraps_ABS2_LOC3 has gRPC clients start with the bootstraps of examples.
func TestGRPCBootstraps_ABS2_LOC3(t *testing.T) {
	t.Parallel() // most of it is waiting
	for _, name := range []string{"grpc-fallback.json", "grpc-federation.json"} {
		if _, err := xds.NewXDSResolverWithConfigForTesting(readBootstrap(t, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := newReport(t)
	for _, kind := range clientKinds() {
		if !kind.fallsBack {
			continue
		}
		t.Run("ABS-2 grpc-fallback.json/"+kind.name, func(t *testing.T) {
			t.Parallel()
			r.require(t, kind.name, kind.missing)
			exampleFallback(t, r, kind)
		})
		t.Run("ABS-2 xdsrelay bootstrap/"+kind.name, func(t *testing.T) {
			t.Parallel()
			r.require(t, kind.name, kind.missing)
			madeBootstrap(t, r, kind)
		})
		t.Run("LOC-3 grpc-federation.json/"+kind.name, func(t *testing.T) {
			t.Parallel()
			r.require(t, kind.name, kind.missing)
			exampleFederation(t, r, kind)
		})
	}
}

// exampleFallback: nobody is the first relay, the second one has no control plane.
func exampleFallback(t *testing.T, r *report, kind clientKind) {
	t.Helper()
	w := newWorld(t, kind, xdsServers()[0], naming{})
	w.serve(t, "a")
	bootstrap := leadTo(t, readBootstrap(t, "grpc-fallback.json"), map[string]string{
		exampleFirst: noServer, exampleSecond: startRelay(t, nil, noServer).addr, examplePlane: w.server,
	})
	client := kind.start(t, bootstrap, rpcTimeout)
	r.ran(t, func() string { return kind.name + " " + client.version() }, "examples/bootstraps/grpc-fallback.json")
	awaitAnswer(t, client, w.names.target("service"), "a")
}

// madeBootstrap: a bootstrap that xdsrelay bootstrap makes leads to a relay, and to the control plane if the relay is
// gone.
func madeBootstrap(t *testing.T, r *report, kind clientKind) {
	t.Helper()
	w := newWorld(t, kind, xdsServers()[0], naming{})
	w.serve(t, "a")
	for _, relayed := range []bool{true, false} {
		up := config.DefaultUpstream()
		up.Default, up.Endpoints = true, [][]string{{w.server}}
		relay := noServer
		if relayed {
			relay, up.Endpoints = startRelay(t, nil, w.server).addr, [][]string{{noServer}}
		}
		made, err := bootstrap.New(&config.Config{Server: config.Server{Listen: relay}, Upstreams: []config.Upstream{up}},
			bootstrap.Options{ID: "checkout", Listener: config.DefaultListenerName, Admin: "127.0.0.1:9901"})
		if err != nil {
			t.Fatal(err)
		}
		text, err := made.GRPC()
		if err != nil {
			t.Fatal(err)
		}
		client := kind.start(t, []byte(text), rpcTimeout)
		r.ran(t, func() string { return kind.name + " " + client.version() }, "xdsrelay bootstrap grpc")
		awaitAnswer(t, client, w.names.target("service"), "a")
	}
}

// exampleFederation: one relay for the services of one's own, a partner's control plane
// beside it.
func exampleFederation(t *testing.T, r *report, kind clientKind) {
	t.Helper()
	own := newWorld(t, kind, xdsServers()[1], naming{authority: "services.example.com"})
	own.serve(t, "a")
	partner := newWorld(t, kind, xdsServers()[0], naming{authority: "partner.example.com"})
	partner.serve(t, "b")
	bootstrap := leadTo(t, readBootstrap(t, "grpc-federation.json"), map[string]string{
		exampleFirst: noServer, exampleSecond: own.server, examplePartner: partner.server,
	})
	client := kind.start(t, bootstrap, rpcTimeout)
	r.ran(t, func() string { return kind.name + " " + client.version() }, "examples/bootstraps/grpc-federation.json")
	awaitAnswer(t, client, naming{}.target("service"), "a")
	awaitAnswer(t, client, own.names.target("service"), "a")
	awaitAnswer(t, client, partner.names.target("service"), "b")
}

// serve has a backend answer the calls of the service.
func (w *world) serve(t testing.TB, backend string) {
	t.Helper()
	w.set(t, w.names.resources(w.backends[backend])...)
}

// resources are all that a client needs to call the service.
func (n naming) resources(backend string) []proto.Message {
	return []proto.Message{
		n.endpoints("endpoints", backend), n.cluster("cluster", "endpoints"), n.route("route", "cluster"), n.listener("service", "route"),
	}
}

// awaitAnswer calls until a backend answers.
func awaitAnswer(t testing.TB, client rpcClient, target, backend string) {
	t.Helper()
	waitFor(t, "an answer of "+backend+" from "+target, func() bool {
		o := client.call(target)
		return o.Code == codes.OK && o.Backend == backend
	})
}

// readRecipe loads an example of a configuration, and has it lead to a control plane without
// TLS.
func readRecipe(t *testing.T, name, plane string) *config.Config {
	t.Helper()
	c, err := config.Load("../examples/control-planes/"+name, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Server.TLS = nil
	c.Upstreams[0].TLS, c.Upstreams[0].Endpoints = nil, config.Endpoints{{plane}}
	return c
}

// TestGRPCRecipe_AGG1_AGG3_OPS1 has clients of all languages call themselves the same: they share
// one stream, on which the control plane sees their id. They reach what clients directly at the
// control plane reach, also after a change; and when the control plane is dead, fresh ones do.
func TestGRPCRecipe_AGG1_AGG3_OPS1(t *testing.T) {
	t.Parallel() // most of it is waiting
	reports := newReport(t)
	plane := gocontrolplane.New()
	if err := plane.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(plane.Close)
	t.Cleanup(stop)
	w := &world{names: naming{}, plane: plane, backends: map[string]string{"a": newBackend(t, "a"), "b": newBackend(t, "b")}}
	w.serve(t, "a")
	recipe := readRecipe(t, "grpc-clients.yaml", plane.Addr())
	relay := startRelay(t, func(c *config.Config) { *c = *recipe })
	var kinds []clientKind
	for _, kind := range clientKinds() {
		if reports.has(t, kind.name, kind.missing) {
			kinds = append(kinds, kind)
		}
	}
	// Clients start side by side: the machine may be busy.
	start := func(addr string) (clients []rpcClient) {
		for _, kind := range kinds {
			clients = append(clients, kind.start(t, w.names.bootstrap(t, "checkout", addr), rpcTimeout))
		}
		return clients
	}
	reach := func(backend string, clients ...rpcClient) {
		t.Helper()
		for _, c := range clients {
			var last outcome
			if _, ok := wait.Until(loadPatience, func() bool {
				last = c.call(w.names.target("service"))
				return last.Code == codes.OK && last.Backend == backend
			}); !ok {
				t.Fatalf("%s: %+v, want an answer of %s", c.version(), last, backend)
			}
		}
	}
	behind := start(relay.addr)
	for i, kind := range kinds {
		reports.ran(t, func() string { return kind.name + " " + behind[i].version() }, "examples/control-planes/grpc-clients.yaml")
	}
	reach("a", behind...)
	streams := plane.Stats().Streams
	if len(streams) != 1 || streams[0].Node.GetId() != "checkout" {
		t.Errorf("AGG-1: the control plane has %d streams, of the nodes %v", len(streams), streams)
	}
	direct := start(plane.Addr())
	reach("a", direct...)
	w.serve(t, "b")
	reach("b", append(behind, direct...)...)
	stop()
	reach("b", behind...)
	reach("b", start(relay.addr)...)
}
