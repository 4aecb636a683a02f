package keyer_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/keyer"
)

func TestDirectives(t *testing.T) {
	for _, tc := range []struct {
		name, typ, fragment, alt, entry string
	}{
		{"NAME-6 none", "T", "", "", ""},
		{"NAME-6 entry", "TCollection", "#entry=foo", "", "foo"},
		{"NAME-6 every character of an entry", "TCollection", "#entry=aZ09_-./~:", "", "aZ09_-./~:"},
		{"NAME-6 encoded entry", "TCollection", "#entry=%66oo", "", "foo"},
		{"NAME-6 alt then entry", "TCollection", "#alt=xdstp://b/T/x?k=v,entry=foo", "xdstp://b/T/x?k=v", "foo"},
		{"NAME-6 entry then alt", "TCollection", "#entry=foo,alt=xdstp://b/T/x?k=v", "xdstp://b/T/x?k=v", "foo"},
		{"NAME-6 comma in the alternative", "TCollection", "#alt=xdstp://b/T/x?k=v%2Cw,entry=foo", "xdstp://b/T/x?k=v,w", "foo"},
		{"NAME-3 NAME-6 encoded comma in the alternative", "T", "#alt=xdstp://b/T/x?k=v%252Cw", "xdstp://b/T/x?k=v,w", ""},
		{"NAME-3 NAME-6 encoded ampersand in the alternative", "T", "#alt=xdstp://b/T/x?k=v%2526w", "xdstp://b/T/x?k=v%26w", ""},
		{"NAME-6 directive of the alternative", "TCollection", "#alt=xdstp://b/TCollection/x%23entry=bar,entry=foo", "xdstp://b/TCollection/x#entry=bar", "foo"},
		{"NAME-6 directives of the alternative", "T", "#alt=xdstp://b/TCollection/x%23entry=bar%2Calt=xdstp://c/T/x", "xdstp://b/TCollection/x#alt=xdstp://c/T/x,entry=bar", ""},
		{"NAME-6 spelling of the alternative", "T", "#alt=XDSTP://%2562/T/x?z=1%26y=", "xdstp://b/T/x?y=&z=1", ""},
		{"LOC-5 directory for a directory", "TCollection", "#alt=xdstp://b/TCollection/x", "xdstp://b/TCollection/x", ""},
		{"LOC-5 LIST-4 entry of a directory for a single resource", "T", "#alt=xdstp://b/TCollection/x%23entry=e", "xdstp://b/TCollection/x#entry=e", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, err := keyer.Parse("xdstp://a/" + tc.typ + "/x?z=1" + tc.fragment)
			if err != nil {
				t.Fatal(err)
			}
			if n.Alt() != tc.alt || n.Entry() != tc.entry {
				t.Errorf("alt %q, entry %q, want %q, %q", n.Alt(), n.Entry(), tc.alt, tc.entry)
			}
			if want := "xdstp://a/" + tc.typ + "/x?z=1"; n.Canonical() != want {
				t.Errorf("NAME-8: Canonical() = %q, want %q", n.Canonical(), want)
			}
			if n.IsURN() != (tc.fragment == "") {
				t.Errorf("NAME-2: IsURN() = %v", n.IsURN())
			}
			if n.ResourceType() != "T" && n.ResourceType() != tc.typ || tc.entry != "" && n.ResourceType() != "T" {
				t.Errorf("LIST-4: ResourceType() = %q", n.ResourceType())
			}
			if n.Alt() == "" {
				return
			}
			if _, err := keyer.Parse(n.Alt()); err != nil {
				t.Errorf("LOC-5: the alternative cannot be parsed: %v", err)
			}
		})
	}
}

