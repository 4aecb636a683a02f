package config

import (
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/sockets"
)

// DefaultListenerName is the name of the listener that server.listen and server.rest_listen open.
const DefaultListenerName = "default"

// Listener is one more listener for clients, with an identity of its own for them.
type Listener struct {
	Name       string     `yaml:"name"`   // rules see it as the variable listener; unique
	Listen     string     `yaml:"listen"` // as Server.Listen
	Protocol   Protocol   `yaml:"protocol"`
	SocketMode FileMode   `yaml:"socket_mode"`   // of the file of a unix socket
	TLS        *ServerTLS `yaml:"tls,omitempty"` // nil: plaintext
	Identity   Identity   `yaml:"identity"`

	ProxyProtocol bool `yaml:"proxy_protocol"` // as Server.ProxyProtocol

	Access *ListenerAccess `yaml:"access,omitempty"` // who gets what; nil: as Config.Access says
}

// Protocol is what the clients of a listener speak.
type Protocol string

// The protocols.
const (
	ProtocolGRPC Protocol = "grpc"
	ProtocolREST Protocol = "rest" // polls of REST-JSON (VAR-5)
)

// UnmarshalText takes grpc or rest.
func (p *Protocol) UnmarshalText(text []byte) error {
	return oneOf(p, text, ProtocolGRPC, ProtocolREST)
}

// FileMode says who may use a file, in octal digits: "0660".
type FileMode fs.FileMode

// UnmarshalText takes octal digits.
func (m *FileMode) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 32)
	const owner = 0o600 // may connect
	if err != nil || n > uint64(fs.ModePerm) || n&owner != owner {
		return fmt.Errorf("expected the mode of a file in octal digits, 0600 to 0777, got %q", text)
	}
	*m = FileMode(n)
	return nil
}

