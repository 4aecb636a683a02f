package relay

import (
	"crypto/tls"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/internal/testkit/tokens"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// leakPeer is who a client is, whatever its node says.
type leakPeer struct {
	keyer.Peer

	tls   *tls.Config // that it shows its certificate by; nil: it speaks plaintext
	token string      // that it shows; "": none
}

// credentials are the client's for gRPC.
func (p *leakPeer) credentials() credentials.TransportCredentials {
	if p.tls == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(p.tls)
}

// leakIssuers say who clients are: an authority for certificates, which those of the default listener show,
// and an issuer of tokens for those of the listener side.
type leakIssuers struct {
	dir    *pki.Folder
	ca     *pki.Authority
	tokens *tokens.Issuer
}

func newLeakIssuers(t *testing.T) *leakIssuers {
	t.Helper()
	return &leakIssuers{pki.NewFolder(t), pki.NewAuthority(t, "clients"), tokens.NewIssuer(t, issuerName, "1")}
}

// leakLifetime is longer than a schedule.
const leakLifetime = 24 * time.Hour

// configure has a relay, with the listener side, ask clients who they are.
func (i *leakIssuers) configure(t *testing.T, c *config.Config) {
	t.Helper()
	certFile, keyFile := i.dir.PutPair("relay", i.ca.Server(relayHost, pki.Lifetime(leakLifetime)))
	c.Server.TLS = &config.ServerTLS{CertFile: certFile, KeyFile: keyFile, ClientCAFile: i.dir.PutCA("clients", i.ca)}
	keys := i.dir.Path("keys.json")
	tokens.File(t, keys, i.tokens.Key())
	c.Server.Listeners[0].Identity.JWT = []config.Issuer{{Issuer: issuerName, Audiences: []string{"xds"}, JWKSFile: keys}}
}

// peer gives a client of a listener who is a tenant, or nobody on the listener side for "".
func (i *leakIssuers) peer(listener, tenant string) leakPeer {
	p := leakPeer{Peer: keyer.Peer{Listener: listener}}
	switch {
	case listener == keyer.DefaultListener:
		client := i.ca.Client("client", pki.URI("spiffe://td/"+tenant), pki.Lifetime(leakLifetime))
		p.Peer = keyer.PeerFromCertificate(client.Leaf)
		p.Listener = listener
		p.tls = &tls.Config{
			RootCAs: i.ca.Pool(), ServerName: relayHost, MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{client},
		}
	case tenant != "":
		p.Token = &keyer.Token{Issuer: issuerName, Subject: tenant, Audience: []string{"xds"}}
		p.token = i.tokens.Token(tokens.Claims{"aud": []string{"xds"}, "sub": tenant, "exp": time.Now().Add(leakLifetime).Unix()})
	}
	return p
}
