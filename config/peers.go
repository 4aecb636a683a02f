package config

import (
	"fmt"
	"slices"
)

// Peers are other relays that this one asks while its control planes are away, and that
// may ask it.
type Peers struct {
	Addresses  []string    `yaml:"addresses,omitempty"`  // host:port; a name stands for all its addresses
	TLS        UpstreamTLS `yaml:"tls,omitempty"`        // of connections to them
	Identities []string    `yaml:"identities,omitempty"` // names in client certificates of relays that may ask
}

// peers checks the section. A peer shows everything of a scope to a relay that asks, whatever
// client it asks for. So both sides need certificates: without one nobody has an identity.
func (k *checker) peers(p *Peers, s *Server) {
	seen := make(map[string]int)
	for i, address := range p.Addresses {
		at := fmt.Sprintf("peers.addresses[%d]", i)
		k.address(at, address, connecting)
		k.once(seen, at, "peers.addresses", address, i)
	}
	clear(seen)
	for i, id := range p.Identities {
		at := fmt.Sprintf("peers.identities[%d]", i)
		k.required(at, id)
		k.once(seen, at, "peers.identities", id, i)
	}
	if len(p.Addresses) > 0 && !p.TLS.shows() {
		k.fail("peers.tls.cert_file", "missing or empty: a peer answers only relays that show it a client certificate")
	} else {
		k.clientTLS("peers.tls", &p.TLS)
	}
	if len(p.Identities) > 0 && !slices.ContainsFunc(s.AllListeners(), func(l Listener) bool { return l.verifiesCertificates() }) {
		k.fail("peers.identities", "expected server.tls.client_ca_file or server.tls.spiffe: without client certificates nobody has an identity")
	}
}

// once checks that a value of a list stands there once.
func (k *checker) once(seen map[string]int, at, list, value string, i int) {
	if first, twice := seen[value]; twice {
		k.fail(at, "%q is already %s[%d]", value, list, first)
		return
	}
	seen[value] = i
}
