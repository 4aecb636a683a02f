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
	Listen     string   `yaml:"listen,omitempty"`     // where they ask
	Addresses  []string `yaml:"addresses,omitempty"`  // host:port; a name stands for all its addresses
	TLS        PeersTLS `yaml:"tls,omitempty"`        // of both sides
	Identities []string `yaml:"identities,omitempty"` // of relays: SPIFFE IDs, or names of certificates of tls.ca_file
	Secrets    bool     `yaml:"secrets"`              // are given and taken
	MaxBytes   Size     `yaml:"max_bytes"`            // of an image
}

// PeersTLS is what a relay shows to its peers, and whose certificates it takes for theirs: on both sides the same.
type PeersTLS struct {
	CertFile string  `yaml:"cert_file,omitempty"`
	KeyFile  string  `yaml:"key_file,omitempty"`
	CAFile   string  `yaml:"ca_file,omitempty"`
	SPIFFE   *SPIFFE `yaml:"spiffe,omitempty"`
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
		switch u, err := url.Parse(id); {
		case p.TLS.SPIFFE != nil && (err != nil || u.Scheme != "spiffe"):
			k.fail(at, "expected a SPIFFE ID, like spiffe://example.org/relay, because of peers.tls.spiffe, got %q", id)
		case id == "":
			k.fail(at, "expected a URI, like spiffe://example.org/relay, or a DNS name, got an empty name")
		}
		k.once(seen, at, "peers.identities", id, i)
	}
	if p.MaxBytes < MiB {
		k.fail("peers.max_bytes", "expected %s or more, got %s", MiB, p.MaxBytes)
	}
	switch {
	case isUnix(p.Listen):
		k.fail("peers.listen", "expected host:port or :port, because other relays have other machines, got %q", p.Listen)
	case p.Listen != "":
		k.address("peers.listen", p.Listen, listening)
	}
	if p.Listen == "" && len(p.Addresses) == 0 {
		return
	}
	if len(p.Identities) == 0 {
		k.fail("peers.identities", "missing or empty: expected the names in the certificates of the relays that may ask, and answer")
	}
	k.peersTLS(c)
}

// peersTLS checks that relays show certificates that no client has. Otherwise a client whose CA lets it choose a name
// could pass for a relay. A SPIFFE ID is that of one workload.
func (k *checker) peersTLS(c *Config) {
	t := &c.Peers.TLS
	if s := t.SPIFFE; s != nil {
		k.noFiles("peers.tls", map[string]string{"cert_file": t.CertFile, "key_file": t.KeyFile, "ca_file": t.CAFile})
		k.spiffe("peers.tls.spiffe", s.Socket, s.TrustDomains)
		return
	}
	k.required("peers.tls.cert_file", t.CertFile)
	k.required("peers.tls.key_file", t.KeyFile)
	k.required("peers.tls.ca_file", t.CAFile)
	others := c.otherTLS()
	for _, other := range slices.Sorted(maps.Keys(others)) {
		if file := others[other].ClientCAFile; file != "" && filepath.Clean(file) == filepath.Clean(t.CAFile) {
			k.fail("peers.tls.ca_file", "expected a CA that %s does not have: a client of it could pass for a relay", other)
		}
	}
}

// otherTLS gives the TLS of every listener, by its path.
func (c *Config) otherTLS() map[string]*ServerTLS {
	all := map[string]*ServerTLS{"server.tls": c.Server.TLS, "admin.tls": c.Admin.TLS}
	for i := range c.Server.Listeners {
		all[fmt.Sprintf("server.listeners[%d].tls", i)] = c.Server.Listeners[i].TLS
	}
	maps.DeleteFunc(all, func(_ string, t *ServerTLS) bool { return t == nil })
	return all
}

// once checks that a value of a list stands there once.
func (k *checker) once(seen map[string]int, at, list, value string, i int) {
	if first, twice := seen[value]; twice {
		k.fail(at, "%q is already %s[%d]", value, list, first)
		return
	}
	seen[value] = i
}
