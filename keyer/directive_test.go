package keyer_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/keyer"
)

func TestDirectives(t *testing.T) {
	for _, tc := range []struct {
		name, fragment, alt, entry string
	}{
		{"NAME-6 none", "", "", ""},
		{"NAME-6 entry", "#entry=foo", "", "foo"},
		{"NAME-6 every character of an entry", "#entry=aZ09_-./~:", "", "aZ09_-./~:"},
		{"NAME-6 encoded entry", "#entry=%66oo", "", "foo"},
		{"NAME-6 alt then entry", "#alt=xdstp://b/T/x?k=v,entry=foo", "xdstp://b/T/x?k=v", "foo"},
		{"NAME-6 entry then alt", "#entry=foo,alt=xdstp://b/T/x?k=v", "xdstp://b/T/x?k=v", "foo"},
		{"NAME-6 comma in the alternative", "#alt=xdstp://b/T/x?k=v%2Cw,entry=foo", "xdstp://b/T/x?k=v,w", "foo"},
		{"NAME-6 encoded comma in the alternative", "#alt=xdstp://b/T/x?k=v%252Cw", "xdstp://b/T/x?k=v%2Cw", ""},
		{"NAME-6 directive of the alternative", "#alt=xdstp://b/T/x%23entry=bar,entry=foo", "xdstp://b/T/x#entry=bar", "foo"},
		{"NAME-6 directives of the alternative", "#alt=xdstp://b/T/x%23entry=bar%2Calt=xdstp://c/T/x", "xdstp://b/T/x#entry=bar,alt=xdstp://c/T/x", ""},
		{"LOC-5 alternative of a glob", "#alt=xdstp://b/T/*", "xdstp://b/T/*", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, err := keyer.Parse("xdstp://a/T/x?z=1" + tc.fragment)
			if err != nil {
				t.Fatal(err)
			}
			if n.Alt() != tc.alt || n.Entry() != tc.entry {
				t.Errorf("alt %q, entry %q, want %q, %q", n.Alt(), n.Entry(), tc.alt, tc.entry)
			}
			if want := "xdstp://a/T/x?z=1"; n.Canonical() != want {
				t.Errorf("NAME-8: Canonical() = %q, want %q", n.Canonical(), want)
			}
			if n.IsURN() != (tc.fragment == "") {
				t.Errorf("NAME-2: IsURN() = %v", n.IsURN())
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
		"xdstp:///T/a%2Fb/c?k=%26#entry=foo",
		"xdstp://a/T/x#alt=xdstp://b/T/x%23entry=bar,entry=foo",
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
