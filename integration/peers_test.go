package integration

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/internal/testkit/workloads"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// peerID is the identity of the relays of a test that may ask each other.
const peerID = "spiffe://relays.example/relay"

// peerGroup is relays that are peers of each other.
type peerGroup struct {
	fleet   *pki.Authority // of clients, and of servers
	relays  *pki.Authority // of relays that ask
	dir     *pki.Folder
	plane   string // address of the control plane
	members []string
	asked   map[string]string // where a member is asked, by its address for clients
	shown   tls.Certificate   // by clients
	// Workload APIs, one for clients and one for relays; nil: there are files.
	api, asking *workloads.API
}

func newPeerGroup(t *testing.T, plane string) *peerGroup {
	t.Helper()
	g := &peerGroup{fleet: pki.NewAuthority(t, "fleet"), relays: pki.NewAuthority(t, "relays"), dir: pki.NewFolder(t), plane: plane, asked: make(map[string]string)}
	g.dir.PutCA("fleet", g.fleet)
	g.dir.PutCA("relays", g.relays)
	g.dir.PutPair("server", g.fleet.Server(relayHost))
	g.dir.PutPair("relay", g.relays.Client("relay", pki.URI(peerID)))
	g.shown = g.fleet.Client("client", pki.URI("spiffe://example.org/client"))
	return g
}

// configure has a relay ask all members, itself too, as a headless service would have it. Members ask at its listener
// for them.
func (g *peerGroup) configure(c *config.Config, address string) {
	impatient(c)
	c.Server.TLS = &config.ServerTLS{CertFile: g.dir.Path("server.crt"), KeyFile: g.dir.Path("server.key"), ClientCAFile: g.dir.Path("fleet.crt")}
	l := config.DefaultListener()
	l.Name, l.Listen = "relays", g.asked[address]
	l.TLS = &config.ServerTLS{CertFile: g.dir.Path("server.crt"), KeyFile: g.dir.Path("server.key"), ClientCAFile: g.dir.Path("relays.crt")}
	c.Peers.Listener, c.Peers.Addresses, c.Peers.Identities = l.Name, g.members, []string{peerID}
	c.Peers.TLS = config.UpstreamTLS{CAFile: g.dir.Path("fleet.crt"), CertFile: g.dir.Path("relay.crt"), KeyFile: g.dir.Path("relay.key"), ServerName: relayHost}
	if g.api != nil {
		c.Server.TLS = &config.ServerTLS{SPIFFE: &config.SPIFFE{Socket: g.api.Socket()}}
		l.TLS = &config.ServerTLS{SPIFFE: &config.SPIFFE{Socket: g.asking.Socket(), TrustDomains: []string{"relays.example"}}}
		c.Peers.TLS = config.UpstreamTLS{SPIFFE: &config.ClientSPIFFE{Socket: g.asking.Socket(), ServerIDs: []string{peerID}}}
	}
	c.Server.Listeners = []config.Listener{l}
}

// byAgent has the relays take their certificates from SPIFFE Workload APIs.
func (g *peerGroup) byAgent(t *testing.T) {
	t.Helper()
	g.api, g.asking = workloads.New(t), workloads.New(t)
	g.api.Give(g.fleet.SVID("spiffe://example.org/relay"), g.fleet, nil)
	g.asking.Give(g.relays.SVID(peerID), g.relays, nil)
	g.api.Start()
	g.asking.Start()
}

// listen reserves the addresses of n members.
func (g *peerGroup) listen(t *testing.T, n int) []net.Listener {
	t.Helper()
	var all []net.Listener
	for range n {
		lis := ports.Listen(t)
		asked := fmt.Sprint("127.0.0.1:", ports.Free(t))
		all, g.members = append(all, lis), append(g.members, asked)
		g.asked[lis.Addr().String()] = asked
	}
	return all
}

// start starts a member; change may be nil.
func (g *peerGroup) start(t *testing.T, lis net.Listener, change func(*config.Config)) *testRelay {
	t.Helper()
	return startRelayAt(t, lis, ports.Listen(t), func(c *config.Config) {
		g.configure(c, lis.Addr().String())
		if change != nil {
			change(c)
		}
	}, g.plane)
}

// creds are those of clients.
func (g *peerGroup) creds() grpc.DialOption {
	return grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: g.fleet.Pool(), ServerName: relayHost, InsecureSkipVerify: g.api != nil, // SVIDs have no host
		NextProtos: []string{"h2"}, Certificates: []tls.Certificate{g.shown},
	}))
}

