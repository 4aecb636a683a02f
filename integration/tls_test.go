package integration

import (
	"context"
	"crypto/tls"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// The names in the certificates, and what the relay logs of files that it cannot
// use.
const (
	planeHost = "plane.test"
	relayHost = "relay.test"
	relayName = "the relay"
	unusable  = "the server's TLS files are not usable, the old ones stay in use"
)

// mutual is a relay with mutual TLS on both sides, each with an authority of its
// own, and isolated clients.
type mutual struct {
	dir     *pki.Folder
	fleet   *pki.Authority  // of the relay's server and its clients
	server  tls.Certificate // the relay's, in the files relay.crt and relay.key
	foreign *pki.Authority  // trusted by nobody
	plane   *testPlane
	shown   atomic.Pointer[string] // the common name that the control plane was shown last
	relay   *testRelay
}

// startMutual runs it. change adapts the TLS towards the control plane.
func startMutual(t *testing.T, change func(*mutual, *config.UpstreamTLS)) *mutual {
	t.Helper()
	m := &mutual{dir: pki.NewFolder(t), fleet: pki.NewAuthority(t, "fleet"), foreign: pki.NewAuthority(t, "foreign")}
	planes := pki.NewAuthority(t, "control planes")
	m.plane = newPlane(t, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{planes.Server(planeHost)},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    planes.Pool(),
		VerifyConnection: func(s tls.ConnectionState) error {
			m.shown.Store(&s.PeerCertificates[0].Subject.CommonName)
			return nil
		},
	})))
	m.plane.set(clusterType, "c1", true)

	up := config.UpstreamTLS{CAFile: m.dir.PutCA("planes", planes), ServerName: planeHost}
	up.CertFile, up.KeyFile = m.dir.PutPair("upstream", planes.Client(relayName))
	if change != nil {
		change(m, &up)
	}
	m.server = m.fleet.Server(relayHost)
	down := config.ServerTLS{ClientCAFile: m.dir.PutCA("fleet", m.fleet)}
	down.CertFile, down.KeyFile = m.dir.PutPair("relay", m.server)
	m.relay = startRelay(t, func(c *config.Config) {
		c.Aggregation.Otherwise = config.Isolate
		c.Upstreams[0].TLS, c.Server.TLS = &up, &down
	}, m.plane.addr)
	return m
}

// trusting is the configuration of a client that trusts the relay and shows
// certificates, or none.
func (m *mutual) trusting(shown ...tls.Certificate) *tls.Config {
	return &tls.Config{RootCAs: m.fleet.Pool(), ServerName: relayHost, NextProtos: []string{"h2"}, Certificates: shown}
}

// connect opens a connection and a stream on it, and subscribes to all clusters.
func (m *mutual) connect(t *testing.T, node string, shown tls.Certificate) *client {
	t.Helper()
	c := newClient(t, m.relay.addr, node, grpc.WithTransportCredentials(credentials.NewTLS(m.trusting(shown))))
	if err := c.connect(true); err != nil {
		t.Fatal(err)
	}
	c.subscribe(clusterType, []string{"*"}, nil)
	return c
}

// refusal is how a stream ends that a client opens with these credentials.
func (m *mutual) refusal(t *testing.T, creds credentials.TransportCredentials) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn := dial(t, m.relay.addr, grpc.WithTransportCredentials(creds))
	defer conn.Close()
	return xdsclient.New(xdsclient.Options{Conn: conn}).Run(ctx)
}

// presents reports whether the relay shows this certificate to a new connection.
func (m *mutual) presents(t *testing.T, want tls.Certificate) bool {
	t.Helper()
	conn, err := tls.Dial("tcp", m.relay.addr, m.trusting(m.fleet.Client("visitor")))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Equal(want.Leaf)
}

