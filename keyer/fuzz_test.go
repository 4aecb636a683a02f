package keyer_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// FuzzName holds everything to what must be true of any name at all.
func FuzzName(f *testing.F) {
	for _, name := range []string{
		"", "*", "opaque", "xdstp:", "xdstp:///T/x", "XDSTP://A/T/%7e%2f%2A?b=1&a=%3D&c",
		"xdstp://some.control.plane/envoy.config.route.v3.RouteConfiguration/foo/bar?shard_id=1234&direction=inbound",
		"xdstp://some-authority/envoy.config.listener.v3.Listener/foo/*?some=thing",
		"xdstp://a/TCollection//?xds.resource.vip=96.54.3.1#entry=foo,alt=xdstp://b/TCollection/x?k=v%2Cw%23entry=e",
		"xdstp://a/T/d/*#alt=xdstp://b/T/*?k=v%23alt=xdstp://%5b::1]/T/%252c/*",
		"xdstp://[::1]:80/T/é \"?k=%zz",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		key, err := keyer.Key(name)
		if !keyer.IsXDSTP(name) {
			if err != nil || key != name {
				t.Fatalf("NAME-2: Key(%q) = %q, %v, want it unchanged", name, key, err)
			}
			return
		}
		n, parseErr := keyer.Parse(name)
		if (err == nil) != (parseErr == nil) {
			t.Fatalf("Key(%q): %v, Parse: %v", name, err, parseErr)
		}
		if err != nil {
			_ = err.Error()
			keyer.GlobOf(name)
			keyer.IsGlob(name)
			keyer.Respell(name, name)
			return
		}
		if n.Canonical() != key {
			t.Fatalf("Key(%q) = %q, canonical form %q", name, key, n.Canonical())
		}
		checkKeyHolds(t, key)

		// NAME-3: the order of context parameters does not matter.
		head, _, _ := strings.Cut(name, "#")
		if path, query, ok := strings.Cut(head, "?"); ok {
			params := strings.Split(query, "&")
			slices.Reverse(params)
			turned := path + "?" + strings.Join(params, "&")
			if got, err := keyer.Key(turned); err != nil || got != key {
				t.Fatalf("NAME-3: Key(%q) = %q, %v, want that of %q, %q", turned, got, err, name, key)
			}
		}
		if n.Alt() != "" {
			if _, err := keyer.Parse(n.Alt()); err != nil {
				t.Fatalf("LOC-5: alternative of %q: %v", name, err)
			}
		}
		checkResolvedHolds(t, n)
		checkLocatorHolds(t, n)
		if err := keyer.CheckConfigured(name); (err == nil) != (keyer.CheckConfigured(n.Resolved()) == nil) {
			t.Fatalf("NAME-7: CheckConfigured(%q): %v, and of its resolved form otherwise", name, err)
		}
	})
}

// FuzzRespell checks that a client gets members in a spelling of its own that
// means the same (NAME-4).
func FuzzRespell(f *testing.F) {
	f.Add("xdstp://a/T/d/*?y=1&x=2", "foo")
	f.Add("XDSTP:///T/*?#alt=xdstp://b/T/d/*?k=/%2523", "%2A")
	f.Add("xdstp://a/%54//*?k=/*", "")
	f.Add("*", "*")
	f.Fuzz(func(t *testing.T, glob, segment string) {
		globKey, err := keyer.Key(glob)
		if err != nil || !keyer.IsGlob(globKey) || strings.ContainsAny(segment, "/?#") {
			return
		}
		path, query, hasQuery := strings.Cut(globKey, "?")
		if hasQuery {
			query = "?" + query
		}
		member, err := keyer.Key(strings.TrimSuffix(path, "*") + segment + query)
		if err != nil || keyer.IsGlob(member) {
			return
		}
		if got := keyer.GlobOf(member); got != globKey {
			t.Fatalf("GLOB-1: GlobOf(%q) = %q, want %q", member, got, globKey)
		}
		n, err := keyer.Parse(glob)
		if err != nil {
			t.Fatal(err)
		}
		checkMember(t, glob, n.Resolved(), member)
		if got, err := keyer.Key(keyer.Respell(glob, member)); err != nil || got != member {
			t.Fatalf("NAME-4: Respell(%q, %q) has the key %q, %v", glob, member, got, err)
		}
	})
}

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	Helper()
	Fatalf(string, ...any)
}

