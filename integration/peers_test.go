package integration

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
	fleet  *pki.Authority // of clients, and of servers
	relays *pki.Authority // of relays as peers
	dir    *pki.Folder
	plane  string // address of the control plane
	asked  []string
	shown  tls.Certificate // by clients
	// Workload APIs, one for clients and one for relays; nil: there are files.
	api, asking *workloads.API
}

func newPeerGroup(t *testing.T, plane string) *peerGroup {
	t.Helper()
	g := &peerGroup{fleet: pki.NewAuthority(t, "fleet"), relays: pki.NewAuthority(t, "relays"), dir: pki.NewFolder(t), plane: plane}
	g.dir.PutCA("fleet", g.fleet)
	g.dir.PutCA("relays", g.relays)
	g.dir.PutPair("server", g.fleet.Server(relayHost))
	g.dir.PutPair("relay", g.relays.SVID(peerID))
	g.shown = g.fleet.Client("client", pki.URI("spiffe://example.org/client"))
	return g
}

// configure has a relay ask all members, itself too, as a headless service would have it.
func (g *peerGroup) configure(c *config.Config, asked string) {
	impatient(c)
	c.Server.TLS = &config.ServerTLS{CertFile: g.dir.Path("server.crt"), KeyFile: g.dir.Path("server.key"), ClientCAFile: g.dir.Path("fleet.crt")}
	c.Peers.Listen, c.Peers.Addresses, c.Peers.Identities, c.Peers.Secrets = asked, g.asked, []string{peerID}, true
	c.Peers.TLS = config.PeersTLS{CAFile: g.dir.Path("relays.crt"), CertFile: g.dir.Path("relay.crt"), KeyFile: g.dir.Path("relay.key")}
	if g.api != nil {
		c.Server.TLS = &config.ServerTLS{SPIFFE: &config.SPIFFE{Socket: g.api.Socket()}}
		c.Peers.TLS = config.PeersTLS{SPIFFE: &config.SPIFFE{Socket: g.asking.Socket()}}
	}
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

// listen reserves the addresses of n members, for clients.
func (g *peerGroup) listen(t *testing.T, n int) (all []net.Listener) {
	t.Helper()
	for range n {
		all, g.asked = append(all, ports.Listen(t)), append(g.asked, fmt.Sprint("127.0.0.1:", ports.Free(t)))
	}
	return all
}

// start starts the member n; change may be nil.
func (g *peerGroup) start(t *testing.T, lis net.Listener, n int, change func(*config.Config)) *testRelay {
	t.Helper()
	return startRelayAt(t, lis, ports.Listen(t), func(c *config.Config) {
		g.configure(c, g.asked[n])
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
	relay, peer := g.start(t, lis[0], 0, change), g.start(t, lis[1], 1, change)
	for _, r := range []*testRelay{relay, peer} {
		c := g.client(t, v, r, "client")
		asksForAll(c)
		awaitRestored(t, c.common())
		c.common().awaitHolding(t, secretType, "hush-hush")
	}
	relay.stop()
	p.stop()

	relay = g.start(t, ports.Again(t, relay.addr), 0, change)
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
	if n := metricOf(t, relay, `xdsrelay_peer_asked_total{result="refused"}`); n != "0" {
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
	for n, lis := range g.listen(t, 3) {
		relays = append(relays, g.start(t, lis, n, nil))
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

// A relay whose identity its peers do not know gets nothing from them, and they say who it is.
func TestPeersMustBeKnown_SUR1(t *testing.T) {
	t.Parallel()
	p := restoredPlane(t)
	g := newPeerGroup(t, p.addr)
	lis := g.listen(t, 2)
	strict := g.start(t, lis[1], 1, func(c *config.Config) { c.Peers.Identities = []string{"spiffe://relays.example/another"} })
	c := g.client(t, deltaADS, strict, "client")
	asksForAll(c)
	awaitRestored(t, c.common())
	p.stop()
	relay := g.start(t, lis[0], 0, nil)
	c = g.client(t, deltaADS, relay, "client")
	asksForAll(c)
	if !c.common().happens(func() bool { return !c.connected() }) {
		t.Fatal("the client waits for ever")
	}
	if n := metricOf(t, relay, "xdsrelay_peer_taken_resources_total"); n != "0" {
		t.Errorf("took %s resources from a peer that does not know the relay", n)
	}
	waitFor(t, "the logs to say so", func() bool {
		return strings.Contains(relay.log.String(), "a peer gives nothing") && strings.Contains(strict.log.String(), "a relay may not ask") && strings.Contains(strict.log.String(), peerID)
	})
	health := healthOf(t, relay.addr, g.creds())
	waitFor(t, "gRPC's health service to say so", func() bool { return health() == healthpb.HealthCheckResponse_NOT_SERVING })
}

// Without peers.secrets on both sides a relay has no secrets from its peer. With it, none of them reaches cache.dir.
func TestSecretsOfPeers_OPS6(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ gives, takes bool }{
		"neither":     {},
		"not given":   {takes: true},
		"not taken":   {gives: true},
		"by its word": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := restoredPlane(t)
			g := newPeerGroup(t, p.addr)
			lis, dir := g.listen(t, 2), t.TempDir()
			peer := g.start(t, lis[1], 1, func(c *config.Config) { c.Peers.Secrets = tt.gives })
			c := g.client(t, deltaADS, peer, "client")
			asksForAll(c)
			awaitRestored(t, c.common())
			c.common().awaitHolding(t, secretType, "hush-hush")
			p.stop()
			relay := g.start(t, lis[0], 0, func(c *config.Config) {
				c.Peers.Secrets = tt.takes
				c.Cache.Dir, c.Cache.SnapshotEvery = dir, config.Duration(time.Second)
			})
			c = g.client(t, deltaADS, relay, "client")
			asksForAll(c)
			waitFor(t, "the client to be served", func() bool {
				if !c.connected() {
					if err := c.connect(true); err != nil {
						t.Fatal(err)
					}
				}
				return len(c.common().all(clusterType)) == len(restored[clusterType])
			})
			if tt.gives && tt.takes {
				c.common().awaitHolding(t, secretType, "hush-hush")
			} else if n := len(c.common().all(secretType)); n > 0 {
				t.Errorf("OPS-6: the client was given %d secrets of the peer", n)
			}
			relay.stop() // which writes a snapshot
			files := 0
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				data, err := os.ReadFile(path)
				if bytes.Contains(data, []byte("hush-hush")) {
					t.Errorf("OPS-6: %s has the secret", d.Name())
				}
				if bytes.Contains(data, []byte("c1")) {
					files++
				}
				return err
			})
			if err != nil || files == 0 {
				t.Errorf("%d files have what the peer gave: %v", files, err)
			}
		})
	}
}

// A peer that is mute, one that sends without end and one that sends garbage keep nobody from the next one.
func TestPeersOfNoUse_SUR1(t *testing.T) {
	t.Parallel()
	p := restoredPlane(t)
	g := newPeerGroup(t, p.addr)
	lis := g.listen(t, 2)
	shown, bad := g.relays.SVID(peerID), []string(nil)
	for _, answer := range []http.HandlerFunc{
		func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		func(w http.ResponseWriter, _ *http.Request) {
			for b, err := append([]byte("XDSRELAY\x02\x00\x00\x00"), make([]byte, 1<<16)...), error(nil); err == nil; {
				b[12], b[13], b[14], b[15] = 255, 255, 255, 63 // a record of 1 GiB
				_, err = w.Write(b)
			}
		},
		func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "garbage") },
	} {
		web := httptest.NewUnstartedServer(answer)
		web.TLS = &tls.Config{Certificates: []tls.Certificate{shown}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: g.relays.Pool(), MinVersion: tls.VersionTLS13}
		web.EnableHTTP2 = true
		web.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
		web.StartTLS()
		t.Cleanup(func() {
			web.CloseClientConnections()
			web.Close()
		})
		bad = append(bad, web.Listener.Addr().String())
	}
	peer := g.start(t, lis[1], 1, nil)
	c := g.client(t, deltaADS, peer, "client")
	asksForAll(c)
	awaitRestored(t, c.common())
	p.stop()
	relay := g.start(t, lis[0], 0, func(c *config.Config) {
		c.Peers.MaxBytes, c.Peers.Addresses = config.MiB, append(bad, g.asked[1])
		c.Server.UnreachableAfter = config.Duration(time.Minute)
	})
	fresh := g.client(t, deltaADS, relay, "client")
	asksForAll(fresh)
	awaitRestored(t, fresh.common())
	waitFor(t, "the log to name the others", func() bool {
		log := relay.log.String()
		return !slices.ContainsFunc(bad, func(address string) bool { return !strings.Contains(log, "peer="+address) })
	})
	relay.consistent(t)
}
