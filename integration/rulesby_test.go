package integration

import (
	"maps"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

// TestRulesByPeer: what a client's certificate says decides, and not what its node claims.
func TestRulesByPeer_AGG1_AGG2(t *testing.T) {
	m := startMutualRules(t,
		worldRule("mesh", `peer.spiffe.startsWith("spiffe://example.org/ns/")`,
			`"ns/" + peer.spiffe.split("/")[4]`, `peer.spiffe.split("/")[4]`),
		worldRule("hosts", `peer.dns.exists(d, d.endsWith(".edge.test"))`, `"edge"`),
	)
	serve := func(id string, options ...pki.Option) string {
		c := m.connect(t, "node", m.fleet.Client(id, options...))
		c.awaitHolding(t, clusterType, "c1")
		return worldOf(c.payloads(clusterType)["c1"])
	}
	for path, want := range map[string]string{"ns/a/sa/x": "ns/a", "ns/a/sa/y": "ns/a", "ns/b/sa/x": "ns/b"} {
		if got := serve(path, pki.URI("spiffe://example.org/"+path)); got != want {
			t.Errorf("AGG-1: %s is served %q, want %q", path, got, want)
		}
	}
	serve("outsider", pki.URI("spiffe://example.com/ns/a/sa/x")) // no rule's
	if got := m.worlds.streams(); !maps.Equal(got, map[string]int{"ns/a": 1, "ns/b": 1, "cluster/": 1}) {
		t.Errorf("AGG-1 AGG-2: the control plane sees streams of %v", got)
	}
}

// mutualRules is a relay with rules to which clients show certificates.
type mutualRules struct {
	*mutual
	worlds *worlds
}

func startMutualRules(t *testing.T, rules ...config.Rule) *mutualRules {
	t.Helper()
	w := newWorlds(t, worldOfNode)
	w.set(clusterType, "c1", true)
	m := &mutual{dir: pki.NewFolder(t), fleet: pki.NewAuthority(t, "fleet")}
	m.server = m.fleet.Server(relayHost)
	down := config.ServerTLS{ClientCAFile: m.dir.PutCA("fleet", m.fleet)}
	down.CertFile, down.KeyFile = m.dir.PutPair("relay", m.server)
	m.relay = startRelay(t, func(c *config.Config) {
		c.Aggregation.Rules, c.Aggregation.Otherwise = rules, config.Isolate
		c.Server.TLS = &down
	}, w.front.addr)
	return &mutualRules{m, w}
}

// TestRulesByName: names of one type live in several scopes of one stream, beside the
// wildcard of a third. Each keeps to its own.
func TestRulesByName_AGG1_SUB12(t *testing.T) {
	for _, v := range []variant{deltaADS, delta, sotwADS, sotw, restPoll} {
		t.Run(v.name, func(t *testing.T) {
			r := startRuled(t,
				worldRule("shards", `name.matches('-[0-9]$')`, `"shard/" + name.substring(name.size() - 1)`, "name.substring(name.size() - 1)"),
				rule("rest", "true", "node.cluster"),
			)
			r.worlds.front.plain = true
			r.worlds.set(clusterType, "c-1", true)
			r.worlds.set(clusterType, "c-2", true)
			r.worlds.set(clusterType, "only-shard/1", true)
			c := newVariantClient(t, v, r.relay.address(v), "client")
			h := c.common()
			h.profile = profile("web", "", nil)
			if err := c.connect(false); err != nil {
				t.Fatal(err)
			}
			want := func(what string, typeURL string, from map[string]string) {
				t.Helper()
				if !h.happens(func() bool { return maps.Equal(comeFrom(h, typeURL), from) }) {
					t.Fatalf("%s: of %s the client holds %v, want %v", what, typeURL, comeFrom(h, typeURL), from)
				}
			}
			c.subscribe(endpointType, []string{"e-1", "e-2"}, nil)
			want("names of two scopes", endpointType, map[string]string{"e-1": "shard/1", "e-2": "shard/2"})
			c.subscribe(clusterType, []string{"*"}, nil)
			all := map[string]string{"c1": "cluster/web", "c-1": "cluster/web", "c-2": "cluster/web"}
			want("the wildcard", clusterType, all)
			// What is named beside the wildcard is that of the name.
			c.subscribe(clusterType, []string{"c-1"}, nil)
			all["c-1"] = "shard/1"
			want("a name beside the wildcard", clusterType, all)
			r.worlds.again(clusterType, "c-1")
			r.worlds.again(clusterType, "c-2")
			current := func() bool {
				h.mu.Lock()
				defer h.mu.Unlock()
				payloads := map[string]string{"c-1": "shard/1", "c-2": "cluster/web"}
				for name, world := range payloads {
					if h.holds[clusterType][name].payload != r.worlds.world(world).payloads(clusterType, map[string]bool{name: true})[name] {
						return false
					}
				}
				return true
			}
			if !h.happens(current) {
				t.Fatalf("the updates never came: %v", h.payloads(clusterType))
			}
			want("after an update", clusterType, all)
			c.subscribe(clusterType, nil, []string{"c-1"})
			all["c-1"] = "cluster/web"
			want("the wildcard again", clusterType, all)
			c.subscribe(clusterType, []string{"only-shard/1"}, nil) // ends in "1" without a dash before it: the rest's, which has no such name
			c.subscribe(endpointType, nil, []string{"e-1"})
			want("a name less", endpointType, map[string]string{"e-2": "shard/2"})
			r.worlds.again(endpointType, "e-1")
			r.worlds.again(endpointType, "e-2")
			want("names of one scope", endpointType, map[string]string{"e-2": "shard/2"})
			want("a name that does not exist", clusterType, all)
			for _, fault := range h.found() {
				t.Error(fault)
			}
			r.relay.consistent(t)
			r.worlds.checkClient(t)
		})
	}
}

// comeFrom is where what a client holds of a type comes from: the world by name.
func comeFrom(h *holdings, typeURL string) map[string]string {
	worlds := make(map[string]string)
	for name, payload := range h.payloads(typeURL) {
		worlds[name] = worldOf(payload)
	}
	return worlds
}

// TestRulesWithoutNode: clients that give no node look all alike, so only a rule that does
// not look at it may let them share.
func TestRulesWithoutNode_AGG2_STR1(t *testing.T) {
	for _, tt := range []struct {
		name      string
		otherwise config.Policy
		rules     []config.Rule
		want      codes.Code
	}{
		{"AGG-2 a rule that looks at the node", config.Share, []config.Rule{rule("clusters", `node.cluster == ""`)}, codes.InvalidArgument},
		{"AGG-2 a scope that looks at the node", config.Share, []config.Rule{rule("clusters", "true", "node.cluster")}, codes.InvalidArgument},
		{"AGG-2 isolate", config.Isolate, nil, codes.InvalidArgument},
		{"AGG-2 refuse", config.Refuse, nil, codes.PermissionDenied},
		{"AGG-2 share", config.Share, nil, codes.OK},
		{"AGG-1 a rule that does not look at it", config.Isolate, []config.Rule{rule("all", "type == cds")}, codes.OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := startRuledOtherwise(t, tt.otherwise, tt.rules...)
			conn := dial(t, r.relay.addr)
			defer conn.Close()
			g, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := g.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: clusterType}); err != nil {
				t.Fatal(err)
			}
			response, err := g.Recv()
			if status.Code(err) != tt.want {
				t.Fatalf("AGG-2: the stream ended with %v, want %v", err, tt.want)
			}
			if tt.want == codes.OK && len(response.GetResources()) != 1 {
				t.Errorf("the client was sent %v", response)
			}
			if tt.want != codes.OK && r.worlds.front.Opened() > 0 {
				t.Error("AGG-2: the control plane was asked")
			}
		})
	}
}
