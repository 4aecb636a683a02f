package simulate

import (
	"crypto/tls"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

// In seeds with peers the first tier has two relays, which are each other's peers. Then all that clients and
// relays open to relays is under TLS: without it no relay has an identity.
const (
	twinAt    = 2 // whose host it is
	relayName = "relay.test"
	peersPort = "83" // at which relays ask
	peerID    = "spiffe://example.org/relay"
	certTime  = 20 * time.Hour
)

// fleetTLS has the certificates of a simulation with peers. A nil one has none.
type fleetTLS struct {
	files  *pki.Folder
	client *tls.Config
}

func newFleetTLS(tb testing.TB) *fleetTLS {
	tb.Helper()
	authority, relays, f := pki.NewAuthority(tb, "fleet"), pki.NewAuthority(tb, "relays"), &fleetTLS{files: pki.NewFolder(tb)}
	f.files.PutCA("fleet", authority)
	f.files.PutCA("relays", relays)
	f.files.PutPair("server", authority.Server(relayName, pki.Lifetime(certTime)))
	f.files.PutPair("relay", authority.Client("relay", pki.Lifetime(certTime)))
	f.files.PutPair("peer", relays.SVID(peerID, pki.Lifetime(certTime)))
	f.client = &tls.Config{
		RootCAs: authority.Pool(), ServerName: relayName, MinVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{authority.Client("client", pki.Lifetime(certTime))},
	}
	return f
}

// configure has a relay ask for certificates, and show its own.
func (f *fleetTLS) configure(c *config.Config, tier int) {
	if f == nil {
		return
	}
	mine := config.UpstreamTLS{
		CAFile: f.files.Path("fleet.crt"), CertFile: f.files.Path("relay.crt"), KeyFile: f.files.Path("relay.key"), ServerName: relayName,
	}
	c.Server.TLS = &config.ServerTLS{CertFile: f.files.Path("server.crt"), KeyFile: f.files.Path("server.key"), ClientCAFile: f.files.Path("fleet.crt")}
	if tier == 1 {
		c.Upstreams[0].TLS = &mine
		return
	}
	c.Peers.Listen, c.Peers.Identities = ":"+peersPort, []string{peerID}
	c.Peers.Addresses = []string{relayHost(0) + ":" + peersPort, relayHost(twinAt) + ":" + peersPort}
	c.Peers.TLS = config.PeersTLS{CAFile: f.files.Path("relays.crt"), CertFile: f.files.Path("peer.crt"), KeyFile: f.files.Path("peer.key")}
}

// creds are those of clients that open streams.
func (f *fleetTLS) creds() credentials.TransportCredentials {
	if f == nil {
		return nil
	}
	return credentials.NewTLS(f.client)
}

// polls says how clients poll.
func (f *fleetTLS) polls() (scheme string, with *tls.Config) {
	if f == nil {
		return "http", nil
	}
	return "https", f.client.Clone()
}

// everyRelay lists the relays, the peer of the first one last.
func (s *simulation) everyRelay() []*relayProcess {
	if s.twin == nil {
		return s.relays[:]
	}
	return append(s.relays[:len(s.relays):len(s.relays)], s.twin)
}

// atTwin reports whether a client is at the peer of the first relay.
func (s *simulation) atTwin(n, tier int) bool { return s.choices.peers && tier == 0 && n%3 == 1 }

// way lists the relays between the control planes and a client.
func (c *client) way() []*relayProcess {
	if c.at == relayHost(twinAt) {
		return []*relayProcess{c.sim.twin}
	}
	return c.sim.relays[:c.tier+1]
}
