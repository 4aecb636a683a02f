package relay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/xdsrelay/xdsrelay/cache/snapshot"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
)

const (
	peerID   = "spiffe://td/peer"
	peerName = "peer.td"
)

// withDNS is an option of a certificate, with a DNS name of a relay.
func withDNS(_ pki.TB, c *x509.Certificate) { c.DNSNames = []string{peerName} }

// steals asks a relay as its peers do for each of its scopes, showing a certificate, and gives how many resources it was
// given. The code is 0 if there is no connection.
func (r *running) steals(shown tls.Certificate) (resources, code int) {
	r.Helper()
	web := &http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, // the thief asks nobody
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shown, nil },
		},
	}}
	for _, s := range r.relay.hub.list() {
		if s.helped.id == "" {
			continue
		}
		response, err := web.Get("https://" + r.peers + "/image?scope=" + s.helped.id)
		if err != nil {
			return resources, 0
		}
		if code = response.StatusCode; code == http.StatusOK {
			_, image, err := snapshot.Read(response.Body)
			if err != nil {
				r.Fatal(err)
			}
			for _, t := range image.Tables {
				resources += len(t.Resources)
			}
		}
		_ = response.Body.Close()
	}
	return resources, code
}

// Relays ask only at the port that is for them. A client whose certificate has a relay's names gets nothing there.
func TestPeersHaveADoorOfTheirOwn_ACC1_SUR1(t *testing.T) {
	relays := pki.NewAuthority(t, "relays")
	m := newMany(t, func(c *config.Config, tr *trust) {
		c.Server.TLSRefresh = config.Duration(10 * time.Millisecond)
		certFile, keyFile := tr.dir.PutPair("peer", relays.SVID(peerID))
		c.Peers = config.Peers{
			Listen: "127.0.0.1:0", Identities: []string{peerID, peerName}, MaxBytes: config.GiB, Secrets: true, // payloads that cannot be read count as secrets
			TLS: config.PeersTLS{CertFile: certFile, KeyFile: keyFile, CAFile: tr.dir.PutCA("relays", relays)},
		}
	})
	m.joinWith(credentials.NewTLS(m.tls("spiffe://td/a")), "a").holds(contents{"a": "1"})
	for name, tt := range map[string]struct {
		shown tls.Certificate
		code  int // 0: it does not come in
	}{
		"a relay":                            {relays.Client("relay", pki.URI(peerID)), http.StatusOK},
		"a relay with a DNS name":            {relays.Client("relay", withDNS), http.StatusOK},
		"a relay that is none of identities": {relays.Client("relay", pki.URI("spiffe://td/other")), http.StatusForbidden},
		"a relay with two URIs":              {relays.Client("relay", pki.URI(peerID), pki.URI("spiffe://td/a")), http.StatusForbidden},
		"a relay with another URI":           {relays.Client("relay", pki.URI("spiffe://td/a"), withDNS), http.StatusForbidden},
		"a client with a relay's URI":        {m.ca.Client("a", pki.URI(peerID)), 0},
		"a client with a relay's DNS name":   {m.ca.Client("a", withDNS), 0},
		"nobody":                             {tls.Certificate{}, 0},
	} {
		if got, code := m.steals(tt.shown); code != tt.code || (got > 0) != (code == http.StatusOK) {
			t.Errorf("ACC-1: %s: %d resources, status %d, want %d", name, got, code, tt.code)
		}
	}
	log := m.log.String()
	for _, want := range []string{"a relay may not ask", "spiffe://td/other", "a client's TLS handshake failed", "gave a peer what it asked for", "identity=" + peerID, "identity=" + peerName} {
		if !strings.Contains(log, want) {
			t.Errorf("ACC-1: the log lacks %q:\n%s", want, log)
		}
	}
	page := m.page("/metrics")
	for _, want := range []string{
		fmt.Sprintf(`xdsrelay_peer_answers_total{identity=%q,result="content"} 1`, peerID), fmt.Sprintf(`xdsrelay_peer_answers_total{identity=%q,result="content"} 1`, peerName),
		`xdsrelay_peer_answers_total{identity="",result="refused"} 3`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("SUR-1: the metrics lack %s", want)
		}
	}

	// An operator adds the relays' CA to that of clients: from then on clients could pass for relays.
	m.dir.Put("clients.crt", append(inPEM(t, m.ca), inPEM(t, relays)...))
	if _, ok := wait.Until(patience, func() bool {
		_, code := m.steals(relays.Client("relay", pki.URI(peerID)))
		return code == http.StatusForbidden
	}); !ok || !strings.Contains(m.log.String(), "a client could pass for it") {
		t.Errorf("ACC-1: a relay may ask though clients have its CA too (%t), or the log does not say so:\n%s", !ok, m.log.String())
	}
	m.check()
}

