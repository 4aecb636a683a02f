package keyer_test

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/keyer"
)

func TestKey(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"NAME-2 opaque", "some-cluster", "some-cluster"},
		{"NAME-2 opaque with everything", "a/b?c#d%zz\n", "a/b?c#d%zz\n"},
		{"SUB-1 wildcard", "*", "*"},
		{"NAME-2 empty", "", ""},
		{"NAME-3 canonical already", "xdstp://a/T/x?j=1&k=2", "xdstp://a/T/x?j=1&k=2"},
		{"NAME-3 order of parameters", "xdstp://a/T/x?k=2&j=1", "xdstp://a/T/x?j=1&k=2"},
		{"NAME-3 order is by key, not by text", "xdstp://a/T/x?k1=1&k=2", "xdstp://a/T/x?k=2&k1=1"},
		{"NAME-3 more parameters than fit on the stack", "xdstp://a/T/x?j=&i=&h=&g=&f=&e=&d=&c=&b=&a=", "xdstp://a/T/x?a=&b=&c=&d=&e=&f=&g=&h=&i=&j="},
		{"NAME-1 scheme in capitals", "XDstp://a/T/x", "xdstp://a/T/x"},
		{"NAME-1 case of the authority counts", "xdstp://A/T/x", "xdstp://A/T/x"},
		{"NAME-1 empty value", "xdstp://a/T/x?k=", "xdstp://a/T/x?k="},
		{"NAME-1 value left out", "xdstp://a/T/x?k", "xdstp://a/T/x?k="},
		{"NAME-1 bare question mark", "xdstp://a/T/x?", "xdstp://a/T/x"},
		{"NAME-1 bare hash", "xdstp://a/T/x#", "xdstp://a/T/x"},
		{"NAME-1 bare question mark and hash", "xdstp://a/T/x?#", "xdstp://a/T/x"},
		{"NAME-1 unreserved decoded", "xdstp://%61/%54/%7e%2D%2e%5f%39?%6b=%76", "xdstp://a/T/~-._9?k=v"},
		{"NAME-1 hexadecimal in capitals", "xdstp://%c3%a9/T%2c/a%2fb?k%3d=%26", "xdstp://%C3%A9/T,/a%2Fb?k%3D=%26"},
		{"NAME-1 encoded where needed", "xdstp://é/T\"/a b[1]?k{=\x00", "xdstp://%C3%A9/T%22/a%20b%5B1%5D?k%7B=%00"},
		{"NAME-1 encoded once only", "xdstp://a/T/%2541", "xdstp://a/T/%2541"},
		{"NAME-1 capital and small escapes mixed", "xdstp://a/T/%2F%2f%2F", "xdstp://a/T/%2F%2F%2F"},
		{"NAME-3 decoded where it may stand bare", "xdstp://a%3A1/T%2b/a%3Ab%40%26%3d%2a/x%2A?k%3a=%2C%40%3a", "xdstp://a:1/T+/a:b@&=*/x*?k:=,@:"},
		{"NAME-3 decoded brackets of the authority", "xdstp://%5b::1%5D/T/x%5b", "xdstp://[::1]/T/x%5B"},
		{"NAME-3 what separates stays", "xdstp://a%2f%3F%23%25/T%2F/x%2f%3f%23%25?k%2f%3f%23%25%26%3d=%2f%3f%23%25%26%3d", "xdstp://a%2F%3F%23%25/T%2F/x%2F%3F%23%25?k%2F%3F%23%25%26%3D=%2F%3F%23%25%26%3D"},
		{"NAME-3 GLOB-1 a last segment that is called like a glob", "xdstp://a/T/%2A/%2a", "xdstp://a/T/*/%2A"},
		{"NAME-3 GLOB-1 right below the type", "xdstp://a/T/%2a?k=%2a", "xdstp://a/T/%2A?k=*"},
		{"NAME-3 order is that of decoded keys", "xdstp://a/T/x?b=1&%61=2&%3A=3", "xdstp://a/T/x?:=3&a=2&b=1"},
		{"NAME-8 directives dropped", "xdstp://a/TCollection/x?j=1#entry=e", "xdstp://a/TCollection/x?j=1"},
		{"NAME-8 directives dropped from a glob", "xdstp://a/T/*#alt=xdstp://b/T/*", "xdstp://a/T/*"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := keyer.Key(tc.in)
			if err != nil || got != tc.want {
				t.Fatalf("Key(%q) = %q, %v, want %q", tc.in, got, err, tc.want)
			}
			if again, err := keyer.Key(got); err != nil || again != got {
				t.Errorf("Key(%q) = %q, %v, want it unchanged", got, again, err)
			}
		})
	}
}

func TestTypeOf(t *testing.T) {
	for key, want := range map[string]string{
		"xdstp://a/p.T/x": "p.T", "xdstp:///p.TCollection/d/*?k=/v": "p.TCollection", "xdstp://a/T%2Fx/y#alt=xdstp://b/T%252Fx/y": "T%2Fx",
		"opaque": "", "a/b/c": "", "*": "", "": "",
	} {
		t.Run("NAME-5 "+key, func(t *testing.T) {
			if got := keyer.TypeOf(key); got != want {
				t.Errorf("TypeOf(%q) = %q, want %q", key, got, want)
			}
		})
	}
}

