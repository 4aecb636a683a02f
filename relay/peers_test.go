package relay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"github.com/xdsrelay/xdsrelay/relay/peers"
)

const (
	peerID   = "spiffe://td/peer"
	peerName = "peer.td"
)

// withDNS is an option of a certificate, with a DNS name of a relay.
func withDNS(_ pki.TB, c *x509.Certificate) { c.DNSNames = []string{peerName} }

// steals asks a relay as its peers do, for the clusters of each of its scopes, and gives how many it was given.
func (r *running) steals(address string, with *tls.Config) (resources int, err error) {
	r.Helper()
	c := peers.NewClient(peers.ClientConfig{
		ID: "thief", Addresses: []string{address}, Credentials: credentials.NewTLS(with), UserAgent: "test", Authority: relayHost, MaxBytes: 1 << 20,
	})
	defer c.Close()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	for _, s := range r.relay.hub.list() {
		if s.helped.id == "" {
			continue
		}
		all := c.Peers(ctx)
		if len(all) != 1 {
			r.Fatalf("%d peers after %v", len(all), err)
		}
		answer, err := all[0].Ask(ctx, s.helped.id, []cache.PeerWants{{TypeURL: clusterType, Kind: cache.WholeType, Names: []string{"*"}}})
		if err != nil {
			return resources, err
		}
		for _, part := range answer.Parts {
			resources += len(part.Resources)
		}
	}
	return resources, nil
}

// Relays ask only at the listener that is for them. A client of any other one whose certificate has a relay's names gets
// nothing, and no client is served there.
func TestPeersHaveAListenerOfTheirOwn_ACC1_SUR1(t *testing.T) {
	relays, others := pki.NewAuthority(t, "relays"), pki.NewAuthority(t, "others")
	m := newMany(t, func(c *config.Config, tr *trust) {
		c.Server.TLSRefresh = config.Duration(10 * time.Millisecond)
		by := func(name string, ca *pki.Authority) func(*config.Listener) {
			return func(l *config.Listener) {
				own := *c.Server.TLS
				own.ClientCAFile = tr.dir.PutCA(name, ca)
				l.TLS = &own
			}
		}
		c.Server.Listeners = []config.Listener{
			listenerAt("relays", "127.0.0.1:0", by("relays", relays)), listenerAt("others", "127.0.0.1:0", by("others", others)),
		}
		c.Peers = config.Peers{Listener: "relays", Identities: []string{peerID, "urn:" + peerName}, MaxBytes: config.GiB}
	})
	with := func(shown tls.Certificate) *tls.Config {
		c := m.tls("spiffe://td/a")
		c.Certificates = []tls.Certificate{shown}
		return c
	}
	m.joinWith(credentials.NewTLS(m.tls("spiffe://td/a")), "a").holds(contents{"a": "1"})
	own, other, client := m.at["relays"].Addr().String(), m.at["others"].Addr().String(), m.xds
	for name, tt := range map[string]struct {
		at    string
		shown tls.Certificate
		want  error // nil: it is a relay
	}{
		"a relay":                                   {own, relays.Client("relay", pki.URI(peerID), withDNS), nil},
		"a relay that is none of identities":        {own, relays.Client("relay", pki.URI("spiffe://td/other")), peers.ErrRefused},
		"a relay with two URIs":                     {own, relays.Client("relay", pki.URI(peerID), pki.URI("spiffe://td/a")), peers.ErrRefused},
		"a relay without URI":                       {own, relays.Client("relay", withDNS), peers.ErrRefused},
		"a client with a relay's URI":               {client, m.ca.Client("a", pki.URI(peerID)), peers.ErrRefused},
		"another listener's client with its URI":    {other, others.Client("a", pki.URI(peerID)), peers.ErrRefused},
		"another listener's client with a DNS name": {other, others.Client("a", withDNS), peers.ErrRefused},
	} {
		got, err := m.steals(tt.at, with(tt.shown))
		if !errors.Is(err, tt.want) || (got > 0) != (tt.want == nil) {
			t.Errorf("ACC-1: %s: %d resources, %v; want %v", name, got, err, tt.want)
		}
	}

	conn := m.dialAt(own, credentials.NewTLS(with(relays.Client("relay", pki.URI(peerID)))))
	for _, form := range openForms {
		if got, text := code(m.begin(conn, form.method, form.first(&corev3.Node{Id: "a"}))); got != codes.PermissionDenied || !strings.Contains(text, "serves no clients") {
			t.Errorf("ACC-1: %s at the listener of relays: %v: %s", form.method, got, text)
		}
	}
	if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), new(healthpb.HealthCheckRequest)); err != nil {
		t.Errorf("ACC-1: a health check at the listener of relays: %v", err)
	}
	if log := m.log.String(); !strings.Contains(log, "a client came by the listener of peers.listener") {
		t.Errorf("the log has\n%s", log)
	}

	// An operator adds the relays' CA to that of clients: from then on clients could pass for relays.
	relay := with(relays.Client("relay", pki.URI(peerID)))
	m.dir.Put("clients.crt", append(inPEM(t, m.ca), inPEM(t, relays)...))
	if _, ok := wait.Until(patience, func() bool {
		_, err := m.steals(own, relay)
		return errors.Is(err, peers.ErrRefused)
	}); !ok || !strings.Contains(m.log.String(), "a client could pass for it") {
		t.Errorf("ACC-1: a relay may ask though clients have its CA too (%t), or the log does not say so:\n%s", !ok, m.log.String())
	}
	m.check()
}

// A trust domain that is federated with the relay's gives its workloads what names it likes.
func TestFederatedClientIsNoPeer_ACC1_SUR1(t *testing.T) {
	m := newMesh(t, func(c *config.Config) {
		c.Server.TLS.SPIFFE.TrustDomains = []string{"td", "partner"}
		c.Peers.Identities = []string{peerID, peerName}
	}, nil)
	m.joinWith(credentials.NewTLS(m.with(m.ca.SVID("spiffe://td/a"))), "a").holds(contents{"a": "1", "b": "1"})
	for name, svid := range map[string]tls.Certificate{
		"a federated workload with a relay's DNS name": m.partner.SVID("spiffe://partner/a", withDNS),
		"a workload with a relay's SPIFFE ID":          m.ca.SVID(peerID),
	} {
		if got, err := m.steals(m.xds, m.with(svid)); got != 0 || !errors.Is(err, peers.ErrRefused) {
			t.Errorf("ACC-1: %s: %d resources, %v", name, got, err)
		}
	}
	m.check()
}
