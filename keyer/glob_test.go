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
			if key, err := keyer.Key(tc.glob); err != nil || key != tc.glob {
				t.Errorf("Key(%q) = %q, %v, want it unchanged", tc.glob, key, err)
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