// client connects to a member.
func (g *peerGroup) client(t *testing.T, v variant, relay *testRelay, node string, options ...grpc.DialOption) xdsClient {
	t.Helper()
	c := newVariantClient(t, v, relay.addr, node, append(options, g.creds())...)
	if err := c.connect(true); err != nil {
		t.Fatal(err)
	}
	return c
}

// metric is the value of a series on a relay's page of metrics; "" if there is none.
func metricOf(t testing.TB, relay *testRelay, series string) string {
	t.Helper()
	_, page := relay.get(t, "/metrics")
	for line := range strings.Lines(page) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			return value
		}
	}
	return ""
}

// A relay that is restarted without a disk while its control plane is dead serves new clients from its
// peer, secrets too. When the control plane is back, what it has is confirmed, and the rest replaced.
func TestPeers_SUR1_OPS6(t *testing.T) {
	t.Parallel()
	for _, v := range []variant{deltaADS, sotwADS, delta, sotw} {
		for _, policy := range []config.Policy{config.Share, config.Isolate} {
			t.Run(fmt.Sprintf("%s %s", v.name, policy), func(t *testing.T) {
				t.Parallel()
				testPeers(t, v, policy, "AGGREGATED_DELTA_GRPC", nil)
			})
		}
	}
	for _, api := range []config.APIType{"AGGREGATED_GRPC", "DELTA_GRPC"} {
		t.Run(string(api), func(t *testing.T) {
			t.Parallel()
			testPeers(t, deltaADS, config.Share, api, nil)
		})
	}
	t.Run("SPIFFE", func(t *testing.T) {
		t.Parallel()
		testPeers(t, deltaADS, config.Share, "AGGREGATED_DELTA_GRPC", (*peerGroup).byAgent)
	})
}

func testPeers(t *testing.T, v variant, policy config.Policy, api config.APIType, more func(*peerGroup, *testing.T)) {
	t.Helper()
	p := restoredPlane(t)
	g := newPeerGroup(t, p.addr)
	if more != nil {
		more(g, t)
	}
	lis := g.listen(t, 2)
	change := func(c *config.Config) {
		c.Aggregation.Otherwise = policy
		c.Upstreams[0].APIType = api
	}
	relay, peer := g.start(t, lis[0], change), g.start(t, lis[1], change)
	for _, r := range []*testRelay{relay, peer} {
		c := g.client(t, v, r, "client")
		asksForAll(c)
		awaitRestored(t, c.common())
		c.common().awaitHolding(t, secretType, "hush-hush")
	}
	relay.stop()
	p.stop()

	relay = g.start(t, ports.Again(t, relay.addr), change)
	if policy == config.Isolate { // in the others the client comes before anything is known
		health := healthOf(t, relay.addr, g.creds())
		waitFor(t, "gRPC's health service to say that a peer has content", func() bool {
			return health() == healthpb.HealthCheckResponse_SERVING
		})
		if _, page := relay.get(t, "/readyz"); !strings.Contains(page, "at peers") {
			t.Errorf("ready: %s", page)
		}
	}
	fresh := g.client(t, v, relay, "client")
	asksForAll(fresh)
	waitFor(t, "the client to be served", func() bool {
		if !fresh.connected() { // on a busy machine the peer may be too late (ABS-2)
			if err := fresh.connect(true); err != nil {
				t.Fatal(err)
			}
		}
		for typeURL, names := range restored {
			if len(fresh.common().all(typeURL)) < len(names) {
				return false
			}
		}
		return len(fresh.common().all(secretType)) > 0
	})
	awaitRestored(t, fresh.common())
	waitFor(t, "resources taken from the peer to be counted", func() bool { // clients have them a moment before
		taken := metricOf(t, relay, "xdsrelay_peer_taken_resources_total")
		return taken != "0" && taken != ""
	})
	if n := metricOf(t, relay, `xdsrelay_peer_asked_total{result="ignored"}`); n != "0" {
		t.Errorf("%s peers refused, and itself is none", n)
	}
	if _, page := relay.get(t, "/resources"); !strings.Contains(page, "restored_as_of") {
		t.Error("SUR-1: what a peer gave is not marked")
	}
	relay.consistent(t)

	p.set(clusterType, "c1", true)
	p.unset(clusterType, "c3")
	p.set(endpointType, "c2", false)
	p.restart(t)
	c := fresh.common()
	for _, typeURL := range []string{clusterType, endpointType, listenerType, routeType, secretType} {
		same := func() bool { return maps.Equal(c.payloads(typeURL), p.payloads(typeURL, c.wanted(typeURL))) }
		if !c.happens(same) {
			t.Fatalf("the client holds %q of %s, want %q", c.payloads(typeURL), typeURL, p.payloads(typeURL, c.wanted(typeURL)))
		}
	}
	if faults := c.found(); len(faults) > 0 {
		t.Errorf("faults: %q", faults)
	}
	relay.consistent(t)
	peer.consistent(t)
}

