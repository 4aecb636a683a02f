package downstream

import (
	"crypto/tls"
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"google.golang.org/grpc/credentials"
)

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
			var ca *pki.Authority
			bubble(t, func(h *harness) {
				client := &tls.Config{RootCAs: ca.Pool(), ServerName: "relay", MinVersion: tls.VersionTLS13}
				if tt.cert {
					client.Certificates = []tls.Certificate{ca.Client("proxy", pki.URI(id))}
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
				ca = pki.NewAuthority(t, "ca")
				c.Credentials = credentials.NewTLS(&tls.Config{
					Certificates: []tls.Certificate{ca.Server("relay")},
					ClientAuth:   tt.verify, ClientCAs: ca.Pool(), MinVersion: tls.VersionTLS13,
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
