package relay

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"github.com/xdsrelay/xdsrelay/internal/testkit/workloads"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// mesh is a relay whose certificates are those of a Workload API on both sides. Its trust domain is
// td, which is federated with partner.
type mesh struct {
	*trust

	api     *workloads.API
	partner *pki.Authority
	plane   *planeServer

	mu    sync.Mutex
	shown []string // SPIFFE IDs and serial numbers that the control plane was shown
}

// newMesh starts it. prepare is called before the relay begins: without it the Workload API answers.
func newMesh(t *testing.T, change func(*config.Config), prepare func(*mesh)) *mesh {
	t.Helper()
	m := &mesh{
		trust: &trust{dir: pki.NewFolder(t), ca: pki.NewAuthority(t, "td")},
		api:   workloads.New(t), partner: pki.NewAuthority(t, "partner"),
	}
	m.plane = newPlaneServerWith(t, anyPort, contents{"a": "1", "b": "1"}, credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{m.ca.SVID("spiffe://td/plane")}, MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: m.ca.Pool(),
		VerifyConnection: func(s tls.ConnectionState) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.shown = append(m.shown, s.PeerCertificates[0].URIs[0].String(), s.PeerCertificates[0].SerialNumber.String())
			return nil
		},
	}))
	cfg := configOf(upstreamAt("plane", m.plane.address))
	cfg.Upstreams[0].Settle = config.Duration(100 * time.Millisecond)
	cfg.Server.RESTWait = config.Duration(time.Minute)
	cfg.Upstreams[0].TLS = &config.UpstreamTLS{SPIFFE: &config.ClientSPIFFE{Socket: m.api.Socket(), ServerIDs: []string{"spiffe://td/plane"}}}
	cfg.Server.TLS = &config.ServerTLS{SPIFFE: &config.SPIFFE{Socket: m.api.Socket()}}
	if change != nil {
		change(cfg)
	}
	if prepare == nil {
		prepare = (*mesh).answers
	}
	prepare(m)
	rest, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.rest = rest.Addr().String()
	m.running = runWith(t, cfg, func(r *Relay) { r.ServeREST(rest) })
	return m
}

// answers has the Workload API give the relay an SVID and both bundles.
func (m *mesh) answers() {
	m.give()
	m.api.Start()
}

// give has the Workload API say a new SVID, and both bundles.
func (m *mesh) give(options ...pki.Option) tls.Certificate {
	svid := m.ca.SVID("spiffe://td/relay", options...)
	m.api.Give(svid, m.ca, workloads.Bundles{"partner": m.partner})
	return svid
}

// with gives what go-spiffe's clients dial the relay with.
func (m *mesh) with(svid tls.Certificate) *tls.Config {
	m.Helper()
	own := &x509svid.SVID{
		ID: spiffeid.RequireFromURI(svid.Leaf.URIs[0]), Certificates: []*x509.Certificate{svid.Leaf}, PrivateKey: svid.PrivateKey.(crypto.Signer),
	}
	bundle := x509bundle.FromX509Authorities(spiffeid.RequireTrustDomainFromString("td"), []*x509.Certificate{m.ca.Root()})
	return tlsconfig.MTLSClientConfig(own, bundle, tlsconfig.AuthorizeID(spiffeid.RequireFromString("spiffe://td/relay")))
}

// come opens a stream with an SVID, and says how that ends; OK if it gets a response.
func (m *mesh) come(svid tls.Certificate) (codes.Code, string) {
	m.Helper()
	return m.comeWith(m.with(svid))
}

