package keyer_test

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/keyer"
)

func TestGlobOf(t *testing.T) {
	for _, tc := range []struct {
		name, key, glob string
		isGlob          bool
	}{
		{"GLOB-1 TP1 member", "xdstp://some-authority/envoy.config.listener.v3.Listener/foo/bar", "xdstp://some-authority/envoy.config.listener.v3.Listener/foo/*", false},
		{"GLOB-1 TP1 deep member", "xdstp://some-authority/envoy.config.listener.v3.Listener/some/longer/path/x", "xdstp://some-authority/envoy.config.listener.v3.Listener/some/longer/path/*", false},
		{"GLOB-3 TP1 member with context", "xdstp://some-authority/envoy.config.listener.v3.Listener/foo/bar?some=thing", "xdstp://some-authority/envoy.config.listener.v3.Listener/foo/*?some=thing", false},
		{"GLOB-1 single segment", "xdstp://a/T/foo", "xdstp://a/T/*", false},
		{"GLOB-1 empty authority", "xdstp:///T/foo", "xdstp:///T/*", false},
		{"GLOB-1 empty last segment", "xdstp://a/T/foo/", "xdstp://a/T/foo/*", false},
		{"GLOB-1 literal asterisk is a member", "xdstp://a/T/d/%2A", "xdstp://a/T/d/*", false},
		{"GLOB-1 slashes in the query", "xdstp://a/T/d/x?k=/y/*", "xdstp://a/T/d/*?k=/y/*", false},
		{"LOC-5 member of a glob with an alternative", "xdstp://a/T/d/foo?c=d#alt=xdstp://b/T/e/*?c=/d", "xdstp://a/T/d/*?c=d#alt=xdstp://b/T/e/*?c=/d", false},
		{"LOC-5 member of a glob with a chain", "xdstp://a/T/foo#alt=xdstp://b/T/*%23alt=xdstp://c/T/e/*", "xdstp://a/T/*#alt=xdstp://b/T/*%23alt=xdstp://c/T/e/*", false},
		{"LOC-5 single resource with an alternative", "xdstp://a/T/d/foo#alt=xdstp://b/T/e/foo", "", false},
		{"LOC-5 single resource with an asterisk in its alternative", "xdstp://a/T/d/foo#alt=xdstp://b/T/*/%252A?k=/*", "", false},
		{"LOC-5 single resource with a hash in its alternative", "xdstp://a/T/d/foo#alt=xdstp://b/T/x%2523/*x", "", false},
		{"LIST-4 entry", "xdstp://a/TCollection/d/foo#entry=e/x", "", false},
		{"LIST-4 entry with an alternative", "xdstp://a/TCollection/d/foo#alt=xdstp://b/T/x,entry=e/x", "", false},
		{"LOC-5 glob with an alternative", "xdstp://a/T/d/*?c=d#alt=xdstp://b/T/e/*?c=d", "", true},
		{"GLOB-1 glob", "xdstp://a/T/d/*", "", true},
		{"GLOB-1 glob with context", "xdstp://a/T/*?k=/y", "", true},
		{"GLOB-1 opaque", "a/b/c", "", false},
		{"SUB-1 wildcard is no glob", "*", "", false},
		{"GLOB-1 opaque with an asterisk", "a/*", "", false},
		{"GLOB-1 empty", "", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := keyer.GlobOf(tc.key); got != tc.glob {
				t.Errorf("GlobOf(%q) = %q, want %q", tc.key, got, tc.glob)
			}
			if got := keyer.IsGlob(tc.key); got != tc.isGlob {
				t.Errorf("IsGlob(%q) = %v", tc.key, got)
			}
			if tc.glob == "" {
				return
			}
			if !keyer.IsGlob(tc.glob) {
				t.Errorf("IsGlob(%q) = false", tc.glob)
			}
			if key, err := keyer.ResolvedKey(tc.key); err != nil || key != tc.key {
				t.Errorf("ResolvedKey(%q) = %q, %v, want it unchanged", tc.key, key, err)
			}
			if member := keyer.MemberOf(tc.glob, tc.key); member != tc.key {
				t.Errorf("MemberOf(%q, %q) = %q, want it unchanged", tc.glob, tc.key, member)
			}
			if key, err := keyer.ResolvedKey(tc.glob); err != nil || key != tc.glob {
				t.Errorf("ResolvedKey(%q) = %q, %v, want it unchanged", tc.glob, key, err)
			}
		})
	}
}