// NAME-6, LOC-5, LIST-4: directives that cannot mean anything are refused when
// the name is read, with the place.
func TestDirectivesRefused(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		offset   int
		reason   string
	}{
		{"LIST-4 entry of a single resource", "xdstp://a/T/x#entry=e", 14, `entry= is for list collections, whose type ends in "Collection": its type is "T"`},
		{"LIST-4 entry of a type that is only called Collection", "xdstp://a/Collection/x#entry=e", 23, "entry= is for list collections"},
		{"LIST-4 entry of a message that is only called Collection", "xdstp://a/p.Collection/x#entry=e", 25, "entry= is for list collections"},
		{"LIST-4 entry of a glob", "xdstp://a/TCollection/d/*#entry=e", 26, "entry= is for one list collection, not for a glob"},
		{"LIST-4 entry of a glob behind its alternative", "xdstp://a/TCollection/*#alt=xdstp://b/TCollection/*,entry=e", 52, "not for a glob"},
		{"LIST-4 entry in the alternative", "xdstp://a/T/x#alt=xdstp://b/T/x%23entry=e", 18, "its alternative: entry= is for list collections"},
		{"LOC-5 GLOB-1 single resource for a glob", "xdstp://a/T/*#alt=xdstp://b/T/x", 18, "its alternative: the alternative of a glob must be a glob"},
		{"LOC-5 GLOB-1 literal asterisk for a glob", "xdstp://a/T/*#alt=xdstp://b/T/%252A", 18, "its alternative: the alternative of a glob must be a glob"},
		{"LOC-5 GLOB-1 glob for a single resource", "xdstp://a/T/x#alt=xdstp://b/T/*", 18, "its alternative: a glob cannot stand for a single resource"},
		{"LOC-5 other type", "xdstp://a/T/x#alt=xdstp://b/S/x", 18, `its alternative: a "S" cannot stand for a "T"`},
		{"LOC-5 LIST-1 directory for a single resource", "xdstp://a/T/x#alt=xdstp://b/TCollection/x", 18, `its alternative: a "TCollection" cannot stand for a "T"`},
		{"LOC-5 LIST-1 single resource for a directory", "xdstp://a/TCollection/x#alt=xdstp://b/T/x", 28, `its alternative: a "T" cannot stand for a "TCollection"`},
		{"LOC-5 LIST-1 entry for a directory", "xdstp://a/TCollection/x#alt=xdstp://b/TCollection/x%23entry=e", 28, `its alternative: a "T" cannot stand for a "TCollection"`},
		{"LOC-5 LIST-4 directory for an entry", "xdstp://a/TCollection/x#alt=xdstp://b/TCollection/x,entry=e", 28, `its alternative: a "TCollection" cannot stand for a "T"`},
		{"LOC-5 LIST-4 entry of another type for an entry", "xdstp://a/TCollection/x#alt=xdstp://b/SCollection/x%23entry=e,entry=e", 28, `its alternative: a "S" cannot stand for a "T"`},
		{"LOC-5 further down the chain", "xdstp://a/T/x#alt=xdstp://b/T/x%23alt=xdstp://c/S/x", 18, `its alternative: its alternative: a "S" cannot stand for a "T"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := keyer.Parse(tc.in)
			wantNameError(t, err, tc.in, tc.offset, tc.reason)
		})
	}
}

func TestResolved(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"NAME-3 no directives", "xdstp://a/T/x?k=2&j=1", "xdstp://a/T/x?j=1&k=2"},
		{"NAME-3 bare hash", "xdstp://a/T/x#", "xdstp://a/T/x"},
		{"LIST-4 entry", "XDSTP://a/TCollection/x#entry=%65", "xdstp://a/TCollection/x#entry=e"},
		{"LOC-5 alternative", "xdstp://a/T/%78#alt=XDSTP://b/T/x?k=2%26j=1", "xdstp://a/T/x#alt=xdstp://b/T/x?j=1&k=2"},
		{"LOC-5 everything encoded", "xdstp://a/T/x#alt=%78dstp%3A%2F%2Fb%2fT%2Fx%3Fk%3Dv", "xdstp://a/T/x#alt=xdstp://b/T/x?k=v"},
		{"LOC-5 comma, brackets and escapes of the alternative", "xdstp://a/T/x#alt=xdstp://[b]/T/x%2C%252f%252C", "xdstp://a/T/x#alt=xdstp://%5Bb%5D/T/x%2C%252F%2C"},
		{"NAME-6 order of directives", "xdstp://a/TCollection/x#entry=e,alt=xdstp://b/T/x", "xdstp://a/TCollection/x#alt=xdstp://b/T/x,entry=e"},
		{
			"LOC-5 chain", "xdstp://a/T/x#alt=xdstp://b/TCollection/x?k%23entry=e%2Calt=xdstp://c/T/%252578",
			"xdstp://a/T/x#alt=xdstp://b/TCollection/x?k=%23alt=xdstp://c/T/x%2Centry=e",
		},
		{"LOC-5 GLOB-1 globs", "xdstp://a/T/*#alt=xdstp://b/T/d/*?k", "xdstp://a/T/*#alt=xdstp://b/T/d/*?k="},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, err := keyer.Parse(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if got := n.Resolved(); got != tc.want {
				t.Fatalf("Resolved() of %q is %q, want %q", tc.in, got, tc.want)
			}
			again, err := keyer.Parse(tc.want)
			if err != nil || again.Resolved() != tc.want || again != n {
				t.Errorf("Parse(%q) = %+v, %v, want %+v", tc.want, again, err, n)
			}
			if key, err := keyer.ResolvedKey(tc.in); err != nil || key != tc.want {
				t.Errorf("ResolvedKey(%q) = %q, %v, want %q", tc.in, key, err, tc.want)
			}
		})
	}
}

// LOC-5: what is to be had elsewhere has a key of its own for each elsewhere.
func TestResolvedKeysStayApart(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{
		"opaque", "xdstp://a/T/x", "xdstp://a/TCollection/x",
		"xdstp://a/T/x#alt=xdstp://b/T/x", "xdstp://a/T/x#alt=xdstp://c/T/x", "xdstp://a/T/x#alt=xdstp://b/T/x%2Centry=e",
		"xdstp://a/TCollection/x#entry=e", "xdstp://a/TCollection/x#entry=f", "xdstp://a/TCollection/x#entry=e,alt=xdstp://b/T/x",
		"xdstp://a/TCollection/x#entry=e,alt=xdstp://b/TCollection/x%23entry=e",
		"xdstp://a/T/x#alt=xdstp://b/TCollection/x%23entry=e",
		"xdstp://a/T/x#alt=xdstp://b/T/x%23alt=xdstp://c/T/x",
	} {
		key, err := keyer.ResolvedKey(name)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[key]; ok {
			t.Errorf("LOC-5: %q and %q share the key %q", name, other, key)
		}
		seen[key] = name
	}
}

func TestAlternatives(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     []string
	}{
		{"LOC-5 none", "xdstp://a/T/x?k", []string{"xdstp://a/T/x?k="}},
		{"LOC-5 one", "xdstp://a/T/x#alt=xdstp://b/T/y", []string{"xdstp://a/T/x", "xdstp://b/T/y"}},
		{
			"LOC-5 chain", "xdstp://a/T/x#alt=xdstp://b/T/y%23alt=xdstp://c/T/z%2523alt=xdstp://d/T/u",
			[]string{"xdstp://a/T/x", "xdstp://b/T/y", "xdstp://c/T/z", "xdstp://d/T/u"},
		},
		{
			"LOC-5 LIST-4 each with its own entry", "xdstp://a/TCollection/x#entry=e,alt=xdstp://b/TCollection/y%23entry=f%2Calt=xdstp://c/T/z",
			[]string{"xdstp://a/TCollection/x#entry=e", "xdstp://b/TCollection/y#entry=f", "xdstp://c/T/z"},
		},
		{"LOC-5 GLOB-1 globs", "xdstp://a/T/*#alt=xdstp://b/T/*", []string{"xdstp://a/T/*", "xdstp://b/T/*"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, err := keyer.Parse(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for alternative := range n.Alternatives() {
				got = append(got, alternative.Resolved())
				if want, err := keyer.Parse(alternative.Resolved()); err != nil || want != alternative {
					t.Errorf("LOC-5: alternative %+v, parsed by itself: %+v, %v", alternative, want, err)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("Alternatives() of %q are %q, want %q", tc.in, got, tc.want)
			}
			for first := range n.Alternatives() {
				if first.Resolved() != tc.want[0] {
					t.Errorf("first alternative %q, want %q", first.Resolved(), tc.want[0])
				}
				break
			}
		})
	}
}

func TestMemberType(t *testing.T) {
	for in, want := range map[string]string{
		"p.TCollection": "p.T", "type.googleapis.com/p.TCollection": "type.googleapis.com/p.T", "TCollectionCollection": "TCollection",
		"p.T": "", "Collection": "", "p.Collection": "", "type.googleapis.com/Collection": "", "": "", "p.TCollections": "",
	} {
		t.Run("LIST-1 "+in, func(t *testing.T) {
			if got, ok := keyer.MemberType(in); got != want || ok != (want != "") {
				t.Errorf("MemberType(%q) = %q, %v, want %q", in, got, ok, want)
			}
		})
	}
}

// NAME-6: alternatives of alternatives are read, but not without end.
func TestAlternativesAreBounded(t *testing.T) {
	chain := func(n int) string {
		name := "xdstp://last/T/x"
		for range n {
			name = "xdstp://a/T/x#alt=" + strings.NewReplacer("%", "%25", "#", "%23", ",", "%2C").Replace(name)
		}
		return name
	}
	if _, err := keyer.Parse(chain(8)); err != nil {
		t.Errorf("8 alternatives: %v", err)
	}
	_, err := keyer.Parse(chain(9))
	if err == nil || !strings.Contains(err.Error(), "more than 8 alternatives") {
		t.Errorf("9 alternatives: error %v", err)
	}
}

// NAME-1, NAME-6: what is parsed is a URI to everybody else, too.
func TestAgreesWithNetURL(t *testing.T) {
	for _, name := range []string{
		"xdstp://some.control.plane/envoy.config.route.v3.RouteConfiguration/foo/bar?shard_id=1234&direction=inbound",
		"xdstp:///TCollection/a%2Fb/c?k=%26#entry=foo",
		"xdstp://a/TCollection/x#alt=xdstp://b/TCollection/x%23entry=bar,entry=foo",
	} {
		u, err := url.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		n, err := keyer.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		if n.Authority != u.Host || "/"+n.Type+"/"+n.ID != u.EscapedPath() {
			t.Errorf("Parse(%q) = %q, %q, %q; net/url: %q, %q", name, n.Authority, n.Type, n.ID, u.Host, u.EscapedPath())
		}
		for key, value := range n.Context() {
			if got := u.Query().Get(key); got != value {
				t.Errorf("context %q of %q is %q, net/url: %q", key, name, value, got)
			}
		}
	}
}
