package config

import (
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
)

// Peers are other relays that this one asks while its control planes are away, and that
// may ask it.
type Peers struct {
	Listener   string      `yaml:"listener,omitempty"`   // of server.listeners, at which relays may ask; it serves no clients
	Addresses  []string    `yaml:"addresses,omitempty"`  // host:port; a name stands for all its addresses
	TLS        UpstreamTLS `yaml:"tls,omitempty"`        // of connections to them
	Identities []string    `yaml:"identities,omitempty"` // of relays that may ask: each the only URI of a client certificate
	MaxBytes   Size        `yaml:"max_bytes"`            // of one exchange
}

// peers checks the section. A peer shows everything of a scope to a relay that asks, whatever
// client it asks for. So both sides need certificates: without one nobody has an identity.
func (k *checker) peers(c *Config) {
	p := &c.Peers
	seen := make(map[string]int)
	for i, address := range p.Addresses {
		at := fmt.Sprintf("peers.addresses[%d]", i)
		k.address(at, address, connecting)
		k.once(seen, at, "peers.addresses", address, i)
	}
	clear(seen)
	for i, id := range p.Identities {
		at := fmt.Sprintf("peers.identities[%d]", i)
		if u, err := url.Parse(id); err != nil || u.Scheme == "" {
			k.fail(at, "expected a URI, like spiffe://example.org/relay, got %q: a relay is known by the one URI of its certificate", id)
		}
		k.once(seen, at, "peers.identities", id, i)
	}
	if len(p.Addresses) > 0 && !p.TLS.shows() {
		k.fail("peers.tls.cert_file", "missing or empty: a peer answers only relays that show it a client certificate")
	} else {
		k.clientTLS("peers.tls", &p.TLS)
	}
	if p.MaxBytes < MiB {
		k.fail("peers.max_bytes", "expected %s or more, got %s", MiB, p.MaxBytes)
	}
	k.peersListener(c)
}

// peersListener checks that relays ask at a listener that takes nobody else's certificates. Otherwise a client whose
// CA lets it choose a name could pass for a relay.
func (k *checker) peersListener(c *Config) {
	p := &c.Peers
	switch {
	case p.Listener == "" && len(p.Identities) > 0:
		k.fail("peers.identities", "expected peers.listener: relays may ask only at a listener of server.listeners that serves no clients")
	case p.Listener != "" && len(p.Identities) == 0:
		k.fail("peers.listener", "expected peers.identities: without them nobody may ask there")
	}
	if p.Listener == "" {
		return
	}
	l, at := c.peersListener()
	if l == nil {
		k.fail("peers.listener", "expected the name of one of server.listeners, got %q", p.Listener)
		return
	}
	if l.Protocol == ProtocolREST {
		k.fail(at+".protocol", "expected grpc, because relays ask at this listener (peers.listener)")
	}
	if l.Access != nil {
		k.fail(at+".access", "expected none, because relays ask at this listener (peers.listener), and it serves no clients")
	}
	if !l.verifiesCertificates() {
		k.fail(at+".tls", "expected client_ca_file or spiffe, because relays ask at this listener (peers.listener): without client certificates nobody has an identity")
		return
	}
	others := c.otherTLS(l)
	for _, other := range slices.Sorted(maps.Keys(others)) {
		if key := l.TLS.sharedWith(others[other]); key != "" {
			k.fail(at+".tls."+key, "expected a CA or a trust domain that %s does not have: relays ask at this listener (peers.listener), and a client of the other one could pass for a relay", other)
		}
	}
}

// peersListener gives the listener at which relays ask, and its path; nil if there is none.
func (c *Config) peersListener() (l *Listener, path string) {
	i := slices.IndexFunc(c.Server.Listeners, func(l Listener) bool { return l.Name == c.Peers.Listener })
	if i < 0 || c.Peers.Listener == "" {
		return nil, ""
	}
	return &c.Server.Listeners[i], fmt.Sprintf("server.listeners[%d]", i)
}

// otherTLS gives the TLS of every listener but one, by its path.
func (c *Config) otherTLS(but *Listener) map[string]*ServerTLS {
	all := map[string]*ServerTLS{"server.tls": c.Server.TLS, "admin.tls": c.Admin.TLS}
	for i := range c.Server.Listeners {
		if l := &c.Server.Listeners[i]; l != but {
			all[fmt.Sprintf("server.listeners[%d].tls", i)] = l.TLS
		}
	}
	for path, t := range all {
		if t == nil {
			delete(all, path)
		}
	}
	return all
}

// sharedWith gives the key that says that two listeners take the same certificates; "" if none does. The running relay
// looks whether a certificate counts elsewhere: files and Workload APIs say that.
func (t *ServerTLS) sharedWith(o *ServerTLS) (key string) {
	switch {
	case t.SPIFFE == nil && t.ClientCAFile != "" && filepath.Clean(t.ClientCAFile) == filepath.Clean(o.ClientCAFile):
		return "client_ca_file"
	case t.SPIFFE == nil || o.SPIFFE == nil:
		return ""
	case slices.ContainsFunc(t.SPIFFE.TrustDomains, func(name string) bool { return slices.Contains(o.SPIFFE.TrustDomains, name) }):
		return "spiffe.trust_domains"
	case len(t.SPIFFE.TrustDomains)+len(o.SPIFFE.TrustDomains) == 0 && t.SPIFFE.Socket == o.SPIFFE.Socket:
		return "spiffe"
	}
	return ""
}

// once checks that a value of a list stands there once.
func (k *checker) once(seen map[string]int, at, list, value string, i int) {
	if first, twice := seen[value]; twice {
		k.fail(at, "%q is already %s[%d]", value, list, first)
		return
	}
	seen[value] = i
}