// Relays in a ring of which each lacks everything ask each other, and end with an answer: clients are
// sent away, and nobody goes on asking.
func TestPeersInARing_ABS2(t *testing.T) {
	t.Parallel()
	gone := ports.Listen(t)
	_ = gone.Close()
	g := newPeerGroup(t, gone.Addr().String())
	var relays []*testRelay
	for _, lis := range g.listen(t, 3) {
		relays = append(relays, g.start(t, lis, nil))
	}
	var clients []xdsClient
	for i, r := range relays {
		c := g.client(t, deltaADS, r, fmt.Sprint("client-", i))
		c.subscribe(clusterType, []string{"*"}, nil)
		c.subscribe(endpointType, []string{"e"}, nil)
		clients = append(clients, c)
	}
	for i, c := range clients {
		if !c.common().happens(func() bool { return !c.connected() }) {
			t.Fatalf("client %d waits for ever", i)
		}
		if err := c.(interface{ ended() error }).ended(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "is unreachable") { //nolint:forcetypeassert // a client over gRPC
			t.Errorf("client %d: the stream ended with %v", i, err)
		}
	}
	for _, r := range relays {
		health := healthOf(t, r.addr, g.creds())
		waitFor(t, "gRPC's health service to say so", func() bool { return health() == healthpb.HealthCheckResponse_NOT_SERVING })
		waitFor(t, "the clients to be gone", func() bool {
			_, page := r.get(t, "/clients")
			return strings.TrimSpace(page) == "[]"
		})
		r.consistent(t)
		for _, series := range []string{"xdsrelay_peer_taken_resources_total", "xdsrelay_peer_given_resources_total"} {
			if n := metricOf(t, r, series); n != "0" {
				t.Errorf("%s is %s, and nobody has anything", series, n)
			}
		}
		var asked int
		if _, err := fmt.Sscan(metricOf(t, r, `xdsrelay_peer_asked_total{result="nothing"}`), &asked); err != nil || asked > 20 {
			t.Errorf("asked peers %d times: %v", asked, err)
		}
	}
}

// A client that is no peer may set the marker as it likes: the relay ignores it, and counts it. So a
// relay whose identity its peers do not know gets nothing from them.
func TestPeersMustBeKnown_SUR1(t *testing.T) {
	t.Parallel()
	p := restoredPlane(t)
	g := newPeerGroup(t, p.addr)
	lis := g.listen(t, 2)
	strict := g.start(t, lis[1], func(c *config.Config) { c.Peers.Identities = []string{"spiffe://relays.example/another"} })
	marked := func(marker string) grpc.DialOption {
		return with("xdsrelay-peer-bin", marker)
	}
	for i, marker := range []string{`{"from":"x","store":"y"}`, "nonsense"} {
		c := g.client(t, deltaADS, strict, fmt.Sprint("client-", i), marked(marker))
		asksForAll(c)
		awaitRestored(t, c.common())
	}
	if n := metricOf(t, strict, "xdsrelay_peer_ignored_total"); n != "2" {
		t.Errorf("%s markers were ignored, want 2", n)
	}
	p.stop()
	relay := g.start(t, lis[0], nil)
	c := g.client(t, deltaADS, relay, "client")
	asksForAll(c)
	if !c.common().happens(func() bool { return !c.connected() }) {
		t.Fatal("the client waits for ever")
	}
	if n := metricOf(t, relay, "xdsrelay_peer_taken_resources_total"); n != "0" {
		t.Errorf("took %s resources from a peer that does not know the relay", n)
	}
	if n := metricOf(t, strict, "xdsrelay_peer_answers_total"); n != "0" {
		t.Errorf("the peer gave %s answers", n)
	}
	waitFor(t, "the log to say so", func() bool { return strings.Contains(relay.log.String(), "a peer does not let this relay ask") })
	health := healthOf(t, relay.addr, g.creds())
	waitFor(t, "gRPC's health service to say so", func() bool { return health() == healthpb.HealthCheckResponse_NOT_SERVING })
}
