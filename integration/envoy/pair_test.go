package envoy

import (
	"fmt"
	"net"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/internal/testkit/traffic"
)

func pairScenarios() []scenario {
	of := func(name string, disk, peers bool) scenario {
		return scenario{
			name: name, proves: "SUR-1 OPS-6", forms: []form{deltaADS, stateADS}, only: relayed,
			behaviour: plane.GoControlPlane(), disk: disk, pair: true, peers: peers, killed: true, play: eitherDies,
		}
	}
	return []scenario{
		of("the control plane dies, and either of two relays with a disk", true, false),
		of("the control plane dies, and either of two relays without a disk, which are peers", false, true),
	}
}

// TestPair restarts two relays one after the other, and lets the control plane and either of them
// die: every new Envoy is served, and so is one at a relay that begins anew.
func TestPair_SUR1_OPS6(t *testing.T) { playAll(t, pairScenarios()) }

const (
	// relayHost is the name in the certificates of relays that are peers.
	relayHost = "relay.test"
	// peerID is the identity by which they know each other.
	peerID = "spiffe://example.org/relay"
	// envoyID is that of Envoys.
	envoyID = "spiffe://example.org/envoy"
)

// fleetTLS is the mutual TLS of a fleet: without it no relay has an identity.
type fleetTLS struct{ files *pki.Folder }

func newFleetTLS(t *testing.T) *fleetTLS {
	t.Helper()
	authority, peers, f := pki.NewAuthority(t, "fleet"), pki.NewAuthority(t, "relays"), &fleetTLS{pki.NewFolder(t)}
	f.files.PutCA("fleet", authority)
	f.files.PutCA("relays", peers)
	f.files.PutPair("server", authority.Server(relayHost))
	f.files.PutPair("relay", peers.SVID(peerID))
	f.files.PutPair("envoy", authority.Client("envoy", pki.URI(envoyID)))
	return f
}

// configure makes a relay a peer of those that are asked at the addresses, itself at the first argument.
func (f *fleetTLS) configure(c *config.Config, asked string, addrs []string) {
	f.serve(c)
	c.Peers.Listen, c.Peers.Addresses, c.Peers.Identities, c.Peers.Secrets = asked, addrs, []string{peerID}, true
	c.Peers.TLS = config.PeersTLS{CAFile: f.files.Path("relays.crt"), CertFile: f.files.Path("relay.crt"), KeyFile: f.files.Path("relay.key")}
}

// serve has a relay ask its clients for certificates.
func (f *fleetTLS) serve(c *config.Config) {
	c.Server.TLS = &config.ServerTLS{
		CertFile: f.files.Path("server.crt"), KeyFile: f.files.Path("server.key"), ClientCAFile: f.files.Path("fleet.crt"),
	}
}

// secure has an Envoy show its certificate to its server.
func (f *fleetTLS) secure(b *bootstrapv3.Bootstrap) {
	file := func(name string) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: f.files.Path(name)}}
	}
	b.GetStaticResources().GetClusters()[0].TransportSocket = &corev3.TransportSocket{
		Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: envoyproc.Any(&tlsv3.UpstreamTlsContext{
			Sni: relayHost,
			CommonTlsContext: &tlsv3.CommonTlsContext{
				AlpnProtocols:   []string{"h2"},
				TlsCertificates: []*tlsv3.TlsCertificate{{CertificateChain: file("envoy.crt"), PrivateKey: file("envoy.key")}},
				ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{
					ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: file("fleet.crt")},
				},
			},
		})},
	}
}

// addPair starts two relays side by side.
func (w *world) addPair(s *scenario) {
	w.t.Helper()
	if s.peers {
		w.fleet = newFleetTLS(w.t)
	}
	listeners := []net.Listener{ports.Listen(w.t), ports.Listen(w.t)}
	asked := []string{fmt.Sprint("127.0.0.1:", ports.Free(w.t)), fmt.Sprint("127.0.0.1:", ports.Free(w.t))}
	for i, lis := range listeners {
		w.relays = append(w.relays, startRelayAt(w.t, lis, w.form.up, w.plane.Addr(), s.killed, func(c *config.Config) {
			w.settings(s, c)
			if w.fleet != nil {
				w.fleet.configure(c, asked[i], asked)
			}
		}))
	}
}

// either starts an Envoy that goes to one of the pair.
func (w *world) either(id string) *envoyproc.Envoy {
	w.t.Helper()
	return w.envoyAt(id, w.relays[0].addr, w.relays[1].addr)
}

// pairFleet is the number of Envoys of a pair.
func pairFleet() int {
	if soaking() {
		return 12
	}
	return 3
}

const (
	resourcesMetric = "xdsrelay_table_resources"
	takenMetric     = "xdsrelay_peer_taken_resources_total"
)

// eitherDies plays with a fleet of which one Envoy goes to the first relay only and one to the second:
// each relay has clients, and knows all that there is.
func eitherDies(w *world) {
	a, b := w.backend("a"), w.backend("b")
	w.plane.Set(
		w.cluster("one"), endpoints("one", a), w.cluster("two"), endpoints("two", b), w.listener("web", "routes"), route("routes", "one"),
	)
	all := []*envoyproc.Envoy{w.envoyAt("at-0", w.relays[0].addr), w.envoyAt("at-1", w.relays[1].addr)}
	for i := len(all); i < pairFleet(); i++ {
		all = append(all, w.either(fmt.Sprint("fleet-", i)))
	}
	loads := w.loadsOf(all)
	know := func(n int) {
		for i, r := range w.relays {
			w.need(soon, fmt.Sprintf("relay %d knows %d resources", i, n), func() bool {
				if dir := r.config.Cache.Dir; dir != "" && kept(dir) != n {
					return false
				}
				return r.metric(resourcesMetric) == float64(n)
			})
		}
	}

	for _, r := range w.relays {
		r.leave()
		r.again()
		know(6)
	}
	w.plane.Set(route("routes", "two"))
	w.haveAll(soon, all, "b")
	w.plane.Set(envoyproc.Static("three", a)) // comes after the route, to a disk too
	know(7)

	w.plane.Stop()
	joins := func(what string, e *envoyproc.Envoy) {
		all = append(all, e)
		w.notef("%s after %v", what, w.haveAll(soon, []*envoyproc.Envoy{e}, "b").Round(100*time.Millisecond))
		w.within(prompt, e.Node()+" has all clusters", func() bool { return len(e.ActiveClusters()) == 3 })
		loads = append(loads, traffic.StartLoad(w.t, e.Addr("web"), "", 100*time.Millisecond))
	}
	for i, r := range w.relays {
		r.stop()
		joins("without relay", w.either(fmt.Sprint("without-", i)))
		r.again()
		joins("at the new relay", w.envoyAt(fmt.Sprint("new-at-", i), r.addr))
		w.need(soon, all[i].Node()+" is connected again", func() bool { return connected(all[i]) })
		if n := r.metric(takenMetric); (n > 0) != (w.fleet != nil) {
			w.faultf("relay %d took %v resources from its peer", i, n)
		}
	}

	w.plane.Set(route("routes", "one"))
	w.plane.Restart(w.t)
	w.haveAll(soon, all, "a")
	w.unharmed(loads)
	w.unscathed(all...)
}