// checkResolvedHolds checks what must be true of the resolved form of any name
// (LOC-5).
func checkResolvedHolds(t tester, n keyer.Name) {
	t.Helper()
	resolved := n.Resolved()
	again, err := keyer.Parse(resolved)
	if err != nil || again != n || again.Resolved() != resolved {
		t.Fatalf("LOC-5: %q parsed is %+v, %v, want %+v", resolved, again, err, n)
	}
	if key, err := keyer.ResolvedKey(resolved); err != nil || key != resolved {
		t.Fatalf("LOC-5: ResolvedKey(%q) = %q, %v, want it unchanged", resolved, key, err)
	}
	if key, err := keyer.Key(resolved); err != nil || key != n.Canonical() {
		t.Fatalf("NAME-8: Key(%q) = %q, %v, want %q", resolved, key, err, n.Canonical())
	}
	if keyer.IsGlob(resolved) != n.IsGlob() {
		t.Fatalf("GLOB-1: IsGlob(%q) = %v", resolved, keyer.IsGlob(resolved))
	}
	// Nothing but the name of a single resource without directives is in a glob.
	if glob := keyer.GlobOf(resolved); (glob != "") != n.IsURN() {
		t.Fatalf("GLOB-1: GlobOf(%q) = %q", resolved, glob)
	}
	for alternative := range n.Alternatives() {
		if alternative.Alt() != "" || alternative.IsGlob() != n.IsGlob() || alternative.ResourceType() != n.ResourceType() {
			t.Fatalf("LOC-5: %q cannot stand for %q", alternative.Resolved(), resolved)
		}
	}
	if n.IsGlob() {
		dir, rest := n.Canonical(), ""
		if i := strings.IndexByte(dir, '?'); i >= 0 {
			dir, rest = dir[:i], dir[i:]
		}
		checkMember(t, resolved, resolved, strings.TrimSuffix(dir, "*")+"x%23"+rest)
	}
}

// query gives the query of a name in its canonical form.
func query(n keyer.Name) string {
	_, query, _ := strings.Cut(n.Canonical(), "?")
	return query
}

// checkMember checks what must be true of the member of a glob that has the key
// urn without the glob's directives (GLOB-1, LOC-5).
func checkMember(t tester, spelling, glob, urn string) {
	t.Helper()
	member := keyer.MemberOf(glob, urn)
	if got := keyer.GlobOf(member); got != glob {
		t.Fatalf("GLOB-1: GlobOf(%q) = %q, want %q", member, got, glob)
	}
	if keyer.IsGlob(member) {
		t.Fatalf("GLOB-1: IsGlob(%q)", member)
	}
	if got, err := keyer.ResolvedKey(member); err != nil || got != member {
		t.Fatalf("LOC-5: ResolvedKey(%q) = %q, %v, want it unchanged", member, got, err)
	}
	respelled := keyer.Respell(spelling, member)
	if got, err := keyer.Key(respelled); err != nil || got != urn || strings.Contains(respelled, "#") {
		t.Fatalf("NAME-4: Respell(%q, %q) = %q with the key %q, %v", spelling, member, respelled, got, err)
	}
}

// checkKeyHolds checks what must be true of the key of any xdstp name.
func checkKeyHolds(t tester, key string) {
	t.Helper()
	n, err := keyer.Parse(key)
	if err != nil || n.Canonical() != key {
		t.Fatalf("NAME-3: the canonical form of the key %q is %q, %v", key, n.Canonical(), err)
	}
	if n.Alt() != "" || n.Entry() != "" || strings.Contains(key, "#") {
		t.Fatalf("NAME-8: the key %q has directives", key)
	}
	if n.IsGlob() != keyer.IsGlob(key) || n.IsURN() == n.IsGlob() {
		t.Fatalf("GLOB-1: IsGlob(%q) = %v, Name.IsGlob() = %v, IsURN() = %v", key, keyer.IsGlob(key), n.IsGlob(), n.IsURN())
	}
	for _, c := range []byte(key) {
		if c <= ' ' || c > '~' || strings.IndexByte("\"<>\\^`{|}", c) >= 0 {
			t.Fatalf("NAME-1: the key %q holds %q, which a URI cannot", key, c)
		}
	}
	if rebuilt := "xdstp://" + n.Authority + "/" + n.Type + "/" + n.ID; !strings.HasPrefix(key, rebuilt) {
		t.Fatalf("NAME-1: components %q of the key %q", rebuilt, key)
	}

	glob := keyer.GlobOf(key)
	if n.IsGlob() {
		if glob != "" {
			t.Fatalf("GLOB-1: GlobOf(%q) = %q, want none for a glob", key, glob)
		}
		return
	}
	g, err := keyer.Parse(glob)
	if err != nil || g.Canonical() != glob || !g.IsGlob() || !keyer.IsGlob(glob) {
		t.Fatalf("GLOB-1: GlobOf(%q) = %q, %v, want a canonical glob", key, glob, err)
	}
	if g.Authority != n.Authority || g.Type != n.Type || !maps.Equal(maps.Collect(g.Context()), maps.Collect(n.Context())) {
		t.Fatalf("GLOB-3: %q and its glob %q differ in more than the id", key, glob)
	}
	if got := keyer.Respell(glob, key); got != key {
		t.Fatalf("NAME-4: Respell(%q, %q) = %q", glob, key, got)
	}
}