func TestRespell(t *testing.T) {
	for _, tc := range []struct{ name, glob, member, want string }{
		{"NAME-4 order of parameters", "xdstp://a/T/d/*?y=1&x=2", "xdstp://a/T/d/foo?x=2&y=1", "xdstp://a/T/d/foo?y=1&x=2"},
		{"NAME-4 canonical", "xdstp://a/T/d/*?x=2", "xdstp://a/T/d/foo?x=2", "xdstp://a/T/d/foo?x=2"},
		{"NAME-4 scheme, authority and directory", "XDSTP://%61/T/%64/*", "xdstp://a/T/d/foo", "XDSTP://%61/T/%64/foo"},
		{"NAME-4 bare question mark", "xdstp://a/T/*?", "xdstp://a/T/foo", "xdstp://a/T/foo?"},
		{"NAME-4 slashes in the query", "xdstp://a/T/*?k=%2F/*", "xdstp://a/T/foo?k=%2F/*", "xdstp://a/T/foo?k=%2F/*"},
		{"NAME-4 NAME-8 directives left out", "xdstp://a/T/%64/*?k=v#alt=xdstp://b/T/*?k=v", "xdstp://a/T/d/foo?k=v", "xdstp://a/T/%64/foo?k=v"},
		{"NAME-4 NAME-8 directives of a canonical glob left out", "xdstp://a/T/d/*#alt=xdstp://b/T/*", "xdstp://a/T/d/foo", "xdstp://a/T/d/foo"},
		{"NAME-4 literal asterisk stays encoded", "xdstp://a/T/%64/*", "xdstp://a/T/d/%2A", "xdstp://a/T/%64/%2A"},
		{"LOC-5 member of the alternative", "xdstp://a/T/d/*", "xdstp://b/T/e/f/foo", "xdstp://a/T/d/foo"},
		{"LOC-5 NAME-8 directives of the member left out", "xdstp://a/T/%64/*?k=v#alt=xdstp://b/T/*", "xdstp://a/T/d/foo?k=v#alt=xdstp://b/T/*", "xdstp://a/T/%64/foo?k=v"},
		{"LOC-5 NAME-8 directives of the canonical member left out", "xdstp://a/T/d/*#alt=xdstp://b/T/*?k=/x", "xdstp://a/T/d/foo#alt=xdstp://b/T/*?k=/x", "xdstp://a/T/d/foo"},
		{"SUB-1 wildcard leaves the member", "*", "foo", "foo"},
		{"NAME-4 opaque member", "xdstp://a/T/*", "foo", "foo"},
		{"NAME-4 not a glob", "xdstp://a/T/x", "xdstp://a/T/foo", "xdstp://a/T/foo"},
		{"NAME-4 member is a glob", "xdstp://a/%54/*", "xdstp://a/T/*", "xdstp://a/T/*"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := keyer.Respell(tc.glob, tc.member); got != tc.want {
				t.Errorf("Respell(%q, %q) = %q, want %q", tc.glob, tc.member, got, tc.want)
			}
		})
	}
}

func TestMemberOf(t *testing.T) {
	for _, tc := range []struct{ name, glob, member, want string }{
		{"GLOB-1 member", "xdstp://a/T/d/*?k=v", "xdstp://a/T/d/foo?k=v", "xdstp://a/T/d/foo?k=v"},
		{"LOC-5 member of the first", "xdstp://a/T/d/*?k=v#alt=xdstp://b/T/e/*", "xdstp://a/T/d/foo?k=v", "xdstp://a/T/d/foo?k=v#alt=xdstp://b/T/e/*"},
		{"LOC-5 member of the alternative", "xdstp://a/T/d/*?k=v#alt=xdstp://b/T/e/*?l=/w", "xdstp://b/T/e/foo?l=/w", "xdstp://a/T/d/foo?k=v#alt=xdstp://b/T/e/*?l=/w"},
		{"LOC-5 member with directives", "xdstp://a/T/*", "xdstp://c/T/foo#alt=xdstp://b/T/*", "xdstp://a/T/foo"},
		{"LOC-5 literal asterisk", "xdstp://a/T/*#alt=xdstp://b/T/*", "xdstp://b/T/%2A", "xdstp://a/T/%2A#alt=xdstp://b/T/*"},
		{"LOC-5 empty segment", "xdstp://a/T/d/*#alt=xdstp://b/T/e/*", "xdstp://b/T/e/", "xdstp://a/T/d/#alt=xdstp://b/T/e/*"},
		{"GLOB-1 not a glob", "xdstp://a/T/x", "xdstp://a/T/foo", ""},
		{"GLOB-1 glob as member", "xdstp://a/T/*", "xdstp://a/T/*", ""},
		{"SUB-1 wildcard", "*", "foo", ""},
		{"GLOB-1 opaque member", "xdstp://a/T/*", "foo", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := keyer.MemberOf(tc.glob, tc.member)
			if got != tc.want {
				t.Fatalf("MemberOf(%q, %q) = %q, want %q", tc.glob, tc.member, got, tc.want)
			}
			if got == "" {
				return
			}
			if glob := keyer.GlobOf(got); glob != tc.glob {
				t.Errorf("GlobOf(%q) = %q, want %q", got, glob, tc.glob)
			}
			if key, err := keyer.ResolvedKey(got); err != nil || key != got {
				t.Errorf("ResolvedKey(%q) = %q, %v, want it unchanged", got, key, err)
			}
		})
	}
}

// The worked relay example of TP1: two clients, two globs, one set of members.
func TestTP1RelayExample(t *testing.T) {
	const dir = "xdstp://some-authority/envoy.config.listeners.v3.Listener/"
	globs := []string{dir + "a-listeners/*", dir + "b-listeners/*"}
	got := map[string][]string{}
	for _, member := range []string{dir + "a-listeners/foo", dir + "a-listeners/bar", dir + "b-listeners/baz"} {
		key, err := keyer.Key(member)
		if err != nil {
			t.Fatal(err)
		}
		got[keyer.GlobOf(key)] = append(got[keyer.GlobOf(key)], key)
	}
	if len(got) != 2 || len(got[globs[0]]) != 2 || len(got[globs[1]]) != 1 {
		t.Errorf("GLOB-1: members by glob %v", got)
	}
}