func (m *mesh) comeWith(with *tls.Config) (codes.Code, string) {
	m.Helper()
	conn, err := grpc.NewClient(m.xds, grpc.WithTransportCredentials(credentials.NewTLS(with)))
	if err != nil {
		m.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(m.Context(), patience)
	defer cancel()
	c := xdsclient.New(xdsclient.Options{
		Conn: conn, Node: &corev3.Node{Id: "a"}, OnResponse: func(*xdsclient.Response) error { cancel(); return nil },
	})
	c.Subscribe(clusterType)
	if err = c.Run(ctx); errors.Is(err, context.Canceled) {
		return codes.OK, ""
	}
	return status.Code(err), err.Error()
}

// presents gives the certificate that the relay shows; nil: a handshake fails.
func (m *mesh) presents() *x509.Certificate {
	m.Helper()
	conn, err := tls.Dial("tcp", m.xds, m.with(m.ca.SVID("spiffe://td/visitor")))
	if err != nil {
		return nil
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

// sees waits until the control plane was shown something.
func (m *mesh) sees(what string) {
	m.Helper()
	if _, ok := wait.Until(patience, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return slices.Contains(m.shown, what)
	}); !ok {
		m.Errorf("the control plane was not shown %s", what)
	}
}

// until waits until pages of the admin port have some text.
func (m *mesh) until(path, text string) {
	m.Helper()
	if _, ok := wait.Until(patience, func() bool { return strings.Contains(m.page(path), text) }); !ok {
		m.Errorf("%s has no %q:\n%s", path, text, m.page(path))
	}
}

// logs waits for a line of the log.
func (m *mesh) logs(text string) {
	m.Helper()
	if _, ok := wait.Until(patience, func() bool { return strings.Contains(m.log.String(), text) }); !ok {
		m.Errorf("the log has no %q:\n%s", text, m.log.String())
	}
}

// eachSecond has certificates judged as often as an operator may have it.
func eachSecond(c *config.Config) { c.Server.Identity.Recheck = config.Duration(time.Second) }

// SPIFFE on both sides: who clients are comes from their SVIDs, and each counts only by the bundle of
// its own trust domain.
func TestSPIFFE_ACC1(t *testing.T) {
	domains := func(names ...string) func(*config.Config) {
		return func(c *config.Config) { c.Server.TLS.SPIFFE.TrustDomains = names }
	}
	for _, tt := range []struct {
		name                           string
		domains                        []string
		own, federated                 codes.Code
		ownInPartner, partnerInOwnName codes.Code
	}{
		{"the relay's own trust domain", nil, codes.OK, codes.Unavailable, codes.Unavailable, codes.Unavailable},
		{"a federated trust domain beside it", []string{"td", "partner"}, codes.OK, codes.OK, codes.Unavailable, codes.Unavailable},
		{"a federated trust domain alone", []string{"partner"}, codes.Unavailable, codes.OK, codes.Unavailable, codes.Unavailable},
		{"a trust domain without a bundle", []string{"td", "unknown"}, codes.OK, codes.Unavailable, codes.Unavailable, codes.Unavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMesh(t, domains(tt.domains...), nil)
			for _, client := range []struct {
				name string
				svid tls.Certificate
				want codes.Code
			}{
				{"of the relay's trust domain", m.ca.SVID("spiffe://td/a"), tt.own},
				{"of the federated one", m.partner.SVID("spiffe://partner/a"), tt.federated},
				{"signed by the relay's trust domain for the other one", m.ca.SVID("spiffe://partner/a"), tt.ownInPartner},
				{"signed by the other one for the relay's trust domain", m.partner.SVID("spiffe://td/a"), tt.partnerInOwnName},
				{"signed by a stranger", pki.NewAuthority(t, "stranger").SVID("spiffe://td/a"), codes.Unavailable},
				{"of a trust domain without a bundle", m.ca.SVID("spiffe://unknown/a"), codes.Unavailable},
			} {
				if got, text := m.come(client.svid); got != client.want {
					t.Errorf("ACC-1: a client %s: %v: %s, want %v", client.name, got, text, client.want)
				}
			}
			bare := m.with(m.ca.SVID("spiffe://td/a"))
			bare.GetClientCertificate = nil
			if got, _ := m.comeWith(bare); got != codes.Unavailable {
				t.Errorf("ACC-1: a client without a certificate: %v", got)
			}
			m.sees("spiffe://td/relay")
			m.shows("/metrics", "xdsrelay_spiffe_away 0\n", "xdsrelay_spiffe_updates_total 1\n")
			if tt.name == "a trust domain without a bundle" {
				m.logs("has no bundle for a trust domain")
			}
			m.check()
		})
	}
}

// Rules see SPIFFE IDs of streams and polls, of whatever trust domain.
func TestSPIFFEIdentity_ACC1_ACC5(t *testing.T) {
	m := newMesh(t, func(c *config.Config) {
		c.Server.TLS.SPIFFE.TrustDomains = []string{"td", "partner"}
		c.Access.Verify = []config.VerifyRule{{Name: "own", Require: `peer.spiffe == node.id`}}
	}, nil)
	for _, svid := range []tls.Certificate{m.ca.SVID("spiffe://td/x"), m.partner.SVID("spiffe://partner/x")} {
		id := svid.Leaf.URIs[0].String()
		m.joinWith(credentials.NewTLS(m.with(svid)), id).holds(contents{"a": "1", "b": "1"})
		transport := &http.Transport{TLSClientConfig: m.with(svid)}
		t.Cleanup(transport.CloseIdleConnections)
		if got, body := m.post(&http.Client{Transport: transport}, id, ""); got != http.StatusOK {
			t.Errorf("ACC-1: a poll of %s: %d: %s", id, got, body)
		}
		m.shows("/clients", `"spiffe_id": "`+id+`"`)
	}
	m.check()
}

// A control plane counts by its SPIFFE ID.
func TestSPIFFEServer_ACC1(t *testing.T) {
	for _, tt := range []struct {
		name   string
		spiffe config.ClientSPIFFE
		why    string
	}{
		{"any of the trust domain", config.ClientSPIFFE{}, ""},
		{"its ID", config.ClientSPIFFE{ServerIDs: []string{"spiffe://td/other", "spiffe://td/plane"}}, ""},
		{"another ID", config.ClientSPIFFE{ServerIDs: []string{"spiffe://td/other"}}, "none of the SPIFFE IDs that are expected"},
		{"another trust domain", config.ClientSPIFFE{TrustDomains: []string{"partner"}}, "the trust domain"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMesh(t, func(c *config.Config) {
				tt.spiffe.Socket = c.Server.TLS.SPIFFE.Socket
				c.Upstreams[0].TLS.SPIFFE = &tt.spiffe
			}, nil)
			if tt.why == "" {
				m.until("/readyz", "ready\n")
				return
			}
			m.until("/readyz", tt.why)
			if v, code := m.readiness(); v.Ready || code != http.StatusServiceUnavailable {
				t.Errorf("ACC-1: the relay is ready with another server: %+v", v)
			}
		})
	}
}

