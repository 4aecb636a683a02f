package keyer_test

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// locator gives a structured locator with parameters "key", "value", ….
func locator(authority, typ, id string, params ...string) *xdscorev3.ResourceLocator {
	l := &xdscorev3.ResourceLocator{Authority: authority, ResourceType: typ, Id: id}
	if len(params) > 0 {
		exact := &xdscorev3.ContextParams{Params: map[string]string{}}
		for pair := range slices.Chunk(params, 2) {
			exact.Params[pair[0]] = pair[1]
		}
		l.ContextParamSpecifier = &xdscorev3.ResourceLocator_ExactContext{ExactContext: exact}
	}
	return l
}

// withAlt and withEntry add a directive.
func withAlt(l, alt *xdscorev3.ResourceLocator) *xdscorev3.ResourceLocator {
	l.Directives = append(l.Directives, &xdscorev3.ResourceLocator_Directive{Directive: &xdscorev3.ResourceLocator_Directive_Alt{Alt: alt}})
	return l
}

func withEntry(l *xdscorev3.ResourceLocator, entry string) *xdscorev3.ResourceLocator {
	l.Directives = append(l.Directives, &xdscorev3.ResourceLocator_Directive{Directive: &xdscorev3.ResourceLocator_Directive_Entry{Entry: entry}})
	return l
}

func TestLocator(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   *xdscorev3.ResourceLocator
		want string
	}{
		{"LIST-2 TP1 reference", locator("some-authority", "envoy.config.listeners.v3.Listener", "bar"), "xdstp://some-authority/envoy.config.listeners.v3.Listener/bar"},
		{"LIST-2 empty authority", locator("", "T", "x"), "xdstp:///T/x"},
		{"LIST-2 slashes of the id stay", locator("a", "T", "/d//x/"), "xdstp://a/T//d//x/"},
		{"GLOB-1 glob", locator("a", "T", "d/*", "k", "v"), "xdstp://a/T/d/*?k=v"},
		{"NAME-1 components are data", locator("a/b#?%41", "T/U", "x?y#z%41 é\n[1]"), "xdstp://a%2Fb%23%3F%2541/T%2FU/x%3Fy%23z%2541%20%C3%A9%0A%5B1%5D"},
		{"NAME-1 what need not be encoded stays", locator("[::1]:80", "T", "a:b@c;d,e=f&g+h"), "xdstp://[::1]:80/T/a:b@c;d,e=f&g+h"},
		{"NAME-3 context in order", locator("a", "T", "x", "z", "1", "y", "", "x=&", "=&/?#%"), "xdstp://a/T/x?x%3D%26==%26/?%23%25&y=&z=1"},
		{"LIST-4 entry", withEntry(locator("a", "TCollection", "x"), "e/f"), "xdstp://a/TCollection/x#entry=e/f"},
		{"LOC-5 TP1 alternative", withAlt(locator("cloud", "T", "foo"), locator("onprem", "T", "bar")), "xdstp://cloud/T/foo#alt=xdstp://onprem/T/bar"},
		{
			"LOC-5 chain", withAlt(locator("a", "T", "x"), withEntry(withAlt(locator("b", "TCollection", "x,y", "k", "v"), locator("c", "T", "%")), "e")),
			"xdstp://a/T/x#alt=xdstp://b/TCollection/x%2Cy?k=v%23alt=xdstp://c/T/%252525%2Centry=e",
		},
		{
			"NAME-6 order of directives", withAlt(withEntry(locator("a", "TCollection", "x"), "e"), locator("b", "T", "y")),
			"xdstp://a/TCollection/x#alt=xdstp://b/T/y,entry=e",
		},
		{"NAME-7 every key passes on the wire", locator("a", "T", "x", "_k", "v", "xds.foo", "w"), "xdstp://a/T/x?_k=v&xds.foo=w"},
		{"NAME-7 what clients add", locator("a", "T", "x", "xds.resource.vip", "::"), "xdstp://a/T/x?xds.resource.vip=::"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := proto.Clone(tc.in)
			got, err := keyer.Locator(tc.in)
			if err != nil || got != tc.want {
				t.Fatalf("Locator() = %q, %v, want %q", got, err, tc.want)
			}
			if !proto.Equal(before, tc.in) {
				t.Error("the locator was changed")
			}
			if key, err := keyer.ResolvedKey(got); err != nil || key != got {
				t.Errorf("ResolvedKey(%q) = %q, %v, want it unchanged", got, key, err)
			}
		})
	}
}

