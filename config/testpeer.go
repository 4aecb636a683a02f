package config

import (
	"math"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// TestPeer is who a client is; the zero value is a client without identity.
type TestPeer struct {
	SPIFFE  string   `yaml:"spiffe,omitempty"`
	Subject string   `yaml:"subject,omitempty"`
	DNS     []string `yaml:"dns,omitempty"`
	URIs    []string `yaml:"uris,omitempty"`
	Emails  []string `yaml:"emails,omitempty"`
	IPs     []string `yaml:"ips,omitempty"`
	UID     *int     `yaml:"uid,omitempty"`   // of a client that comes through a unix socket
	GID     *int     `yaml:"gid,omitempty"`   // given with UID
	Token   Metadata `yaml:"token,omitempty"` // the claims of a bearer token that the relay has verified
}

// identity gives the peer as rules see it, for a client of a listener. It is that of a client without
// a token if the token's claims are wrong.
func (p *TestPeer) identity(listener string) keyer.Peer {
	id := keyer.Peer{
		SPIFFE: p.SPIFFE, Subject: p.Subject, DNS: p.DNS, URIs: p.URIs, Emails: p.Emails, IPs: p.IPs, Listener: listener,
	}
	if p.UID != nil && p.GID != nil {
		id.User = &keyer.User{UID: uint32(*p.UID), GID: uint32(*p.GID)}
	}
	if p.Token != nil {
		if t, err := keyer.TokenOf(p.Token); err == nil {
			id.Token = &t
		}
	}
	return id
}

// testPeer checks who a test's client is.
func (k *checker) testPeer(path string, p *TestPeer) {
	switch {
	case p.UID == nil && p.GID != nil:
		k.fail(path+".gid", "expected uid beside it: a unix socket gives both")
	case p.UID != nil && p.GID == nil:
		k.fail(path+".uid", "expected gid beside it: a unix socket gives both")
	}
	for _, id := range []struct {
		key   string
		value *int
	}{{".uid", p.UID}, {".gid", p.GID}} {
		if id.value != nil && (*id.value < 0 || *id.value > math.MaxUint32) {
			k.fail(path+id.key, "expected 0 to %d, got %d", uint32(math.MaxUint32), *id.value)
		}
	}
	if p.Token == nil {
		return
	}
	if _, err := keyer.TokenOf(p.Token); err != nil {
		k.fail(path+".token", "%v", err)
	}
}

// testListener checks the listener of a test's client.
func (k *checker) testListener(c *Config, path, name string) {
	if name == "" {
		return
	}
	var names []string
	for _, l := range c.Server.AllListeners() {
		names = append(names, l.Name)
	}
	k.among(path, "listener", name, names)
}
