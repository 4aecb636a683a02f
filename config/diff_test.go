package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lines are changes as they are logged.
func lines(changes []Change) []string {
	var all []string
	for _, c := range changes {
		all = append(all, c.String())
	}
	return all
}

func TestDiff(t *testing.T) {
	const base = `
server: {ack_wait: 1s}
node: {metadata: {team: edge, zones: [a, b]}}
upstreams:
  - {name: a, default: true, endpoints: ["a:1", "a:2"]}
  - {name: b, authorities: [b], path: /b}
`
	for _, tt := range []struct {
		name, after string
		want        []string
	}{
		{"nothing", base, nil},
		{"comments and order of keys are nothing", `
# changed
upstreams:
  - {endpoints: ["a:1", "a:2"], default: true, name: a}
  - {path: /b, name: b, authorities: [b]}
node: {metadata: {zones: [a, b], team: edge}}
server: {ack_wait: 1000ms}
`, nil},
		{"a value, and one that is left to its default", strings.ReplaceAll(base, "server: {ack_wait: 1s}", "log: {level: debug}"), []string{
			"server.ack_wait: 1s → 200ms", "log.level: info → debug",
		}},
		{"a section that comes", base + "aggregation: {linger: 1s}\n" + "cache: {max_bytes: 1MiB, idle: 1m}\n", []string{
			"aggregation.linger: 5m → 1s", "cache.max_bytes: 2GiB → 1MiB", "cache.idle: 10m → 1m",
		}},
		{"metadata", strings.ReplaceAll(base, "team: edge", "team: 'the edge'"), []string{
			"node.metadata: {team: edge, zones: [a, b]} → {team: \"the edge\", zones: [a, b]}",
		}},
		{"metadata that go", strings.ReplaceAll(base, "node: {metadata: {team: edge, zones: [a, b]}}", ""), []string{
			"node.metadata: {team: edge, zones: [a, b]} removed",
		}},
		{"an upstream's endpoints", strings.ReplaceAll(base, `"a:2"`, `"a:3"`), []string{
			"upstreams[a].endpoints: [a:1, a:2] → [a:1, a:3]",
		}},
		{"LOC-6 endpoints get the same priority", strings.ReplaceAll(base, `["a:1", "a:2"]`, `[["a:1", "a:2"]]`), []string{
			"upstreams[a].endpoints: [a:1, a:2] → [[a:1, a:2]]",
		}},
		{"LOC-6 a list of one is that one", strings.ReplaceAll(base, `["a:1", "a:2"]`, `[["a:1"], ["a:2"]]`), nil},
		{"an upstream gets TLS", strings.ReplaceAll(base, "default: true", "default: true, tls: {ca_file: ca.pem}"), []string{
			"upstreams[a].tls: {ca_file: ca.pem} added",
		}},
		{"an upstream has another name", strings.ReplaceAll(base, "name: b", "name: c"), []string{
			"upstreams: b removed", "upstreams: c added",
		}},
		{"AGG-3 a rule shows the first client's node", base + `
aggregation: {rules: [{name: r, match: "true", scope: [], node: first}]}
`, []string{"aggregation.rules: r added"}},
		{"upstreams in another order", `
server: {ack_wait: 1s}
node: {metadata: {team: edge, zones: [a, b]}}
upstreams:
  - {name: b, authorities: [b], path: /b}
  - {name: a, default: true, endpoints: ["a:1", "a:2"]}
`, []string{"upstreams: [a, b] → [b, a]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, lines(Diff(mustParse(t, base), mustParse(t, tt.after)))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDiff_longValues(t *testing.T) {
	before, after := Default(), Default()
	after.Node.ID = strings.Repeat("é", maxShown)
	changes := Diff(before, after)
	if len(changes) != 1 || len(changes[0].New) > maxShown+len("…") || !strings.HasSuffix(changes[0].New, "é…") {
		t.Errorf("%q", changes)
	}
	// Configurations that were built by hand need not have unique names.
	before.Upstreams = []Upstream{{Name: "a"}, {Name: "a"}}
	after.Upstreams = []Upstream{{Name: "a"}, {Name: "a", Path: "x"}}
	if got := lines(Diff(before, after)); len(got) != 2 || !strings.HasPrefix(got[0], "upstreams: [{name: a},") {
		t.Errorf("%q", got)
	}
}

// TestDiff_everyKey changes each key there is, one at a time.
func TestDiff_everyKey(t *testing.T) {
	whole := func() *Config {
		c := Default()
		c.Server.TLS, c.Admin.TLS = &ServerTLS{SPIFFE: new(SPIFFE)}, &ServerTLS{SPIFFE: new(SPIFFE)}
		c.Peers.TLS.SPIFFE = new(SPIFFE)
		u := DefaultUpstream()
		u.Name, u.TLS, u.Credentials.SPIFFE = "a", &UpstreamTLS{SPIFFE: new(ClientSPIFFE)}, new(TokenSPIFFE)
		c.Upstreams = []Upstream{u}
		l := DefaultListener()
		l.Name, l.TLS, l.Access = "b", &ServerTLS{SPIFFE: new(SPIFFE)}, new(ListenerAccess)
		c.Server.Listeners = []Listener{l}
		return c
	}
	paths := func(c *Config) []leaf {
		all := append(leaves(reflect.ValueOf(c), reflect.TypeFor[*Config](), ""),
			leaves(reflect.ValueOf(&c.Upstreams[0]), reflect.TypeFor[*Upstream](), "upstreams[a]")...)
		return append(all, leaves(reflect.ValueOf(&c.Server.Listeners[0]), reflect.TypeFor[*Listener](), "server.listeners[b]")...)
	}
	for i, l := range paths(whole()) {
		if l.typ.Kind() == reflect.Slice && named(l.typ.Elem()) || l.path == "upstreams[a].name" || l.path == "server.listeners[b].name" {
			continue
		}
		after := whole()
		alter(t, paths(after)[i].value)
		changes := Diff(whole(), after)
		if len(changes) != 1 || changes[0].Path != l.path {
			t.Errorf("%s was changed, and the difference is %q", l.path, lines(changes))
		}
		inForce, changed, waiting := Live(whole(), after)
		if restart := NeedsRestart(l.path); restart != (len(waiting) == 1) || restart != (len(changed) == 0) {
			t.Errorf("%s: needs a restart: %t; changed %q, waiting %q", l.path, restart, lines(changed), lines(waiting))
		}
		if got := len(Diff(inForce, after)); got != len(waiting) {
			t.Errorf("%s: %d keys of what is in force are not as wanted, %d wait", l.path, got, len(waiting))
		}
	}
}

// alter gives a value that it has not.
func alter(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint32:
		v.SetUint(v.Uint() + 1)
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	default:
		t.Fatalf("no other value of a %s is known", v.Type())
	}
}

func TestLive_TLS(t *testing.T) {
	plain, secure, other := Default(), Default(), Default()
	secure.Server.TLS = &ServerTLS{CertFile: "a", KeyFile: "a"}
	other.Server.TLS = &ServerTLS{CertFile: "b", KeyFile: "a"}
	verified := Default()
	verified.Server.TLS = secure.Server.TLS
	verified.Access.Verify = []VerifyRule{{Name: "own", Require: "node.id == peer.spiffe"}}
	for _, tt := range []struct {
		name            string
		running, wanted *Config
		tls             *ServerTLS
		changed, wait   []string
	}{
		{"a port does not begin with TLS", plain, secure, nil, nil, []string{"server.tls: {cert_file: a, key_file: a} added"}},
		{"nor end with it", secure, plain, secure.Server.TLS, nil, []string{"server.tls: {cert_file: a, key_file: a} removed"}},
		{"ACC-5 rules about certificates wait for TLS", plain, verified, nil, nil, []string{
			"server.tls: {cert_file: a, key_file: a} added", "access.verify: own added",
		}},
		{"ACC-5 and stay with it", verified, plain, secure.Server.TLS, nil, []string{
			"server.tls: {cert_file: a, key_file: a} removed", "access.verify: own removed",
		}},
		{"ACC-5 they change while TLS stays", secure, verified, secure.Server.TLS, []string{"access.verify: own added"}, nil},
		{"files have other names", secure, other, other.Server.TLS, []string{"server.tls.cert_file: a → b"}, nil},
	} {
		inForce, changed, waiting := Live(tt.running, tt.wanted)
		if !slices.Equal(lines(changed), tt.changed) || !slices.Equal(lines(waiting), tt.wait) || inForce.Server.TLS != tt.tls {
			t.Errorf("%s: TLS %v, changed %q, waiting %q", tt.name, inForce.Server.TLS, lines(changed), lines(waiting))
		}
	}
}

// The rules of a listener wait with all others while the TLS of one waits: they may be about certificates.
func TestLive_ACC5_listeners(t *testing.T) {
	with := func(secure bool, names ...string) *Config {
		c := Default()
		if secure {
			c.Server.TLS = &ServerTLS{CertFile: "a", KeyFile: "a"}
		}
		l := DefaultListener()
		l.Name, l.Access = "b", new(DefaultListenerAccess())
		for _, name := range names {
			l.Access.Verify = append(l.Access.Verify, VerifyRule{Name: name, Require: "true"})
		}
		c.Server.Listeners = []Listener{l}
		return c
	}
	none := with(false)
	none.Server.Listeners[0].Access = nil
	for _, tt := range []struct {
		running, wanted *Config
		changed, wait   []string
	}{
		{with(false), with(false, "own"), []string{"server.listeners[b].access.verify: own added"}, nil},
		{with(false), with(true, "own"), nil, []string{"server.tls: {cert_file: a, key_file: a} added", "server.listeners[b].access.verify: own added"}},
		{none, with(false), []string{"server.listeners[b].access: {otherwise: allow} added"}, nil},
	} {
		_, changed, waiting := Live(tt.running, tt.wanted)
		if !slices.Equal(lines(changed), tt.changed) || !slices.Equal(lines(waiting), tt.wait) {
			t.Errorf("changed %q, waiting %q, want %q, %q", lines(changed), lines(waiting), tt.changed, tt.wait)
		}
	}
}

// Every key that needs a restart is one.
func TestRestartKeys(t *testing.T) {
	all := leaves(reflect.Value{}, reflect.TypeFor[*Config](), "")
	for _, key := range append(restartKeys(), tlsSection) {
		if !slices.ContainsFunc(all, func(l leaf) bool { return l.path == key || strings.HasPrefix(l.path, key+".") }) {
			t.Errorf("%s is no key", key)
		}
	}
}