// A new SVID, and a new CA, take effect for new connections on both sides, and open streams go on.
func TestSPIFFERotation_ACC1(t *testing.T) {
	m := newMesh(t, eachSecond, nil)
	stays := m.joinWith(credentials.NewTLS(m.with(m.ca.SVID("spiffe://td/a"))), "a", "a")
	stays.holds(contents{"a": "1"})
	before := m.presents()
	for range 3 {
		next := m.give()
		if _, ok := wait.Until(patience, func() bool {
			shown := m.presents()
			if shown == nil {
				t.Error("ACC-1: a handshake fails while the SVID rotates")
			}
			return shown != nil && shown.Equal(next.Leaf)
		}); !ok {
			t.Fatal("ACC-1: the relay does not show its new SVID")
		}
		if next.Leaf.Equal(before) {
			t.Fatal("the SVID did not change")
		}
		// An upstream of which a key changed has new connections.
		m.reload(func(c *config.Config) {
			u := *c.Upstreams[0].TLS
			c.Upstreams[0].TLS, c.Upstreams[0].ConnectTimeout = &u, c.Upstreams[0].ConnectTimeout+1
		})
		m.sees(next.Leaf.SerialNumber.String())
	}
	stays.Subscribe(clusterType, "b")
	stays.holds(contents{"a": "1", "b": "1"})
	if lost := stays.lost(); lost != "" || stays.away > 0 {
		t.Errorf("ACC-1: the client lost %s, and was sent away %d times", lost, stays.away)
	}
	m.check()
}