// MarshalText gives octal digits.
func (m FileMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// String gives octal digits.
func (m FileMode) String() string { return fmt.Sprintf("%04o", uint32(m)) }

// Std gives the standard library's form.
func (m FileMode) Std() fs.FileMode { return fs.FileMode(m) }

// isUnix reports whether an address is that of a unix socket.
func isUnix(address string) bool {
	_, is, _ := sockets.Unix(address)
	return is
}

// AllListeners gives the listeners of clients: the one named "default" first. It is one listener,
// even if it has an address for polls beside its own.
func (s *Server) AllListeners() []Listener {
	first := Listener{
		Name: DefaultListenerName, Listen: s.Listen, Protocol: ProtocolGRPC, SocketMode: s.SocketMode,
		TLS: s.TLS, Identity: s.Identity, ProxyProtocol: s.ProxyProtocol,
	}
	return append([]Listener{first}, s.Listeners...)
}

// identifies reports whether clients of the listener have an identity.
func (l *Listener) identifies() bool {
	return l.verifiesCertificates() || isUnix(l.Listen) || len(l.Identity.JWT) > 0
}

// verifiesCertificates reports whether clients of the listener show certificates.
func (l *Listener) verifiesCertificates() bool { return l.TLS != nil && l.TLS.verifies() }

// listeners checks server.listeners, and that no two listen on the same address.
func (k *checker) listeners(c *Config) {
	paths := []string{"server.listen", "server.rest_listen", "admin.listen", "admin.probes_listen", "peers.listen"}
	addresses := []string{c.Server.Listen, c.Server.RESTListen, c.Admin.Listen, c.Admin.ProbesListen, c.Peers.Listen}
	names := map[string]string{DefaultListenerName: "server"}
	for i := range c.Server.Listeners {
		l, at := &c.Server.Listeners[i], fmt.Sprintf("server.listeners[%d]", i)
		k.listenerName(names, at, l.Name)
		k.enum(at+".protocol", reflect.ValueOf(&l.Protocol).Elem())
		k.address(at+".listen", l.Listen, listening)
		k.serverTLS(at+".tls", l.TLS)
		k.identity(at+".identity", &l.Identity)
		k.proxyProtocol(at+".proxy_protocol", l.ProxyProtocol, l.Listen)
		paths, addresses = append(paths, at+".listen"), append(addresses, l.Listen)
	}
	for i, address := range addresses {
		if first := slices.Index(addresses, address); first < i && address != "" && (isUnix(address) || !anyPort(address)) {
			k.fail(paths[i], "expected a different address than %s, got %q for both", paths[first], address)
		}
	}
}

// listenerName checks a name, which rules compare and metrics show.
func (k *checker) listenerName(names map[string]string, at, name string) {
	path := at + ".name"
	switch first, twice := names[name]; {
	case name == "":
		k.required(path, name)
	case strings.Trim(name, wordCharacters+".") != "" || len(name) > maxListenerName:
		k.fail(path, "expected at most %d letters, digits and any of -_., got %q", maxListenerName, name)
	case twice && first == "server":
		k.fail(path, "%q is the listener of server.listen: expected another name", name)
	case twice:
		k.fail(path, "%q is already %s", name, first)
	default:
		names[name] = at
	}
}

const maxListenerName = 64

func (k *checker) identity(path string, id *Identity) {
	k.between(path+".recheck", id.Recheck, Duration(time.Second), maxWait)
	seen := make(map[string]int)
	for i := range id.JWT {
		at := fmt.Sprintf("%s.jwt[%d]", path, i)
		k.issuer(at, &id.JWT[i])
		k.once(seen, at+".issuer", path+".jwt", id.JWT[i].Issuer, i)
	}
}

// proxyProtocol checks addresses. Of a proxy on a unix socket the kernel says who the proxy is, not
// who its clients are.
func (k *checker) proxyProtocol(path string, on bool, addresses ...string) {
	if on && slices.ContainsFunc(addresses, isUnix) {
		k.fail(path, "expected false, because the user of a unix socket would be the proxy's")
	}
}

// issuer checks whose tokens count. Without an audience, a token that a client was given for
// another service would do, and that service could come here with it.
func (k *checker) issuer(at string, t *Issuer) {
	k.required(at+".issuer", t.Issuer)
	if t.JWKSMaxAge != 0 {
		k.between(at+".jwks_max_age", t.JWKSMaxAge, Duration(10*time.Minute), Duration(30*24*time.Hour))
	}
	if len(t.Audiences) == 0 {
		k.fail(at+".audiences", "missing or empty: a token for any other service would count")
	}
	for i, a := range t.Audiences {
		k.required(fmt.Sprintf("%s.audiences[%d]", at, i), a)
	}
	switch {
	case t.JWKSFile == "" && t.JWKSURL == "":
		k.fail(at, "expected jwks_file or jwks_url")
	case t.JWKSFile != "" && t.JWKSURL != "":
		k.fail(at+".jwks_url", "expected only one of jwks_file and jwks_url")
	case t.JWKSURL != "":
		k.keysURL(at+".jwks_url", t.JWKSURL)
	case t.JWKSCAFile != "":
		k.fail(at+".jwks_ca_file", "expected jwks_url: a file has no server")
	}
}

// keysURL checks where keys are fetched. Somebody who can change the keys on their way can pass for any client.
func (k *checker) keysURL(path, value string) {
	u, err := url.Parse(value)
	switch {
	case err == nil && u.User != nil:
		k.fail(path, "expected no user and no password in the address")
	case err != nil || u.Host == "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http":
		k.fail(path, "expected https://host/path, got %q", value)
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		k.fail(path, "expected https://, because the keys decide who clients are: http:// is only for this machine, got %q", value)
	}
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// liveListeners gives the listeners of a running relay what of another configuration can come
// into force: TLS files, identities and, if judged, access rules. If a listener comes or goes, all wait.
func liveListeners(running, wanted []Listener, judged bool) []Listener {
	same := func(a, b Listener) bool { return a.Name == b.Name }
	if !slices.EqualFunc(running, wanted, same) {
		return running
	}
	next := slices.Clone(running)
	for i, w := range wanted {
		if (next[i].TLS == nil) == (w.TLS == nil) {
			next[i].TLS = w.TLS
		}
		next[i].Identity = w.Identity
		if judged {
			next[i].Access = w.Access
		}
	}
	return next
}

// secureAlike reports whether listeners have TLS in both configurations, or in neither.
func secureAlike(a, b *Server) bool {
	return slices.EqualFunc(a.AllListeners(), b.AllListeners(), func(a, b Listener) bool {
		return a.Name == b.Name && (a.TLS == nil) == (b.TLS == nil)
	})
}