// NAME-3: names that differ in a component are different resources, however
// alike they look.
func TestKeysStayApart(t *testing.T) {
	names := []string{
		"xdstp://a/T/x", "xdstp://A/T/x", "xdstp:///T/x", "xdstp://a/t/x", "xdstp://a/T/X",
		"xdstp://a/TCollection/x", // LIST-1
		"xdstp://a/T/x/", "xdstp://a/T//x", "xdstp://a/T/./x", "xdstp://a/T/y/../x",
		"xdstp://a/T/x/y", "xdstp://a/T/x%2Fy", "xdstp://a%2FT/x/y",
		"xdstp://a/T/*", "xdstp://a/T/%2A", // GLOB-1
		"xdstp://a/T/x?k=v", "xdstp://a/T/x%3Fk=v", "xdstp://a/T/x?k=", "xdstp://a/T/x?k=v&l=w",
		"xdstp://a/T/x?k=v%26l=w", "xdstp://a/T/x?k%3Dv=", "xdstp://a/T/x?k=%3Dv", "xdstp://a/T/x?k==v",
		"xdstp://a/T/x%23entry=e", "xdstp://a/T/x%253Fk=v",
	}
	seen := map[string]string{}
	for _, name := range names {
		key, err := keyer.Key(name)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[key]; ok {
			t.Errorf("NAME-3: %q and %q share the key %q", name, other, key)
		}
		seen[key] = name
	}
}

// The names of the hot paths, and how much memory each may cost.
const (
	opaqueName    = "outbound|8080||reviews.default.svc.cluster.local"
	canonicalURN  = "xdstp://some.control.plane/envoy.config.endpoint.v3.ClusterLoadAssignment/some/longer/path/foo-%2F?direction=inbound&shard_id=1234"
	unsortedURN   = "xdstp://some.control.plane/envoy.config.endpoint.v3.ClusterLoadAssignment/some/longer/path/foo-%2F?shard_id=1234&direction=inbound"
	canonicalGlob = "xdstp://some.control.plane/envoy.config.endpoint.v3.ClusterLoadAssignment/some/longer/path/*?direction=inbound&shard_id=1234"
	globAlt       = "#alt=xdstp://b/envoy.config.endpoint.v3.ClusterLoadAssignment/e/*?k=v%23alt=xdstp://c/envoy.config.endpoint.v3.ClusterLoadAssignment/*"
	resolvedURN   = canonicalURN + "#alt=xdstp://b/envoy.config.endpoint.v3.ClusterLoadAssignment/x"
	resolvedGlob  = canonicalGlob + globAlt
	// resolvedMember is what canonicalURN is as a member of resolvedGlob.
	resolvedMember = canonicalURN + globAlt
	unsortedGlob   = "xdstp://some.control.plane/envoy.config.endpoint.v3.ClusterLoadAssignment/some/longer/path/*?shard_id=1234&direction=inbound"
)

func TestAllocations(t *testing.T) {
	for _, tc := range []struct {
		name string
		want float64
		run  func()
	}{
		{"NAME-2 Key of an opaque name", 0, func() { _, _ = keyer.Key(opaqueName) }},
		{"NAME-3 Key of a canonical name", 0, func() { _, _ = keyer.Key(canonicalURN) }},
		{"NAME-8 Key of a canonical name with directives", 0, func() { _, _ = keyer.Key(resolvedURN) }},
		{"LOC-5 ResolvedKey of a canonical name", 0, func() { _, _ = keyer.ResolvedKey(canonicalURN) }},
		{"LOC-5 ResolvedKey of a name with directives", 1, func() { _, _ = keyer.ResolvedKey(resolvedURN) }},
		{"NAME-3 Key of another spelling", 2, func() { _, _ = keyer.Key(unsortedURN) }},
		{"NAME-1 Parse of a canonical name", 0, func() { _, _ = keyer.Parse(canonicalURN) }},
		{"GLOB-1 GlobOf an opaque name", 0, func() { keyer.GlobOf(opaqueName) }},
		{"GLOB-1 GlobOf a member", 1, func() { keyer.GlobOf(canonicalURN) }},
		{"GLOB-1 IsGlob", 0, func() { keyer.IsGlob(canonicalGlob) }},
		{"GLOB-1 GlobOf a member of a glob with directives", 1, func() { keyer.GlobOf(resolvedMember) }},
		{"GLOB-1 GlobOf a single resource with directives", 0, func() { keyer.GlobOf(resolvedURN) }},
		{"GLOB-1 MemberOf the same glob", 0, func() { keyer.MemberOf(canonicalGlob, canonicalURN) }},
		{"LOC-5 MemberOf a glob with directives", 1, func() { keyer.MemberOf(resolvedGlob, canonicalURN) }},
		{"LOC-5 Respell a member of a glob with directives", 0, func() { keyer.Respell(canonicalGlob, resolvedMember) }},
		{"NAME-4 Respell to the canonical form", 0, func() { keyer.Respell(canonicalGlob, canonicalURN) }},
		{"NAME-4 Respell to another form", 1, func() { keyer.Respell(unsortedGlob, canonicalURN) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := testing.AllocsPerRun(100, tc.run); got > tc.want {
				t.Errorf("%v allocations, want at most %v", got, tc.want)
			}
		})
	}
}

func BenchmarkKey(b *testing.B) {
	for _, bc := range []struct{ name, in string }{
		{"opaque", opaqueName},
		{"canonical", canonicalURN},
		{"unsorted", unsortedURN},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = keyer.Key(bc.in)
			}
		})
	}
}

func BenchmarkGlobOf(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		keyer.GlobOf(canonicalURN)
	}
}

func BenchmarkRespell(b *testing.B) {
	for _, bc := range []struct{ name, glob string }{
		{"canonical", canonicalGlob},
		{"unsorted", unsortedGlob},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				keyer.Respell(bc.glob, canonicalURN)
			}
		})
	}
}
