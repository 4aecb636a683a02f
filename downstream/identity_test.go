package downstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/url"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
)

// authority is a certificate authority of a test.
type authority struct {
	tb   testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(tb testing.TB) *authority {
	tb.Helper()
	a := &authority{tb: tb, pool: x509.NewCertPool()}
	leaf := a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	a.cert, a.key = leaf.Leaf, leaf.PrivateKey.(*ecdsa.PrivateKey)
	a.pool.AddCert(a.cert)
	return a
}

// issue signs a certificate; the first one signs itself.
func (a *authority) issue(template *x509.Certificate) tls.Certificate {
	a.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.tb.Fatal(err)
	}
	template.SerialNumber = big.NewInt(1)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.tb.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.tb.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func TestIdentity_MutualTLS(t *testing.T) {
	const id = "spiffe://example.org/ns/default/sa/proxy"
	for _, tt := range []struct {
		name   string
		verify tls.ClientAuthType
		cert   bool
		spiffe string
	}{
		{"the certificate reaches the router", tls.RequireAndVerifyClientCert, true, id},
		{"a client without a certificate has no identity", tls.VerifyClientCertIfGiven, false, ""},
		{"a certificate that nobody verified is no identity", tls.RequireAnyClientCert, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var ca *authority
			bubble(t, func(h *harness) {
				client := &tls.Config{RootCAs: ca.pool, ServerName: "relay", MinVersion: tls.VersionTLS13}
				if tt.cert {
					uri, err := url.Parse(id)
					if err != nil {
						t.Fatal(err)
					}
					client.Certificates = []tls.Certificate{ca.issue(&x509.Certificate{
						URIs: []*url.URL{uri}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
					})}
				}
				h.creds = credentials.NewTLS(client)
				c := h.client()
				c.subscribe(clusterType)
				c.wants("Cluster")
				if len(h.router.peers) != 1 || h.router.peers[0].SPIFFE != tt.spiffe || h.router.peers[0].Addr == "" {
					t.Errorf("the router was shown %+v", h.router.peers)
				}
				if s := h.status(); s.SPIFFE != tt.spiffe {
					t.Errorf("the admin port shows %q", s.SPIFFE)
				}
			}, func(c *Config) {
				ca = newAuthority(t)
				c.Credentials = credentials.NewTLS(&tls.Config{
					Certificates: []tls.Certificate{ca.issue(&x509.Certificate{DNSNames: []string{"relay"}})},
					ClientAuth:   tt.verify, ClientCAs: ca.pool, MinVersion: tls.VersionTLS13,
				})
			})
		})
	}
}

func TestPeerOf_NoPeer(t *testing.T) {
	if p := peerOf(t.Context()); p.Addr != "" || p.SPIFFE != "" {
		t.Errorf("peer %+v", p)
	}
}