// A bundle that is withdrawn ends the streams of its trust domain within identity.recheck, and nobody
// else's.
func TestSPIFFEBundleWithdrawn_ACC1(t *testing.T) {
	m := newMesh(t, func(c *config.Config) {
		soon(c)
		c.Server.TLS.SPIFFE.TrustDomains = []string{"td", "partner"}
	}, nil)
	stays := m.joinWith(credentials.NewTLS(m.with(m.ca.SVID("spiffe://td/a"))), "a")
	stays.holds(contents{"a": "1", "b": "1"})
	svid := m.partner.SVID("spiffe://partner/a")
	conn, err := grpc.NewClient(m.xds, grpc.WithTransportCredentials(credentials.NewTLS(m.with(svid))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	stream := m.begin(conn, openForms[0].method, firstDelta(&corev3.Node{Id: "b"}))
	if got, text := code(stream); got != codes.OK {
		t.Fatalf("%v: %s", got, text)
	}
	held := m.holdPoll(m.with(svid), "b")

	m.api.Give(m.ca.SVID("spiffe://td/relay"), m.ca, nil)
	if got, text := code(stream); got != codes.Unauthenticated || !strings.Contains(text, "does not trust the client's certificate any more") {
		t.Errorf("ACC-1: the stream ended with %v: %s", got, text)
	}
	if got := <-held; got != http.StatusUnauthorized {
		t.Errorf("ACC-1: the held poll was answered with %d", got)
	}
	if got, _ := m.come(svid); got != codes.Unavailable {
		t.Errorf("ACC-1: a new connection: %v", got)
	}
	if lost := stays.lost(); lost != "" {
		t.Errorf("ACC-1: a client of another trust domain lost %s", lost)
	}
	m.shows("/metrics", `xdsrelay_downstream_identities_ended_total{reason="untrusted"} 2`)
	m.check()
}

// Without a Workload API the relay starts, says what it lacks, and serves as soon as it has it. The
// socket is that of the environment.
func TestSPIFFELater_ACC1(t *testing.T) {
	m := newMesh(t, func(c *config.Config) {
		c.Server.TLS.SPIFFE.Socket, c.Upstreams[0].TLS.SPIFFE.Socket = "", ""
	}, func(m *mesh) { t.Setenv("SPIFFE_ENDPOINT_SOCKET", m.api.Socket()) })
	m.until("/readyz", "the SPIFFE Workload API at "+m.api.Socket()+" gives the relay no certificate: ")
	if v, code := m.readiness(); v.Ready || code != http.StatusServiceUnavailable {
		t.Errorf("ACC-1: the relay is ready: %+v", v)
	}
	if shown := m.presents(); shown != nil {
		t.Errorf("ACC-1: the relay shows %v", shown.URIs)
	}
	m.until("/metrics", `xdsrelay_downstream_failed_handshakes_total{reason="no_certificate"} 1`)
	m.logs("TLS handshakes fail until it gives a certificate")
	m.logs("gives the relay no certificate")
	m.shows("/metrics", "xdsrelay_spiffe_away 1\n", "xdsrelay_spiffe_certificate_expires_seconds 0\n")
	m.answers()
	m.until("/readyz", "ready\n")
	if got, text := m.come(m.ca.SVID("spiffe://td/a")); got != codes.OK {
		t.Errorf("ACC-1: %v: %s", got, text)
	}
	m.shows("/metrics", "xdsrelay_spiffe_away 0\n")
	m.check()
}

// A Workload API that goes away takes nothing away before the SVID expires. When it comes back, its
// SVID is in use at once.
func TestSPIFFEAway_ACC1(t *testing.T) {
	m := newMesh(t, nil, func(m *mesh) {
		m.give(pki.Lifetime(6 * time.Second))
		m.api.Start()
	})
	stays := m.joinWith(credentials.NewTLS(m.with(m.ca.SVID("spiffe://td/a"))), "a")
	stays.holds(contents{"a": "1", "b": "1"})
	m.api.Stop()
	m.until("/metrics", "xdsrelay_spiffe_away 1\n")
	if m.presents() == nil {
		t.Error("ACC-1: a handshake fails although the SVID has not expired")
	}
	m.logs("the relay keeps its certificate until it expires")
	m.until("/readyz", "expired at ")
	if m.presents() != nil {
		t.Error("ACC-1: the relay shows an SVID that has expired")
	}
	m.logs("the relay's certificate has expired")
	m.shows("/metrics", "xdsrelay_spiffe_certificate_expires_seconds -")
	if lost := stays.lost(); lost != "" {
		t.Errorf("ACC-1: an open stream lost %s", lost)
	}
	m.answers()
	m.until("/readyz", "ready\n")
	if m.presents() == nil {
		t.Error("ACC-1: a handshake fails")
	}
	m.check()
}

// A Workload API that takes the relay's identity away ends its use.
func TestSPIFFEDenied_ACC1(t *testing.T) {
	m := newMesh(t, nil, nil)
	m.until("/readyz", "ready\n")
	m.api.Deny()
	m.until("/readyz", "no identity issued")
	if m.presents() != nil {
		t.Error("ACC-1: the relay shows an SVID that was taken away")
	}
	m.logs("has no identity for the relay")
	m.give()
	m.until("/readyz", "ready\n")
	m.check()
}

// A reload goes from files to SPIFFE and back. Who is connected and does not count any more, ends.
func TestSPIFFEReload_ACC1_OPS6(t *testing.T) {
	m := newMesh(t, eachSecond, nil)
	m.until("/readyz", "ready\n")
	stays := m.joinWith(credentials.NewTLS(m.with(m.ca.SVID("spiffe://td/a"))), "a")
	stays.holds(contents{"a": "1", "b": "1"})
	other := pki.NewAuthority(t, "other")
	files := &config.ServerTLS{ClientCAFile: m.dir.PutCA("other", other)}
	files.CertFile, files.KeyFile = m.dir.PutPair("relay", m.ca.SVID("spiffe://td/relay"))
	conn := m.joinWith(credentials.NewTLS(m.with(m.ca.SVID("spiffe://td/b"))), "b")
	conn.holds(contents{"a": "1", "b": "1"})
	spiffe := m.config.Server.TLS
	m.reload(func(c *config.Config) { c.Server.TLS = files })
	if _, is := wait.Until(patience, func() bool { return stays.lost() != "" && conn.lost() != "" }); !is {
		t.Error("ACC-1: clients are served whose certificates no CA of the files signed")
	}
	if got, text := m.come(other.SVID("spiffe://td/a")); got != codes.OK {
		t.Errorf("ACC-1: a client of the files: %v: %s", got, text)
	}
	m.reload(func(c *config.Config) { c.Server.TLS = spiffe })
	if got, text := m.come(m.ca.SVID("spiffe://td/a")); got != codes.OK {
		t.Errorf("ACC-1: %v: %s", got, text)
	}
	if got, _ := m.come(other.SVID("spiffe://td/a")); got != codes.Unavailable {
		t.Errorf("ACC-1: a client of the files before: %v", got)
	}
	if err := m.try(func(c *config.Config) {
		c.Server.TLS = &config.ServerTLS{SPIFFE: new(config.SPIFFE)}
	}); err == nil || !strings.Contains(err.Error(), "SPIFFE_ENDPOINT_SOCKET is not set") {
		t.Errorf("a reload without a socket: %v", err)
	}
	if got, text := m.come(m.ca.SVID("spiffe://td/a")); got != codes.OK {
		t.Errorf("after a reload that failed: %v: %s", got, text)
	}
	m.check()
}

// The admin port takes SPIFFE as listeners do, and knows the operator by the ID.
func TestSPIFFEAdmin_ACC7(t *testing.T) {
	m := &mesh{trust: &trust{ca: pki.NewAuthority(t, "td")}, api: workloads.New(t), partner: pki.NewAuthority(t, "partner")}
	m.answers()
	cfg := configOf(upstreamAt("plane", nowhere))
	cfg.Admin.TLS = &config.ServerTLS{SPIFFE: &config.SPIFFE{Socket: m.api.Socket()}}
	m.running = run(t, cfg)
	ask := func(svid tls.Certificate) (int, error) {
		transport := &http.Transport{TLSClientConfig: m.with(svid)}
		t.Cleanup(transport.CloseIdleConnections)
		answer, err := (&http.Client{Transport: transport}).Get("https://" + m.admin + "/clients")
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	if _, ok := wait.Until(patience, func() bool {
		got, err := ask(m.ca.SVID("spiffe://td/operator"))
		return err == nil && got == http.StatusOK
	}); !ok {
		t.Error("ACC-7: an operator with an SVID is not let in")
	}
	if got, err := ask(m.partner.SVID("spiffe://partner/operator")); err == nil {
		t.Errorf("ACC-7: an operator of another trust domain is answered with %d", got)
	}
}