func TestLocatorRefuses(t *testing.T) {
	chain := func(n int) *xdscorev3.ResourceLocator {
		l := locator("last", "T", "x")
		for range n {
			l = withAlt(locator("a", "T", "x"), l)
		}
		return l
	}
	http := locator("a", "T", "x")
	http.Scheme = xdscorev3.ResourceLocator_HTTP
	unknown := locator("a", "T", "x")
	unknown.Scheme = 7
	empty := locator("a", "T", "x")
	empty.Directives = []*xdscorev3.ResourceLocator_Directive{{}}
	for _, tc := range []struct {
		name   string
		in     *xdscorev3.ResourceLocator
		reason string
		isName bool
	}{
		{"LIST-2 nil", nil, "resource locator: the resource type is missing", false},
		{"LIST-2 no type", locator("a", "", "x"), "resource locator: the resource type is missing", false},
		{"LIST-2 no id", locator("a", "T", ""), "resource locator: the id is missing", false},
		{"LIST-2 other scheme", http, "resource locator: scheme HTTP: only XDSTP can be resolved over xDS", false},
		{"LIST-2 unknown scheme", unknown, "resource locator: scheme 7: only XDSTP", false},
		{"NAME-1 empty key", locator("a", "T", "x", "", "v"), "a context parameter without key", true},
		{"NAME-6 empty directive", empty, "resource locator: directive 1 is neither alt nor entry", false},
		{"NAME-6 alt twice", withAlt(withAlt(locator("a", "T", "x"), locator("b", "T", "x")), locator("c", "T", "x")), "the directive alt= occurs twice", true},
		{"NAME-6 too many directives", withEntry(withEntry(withEntry(locator("a", "TCollection", "x"), "e"), "e"), "e"), "3 directives: alt and entry may be given once each", false},
		{"LIST-4 bad entry", withEntry(locator("a", "TCollection", "x"), "e f"), "an entry is one or more of", true},
		{"LIST-4 empty entry", withEntry(locator("a", "TCollection", "x"), ""), "an entry is one or more of", true},
		{"LIST-4 entry of a single resource", withEntry(locator("a", "T", "x"), "e"), "entry= is for list collections", true},
		{"LOC-5 bad alternative", withAlt(locator("a", "T", "x"), locator("b", "T", "")), "resource locator: its alternative: the id is missing", false},
		{"LOC-5 alternative of another type", withAlt(locator("a", "T", "x"), locator("b", "S", "x")), `a "S" cannot stand for a "T"`, true},
		{"LOC-5 chain too long", chain(9), "more than 8 alternatives in a chain", false},
		{"LOC-5 chain without end", chain(10_000), "more than 8 alternatives in a chain", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := keyer.Locator(tc.in)
			if err == nil || !strings.Contains(err.Error(), tc.reason) {
				t.Fatalf("Locator() = %q, %v, want an error with %q", got, err, tc.reason)
			}
			if _, ok := errors.AsType[*keyer.NameError](err); ok != tc.isName {
				t.Errorf("error %#v, want a *NameError: %v", err, tc.isName)
			}
		})
	}
	if _, err := keyer.Locator(chain(8)); err != nil {
		t.Errorf("LOC-5: 8 alternatives: %v", err)
	}
}

// locatorOf gives the structured form of a name, and whether that says as much
// as the name: a character that may stand in its component as it is, but is
// encoded in the name, makes no difference there.
func locatorOf(t tester, n keyer.Name) (*xdscorev3.ResourceLocator, bool) {
	t.Helper()
	const plain = "-._~!$'()*+,;:@"
	exact := true
	decode := func(s, more string) string {
		decoded, err := url.PathUnescape(s)
		if err != nil {
			t.Fatalf("NAME-1: %q: %v", s, err)
		}
		exact = exact && s == encode(decoded, func(c byte) bool {
			return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte(plain+more, c) >= 0
		})
		return decoded
	}
	l := locator(decode(n.Authority, "&=[]"), decode(n.Type, "&="), decode(n.ID, "&=/"))
	if q := query(n); q != "" {
		params := map[string]string{}
		for param := range strings.SplitSeq(q, "&") {
			key, value, _ := strings.Cut(param, "=")
			params[decode(key, "/?")] = decode(value, "=/?")
		}
		exact = exact && len(params) == strings.Count(q, "&")+1
		l.ContextParamSpecifier = &xdscorev3.ResourceLocator_ExactContext{ExactContext: &xdscorev3.ContextParams{Params: params}}
	}
	if n.Alt() != "" {
		alt, err := keyer.Parse(n.Alt())
		if err != nil {
			t.Fatalf("LOC-5: %v", err)
		}
		structured, same := locatorOf(t, alt)
		l, exact = withAlt(l, structured), exact && same
	}
	if n.Entry() != "" {
		l = withEntry(l, n.Entry())
	}
	return l, exact
}

// checkLocatorHolds checks that a name survives its structured form (LIST-2).
func checkLocatorHolds(t tester, n keyer.Name) {
	t.Helper()
	l, exact := locatorOf(t, n)
	got, err := keyer.Locator(l)
	if exact && (err != nil || got != n.Resolved()) {
		t.Fatalf("LIST-2: Locator(%v) = %q, %v, want %q", l, got, err, n.Resolved())
	}
	if err != nil {
		return // an encoded asterisk became a glob, or an encoded character a second key of the kind
	}
	again, err := keyer.Parse(got)
	if err != nil || again.Resolved() != got {
		t.Fatalf("LIST-2: Locator(%v) = %q, which is %q, %v", l, got, again.Resolved(), err)
	}
	if !maps.Equal(maps.Collect(again.Context()), maps.Collect(n.Context())) {
		t.Fatalf("NAME-3: %q has another context than %q", got, n.Resolved())
	}
	if back, _ := locatorOf(t, again); !proto.Equal(back, l) {
		t.Fatalf("LIST-2: %q is %v, want %v", got, back, l)
	}
}

// FuzzLocator holds any locator off the wire to what must be true of its URL.
func FuzzLocator(f *testing.F) {
	for _, l := range []*xdscorev3.ResourceLocator{
		{}, locator("a", "T", "d/*", "k", "v"),
		withAlt(withEntry(locator("a", "TCollection", "x%"), "e"), withAlt(locator("[b]", "T", "é", "k,", "#"), locator("c", "T", "%2A"))),
	} {
		encoded, err := proto.Marshal(l)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Fuzz(func(t *testing.T, encoded []byte) {
		l := &xdscorev3.ResourceLocator{}
		if proto.Unmarshal(encoded, l) != nil {
			return
		}
		name, err := keyer.Locator(l)
		if err != nil {
			_ = err.Error()
			return
		}
		n, err := keyer.Parse(name)
		if err != nil || n.Resolved() != name {
			t.Fatalf("LIST-2: Locator(%v) = %q, which is %q, %v", l, name, n.Resolved(), err)
		}
		checkResolvedHolds(t, n)
		checkLocatorHolds(t, n)
	})
}