// A relay whose certificate does not count any more is refused on a connection that it has, too.
func TestPeerWithoutTrustOnAnOpenConnection_ACC1(t *testing.T) {
	relays, next := pki.NewAuthority(t, "relays"), pki.NewAuthority(t, "next")
	shown := relays.SVID(peerID)
	m := newMany(t, func(c *config.Config, tr *trust) {
		c.Server.TLSRefresh = config.Duration(10 * time.Millisecond)
		certFile, keyFile := tr.dir.PutPair("peer", shown)
		c.Peers = config.Peers{
			Listen: "127.0.0.1:0", Identities: []string{peerID}, MaxBytes: config.GiB,
			TLS: config.PeersTLS{CertFile: certFile, KeyFile: keyFile, CAFile: tr.dir.PutCA("relays", relays)},
		}
	})
	dials := 0
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{shown}, MinVersion: tls.VersionTLS12}, // the thief asks nobody
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials++
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}
	defer transport.CloseIdleConnections()
	ask := func() int {
		response, err := (&http.Client{Timeout: patience, Transport: transport}).Get("https://" + m.peers + "/image")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body) // or the connection is not used again
		_ = response.Body.Close()
		return response.StatusCode
	}
	if code := ask(); code != http.StatusOK {
		t.Fatalf("a relay is answered %d", code)
	}
	m.dir.PutCA("relays", next)
	if _, ok := wait.Until(5*time.Second, func() bool { return ask() == http.StatusForbidden }); !ok {
		t.Error("ACC-1: a relay of a CA that was taken away may ask on its old connection")
	}
	if dials != 1 {
		t.Errorf("%d connections", dials)
	}
}

// The port for peers has the bounds of the admin port: an address has few connections, and the oldest go.
func TestConnectionsOfPeersAreBounded_LIM1(t *testing.T) {
	relays := pki.NewAuthority(t, "relays")
	shown := relays.SVID(peerID)
	m := newMany(t, func(c *config.Config, tr *trust) {
		certFile, keyFile := tr.dir.PutPair("peer", shown)
		c.Peers = config.Peers{
			Listen: "127.0.0.1:0", Identities: []string{peerID}, MaxBytes: config.GiB,
			TLS: config.PeersTLS{CertFile: certFile, KeyFile: keyFile, CAFile: tr.dir.PutCA("relays", relays)},
		}
	})
	var first net.Conn
	for range adminOfAddress + 1 {
		conn, err := tls.Dial("tcp", m.peers, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{shown}, MinVersion: tls.VersionTLS13})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if first == nil {
			first = conn
		}
	}
	_ = first.SetReadDeadline(time.Now().Add(patience))
	if _, err := first.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("LIM-1: the first connection of many is there: %v", err)
	}
}

// Of a SPIFFE Workload API the SPIFFE ID says who is a relay, though clients are of the same trust domain. A trust domain
// that is federated with the relay's gives its workloads what names it likes.
func TestPeersOfSPIFFE_ACC1_SUR1(t *testing.T) {
	m := newMesh(t, func(c *config.Config) {
		c.Server.TLS.SPIFFE.TrustDomains = []string{"td", "partner"}
		c.Peers = config.Peers{
			Listen: "127.0.0.1:0", Identities: []string{peerID}, MaxBytes: config.GiB, Secrets: true,
			TLS: config.PeersTLS{SPIFFE: &config.SPIFFE{Socket: c.Server.TLS.SPIFFE.Socket, TrustDomains: []string{"td", "partner"}}},
		}
	}, nil)
	m.joinWith(credentials.NewTLS(m.with(m.ca.SVID("spiffe://td/a"))), "a").holds(contents{"a": "1", "b": "1"})
	for name, tt := range map[string]struct {
		shown tls.Certificate
		code  int
	}{
		"a relay": {m.ca.SVID(peerID), http.StatusOK},
		"a federated workload with a relay's DNS name":  {m.partner.SVID("spiffe://partner/a", withDNS), http.StatusForbidden},
		"a federated workload with a relay's SPIFFE ID": {m.partner.SVID(peerID), 0},
		"another workload": {m.ca.SVID("spiffe://td/a"), http.StatusForbidden},
	} {
		if got, code := m.steals(tt.shown); code != tt.code || (got > 0) != (code == http.StatusOK) {
			t.Errorf("ACC-1: %s: %d resources, status %d, want %d", name, got, code, tt.code)
		}
	}
	m.check()
}