// TestMutualTLS: who the clients are comes from their certificates, who has none
// of the fleet's is not served, and certificates change under open streams.
func TestMutualTLS_AGG2_OPS6(t *testing.T) {
	m := startMutual(t, nil)

	t.Run("AGG-2 an identity is a scope", func(t *testing.T) {
		const id, otherID = "spiffe://example.org/proxy", "spiffe://example.org/other"
		first := m.fleet.Client("proxy", pki.URI(id))
		for _, shown := range []tls.Certificate{
			first, first,
			m.fleet.Client("proxy", pki.URI(id)), // renewed: another certificate of the same client
			m.fleet.Client("proxy", pki.URI(otherID)),
		} {
			m.connect(t, "node", shown).awaitHolding(t, clusterType, "c1")
		}
		if got := nodesOf(m.plane); !slices.Equal(got, []string{"node", "node"}) || m.plane.Opened() != 2 {
			t.Errorf("AGG-2: the control plane sees streams of %v and saw %d, want one for each of the two identities", got, m.plane.Opened())
		}
		if got := *m.shown.Load(); got != relayName {
			t.Errorf("the control plane was shown the certificate of %q, want that of %q", got, relayName)
		}
		var clients []struct {
			SPIFFE string `json:"spiffe_id"`
			Scope  string `json:"scope"`
		}
		decode(t, m.relay, "/clients", &clients)
		scopes, streams := make(map[string]string), make(map[string]int) // SPIFFE IDs and streams by scope
		for _, c := range clients {
			scopes[c.Scope] = c.SPIFFE
			streams[c.SPIFFE]++
		}
		if got := slices.Sorted(maps.Values(scopes)); !slices.Equal(got, []string{otherID, id}) || streams[id] != 3 || streams[otherID] != 1 {
			t.Errorf("AGG-2: the admin port shows %+v", clients)
		}
	})

	t.Run("AGG-2 who is nobody is not served", func(t *testing.T) {
		opened := m.plane.Opened()
		for name, creds := range map[string]credentials.TransportCredentials{
			"a client without a certificate":     credentials.NewTLS(m.trusting()),
			"a certificate of another authority": credentials.NewTLS(m.trusting(m.foreign.Client("proxy"))),
			"a certificate that is for servers":  credentials.NewTLS(m.trusting(m.fleet.Server("proxy"))),
			"plain text":                         insecure.NewCredentials(),
		} {
			if err := m.refusal(t, creds); status.Code(err) != codes.Unavailable {
				t.Errorf("%s: the stream ended with %v, want Unavailable", name, err)
			}
		}
		if now := m.plane.Opened(); now != opened {
			t.Errorf("%d streams more upstream", now-opened)
		}
	})

	t.Run("OPS-6 files replaced under open streams", func(t *testing.T) {
		proxy := m.fleet.Client("proxy")
		open := m.connect(t, "early", proxy)
		open.awaitHolding(t, clusterType, "c1")
		held := []string{"c1"}
		serves := func(name string) {
			t.Helper()
			held = append(held, name)
			m.plane.set(clusterType, name, true)
			open.awaitHolding(t, clusterType, held...) // on the stream of before: this client opens no second one
			m.connect(t, "late", proxy).awaitHolding(t, clusterType, held...)
		}
		if !m.presents(t, m.server) {
			t.Fatal("the relay does not present the certificate of its file")
		}

		next := m.fleet.Server(relayHost)
		m.dir.PutPair("relay", next)
		waitFor(t, "the new certificate", func() bool { return m.presents(t, next) })
		serves("c2")

		// The pair above may have been met half replaced, and that logged.
		logged := strings.Count(m.relay.log.String(), unusable)
		secret := keyText(t, m.dir.PutKey("relay", m.fleet.Server(relayHost)))
		waitFor(t, "the log of a key that does not fit", func() bool {
			return strings.Count(m.relay.log.String(), unusable) > logged
		})
		if !m.presents(t, next) {
			t.Error("a key that does not fit took the last good certificate away")
		}
		serves("c3")
		var shown strings.Builder
		shown.WriteString(m.relay.log.String())
		for _, path := range []string{"/config", "/clients", "/upstreams", "/metrics"} {
			_, body := m.relay.get(t, path)
			shown.WriteString(body)
		}
		for _, line := range secret {
			if strings.Contains(shown.String(), line) {
				t.Errorf("OPS-6: the log or the admin port gives the key away:\n%s", shown.String())
			}
		}

		last := m.fleet.Server(relayHost)
		m.dir.PutPair("relay", last)
		waitFor(t, "the certificate after the mistake", func() bool { return m.presents(t, last) })
		serves("c4")
	})
	m.relay.consistent(t)
}

// keyText gives the lines of a PEM file without its first and last.
func keyText(t *testing.T, file string) []string {
	t.Helper()
	pem, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(pem)), "\n")
	if len(lines) < 3 {
		t.Fatalf("%s holds no key", file)
	}
	return lines[1 : len(lines)-1]
}

// TestUpstreamTLSFails: without trust on both sides nothing is asked of a control
// plane, and the operator sees it.
func TestUpstreamTLSFails(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*mutual, *config.UpstreamTLS)
		// want is in the reason. What only the control plane knows may be lost with
		// the connection that it closes.
		want string
	}{
		{"a relay without a certificate", func(_ *mutual, c *config.UpstreamTLS) { c.CertFile, c.KeyFile = "", "" }, ""},
		{"a relay of another authority", func(m *mutual, c *config.UpstreamTLS) {
			c.CertFile, c.KeyFile = m.dir.PutPair("foreign", m.foreign.Client(relayName))
		}, ""},
		{"a control plane of another authority", func(m *mutual, c *config.UpstreamTLS) {
			c.CAFile = m.dir.PutCA("foreign", m.foreign)
		}, "unknown authority"},
		{"a control plane of another name", func(_ *mutual, c *config.UpstreamTLS) { c.ServerName = "elsewhere.test" }, "not elsewhere.test"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := startMutual(t, tt.change)
			c := m.connect(t, "node", m.fleet.Client("proxy"))
			var upstreams []struct {
				Reached  bool `json:"reached"`
				Sessions []struct {
					LastError string `json:"last_error"`
				} `json:"sessions"`
			}
			waitFor(t, "the reason on /upstreams", func() bool {
				decode(t, m.relay, "/upstreams", &upstreams)
				s := upstreams[0].Sessions
				return len(s) == 1 && s[0].LastError != "" && strings.Contains(s[0].LastError, tt.want)
			})
			if upstreams[0].Reached || m.plane.Opened() != 0 || len(c.responses()) != 0 {
				t.Errorf("the relay reached it: %t; %d streams opened, %d responses to the client",
					upstreams[0].Reached, m.plane.Opened(), len(c.responses()))
			}
		})
	}
}
