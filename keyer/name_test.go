package keyer_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// parts is what a test expects of a parsed name.
type parts struct {
	Canonical, Authority, Type, ID string
	Context                        map[string]string
	Alt, Entry                     string
	Glob, URN                      bool
}

func partsOf(n keyer.Name) parts {
	p := parts{
		Canonical: n.Canonical(), Authority: n.Authority, Type: n.Type, ID: n.ID,
		Alt: n.Alt(), Entry: n.Entry(), Glob: n.IsGlob(), URN: n.IsURN(),
	}
	if context := maps.Collect(n.Context()); len(context) > 0 {
		p.Context = context
	}
	return p
}

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     parts
	}{
		{
			"NAME-1 TP1 full example",
			"xdstp://some.control.plane/envoy.config.route.v3.RouteConfiguration/foo/bar?shard_id=1234&direction=inbound",
			parts{
				Canonical: "xdstp://some.control.plane/envoy.config.route.v3.RouteConfiguration/foo/bar?direction=inbound&shard_id=1234",
				Authority: "some.control.plane", Type: "envoy.config.route.v3.RouteConfiguration", ID: "foo/bar",
				Context: map[string]string{"shard_id": "1234", "direction": "inbound"}, URN: true,
			},
		},
		{
			"NAME-7 TP1 on-demand example",
			"xdstp://some-authority/some.type/foo?bar=baz&xds.resource.vip=96.54.3.1",
			parts{
				Canonical: "xdstp://some-authority/some.type/foo?bar=baz&xds.resource.vip=96.54.3.1",
				Authority: "some-authority", Type: "some.type", ID: "foo",
				Context: map[string]string{"bar": "baz", "xds.resource.vip": "96.54.3.1"}, URN: true,
			},
		},
		{
			"NAME-7 every key passes on the wire", "xdstp://a/T/x?_shard=1&xds.node=v&%2Bk=w&é",
			parts{
				Canonical: "xdstp://a/T/x?%C3%A9=&+k=w&_shard=1&xds.node=v", Authority: "a", Type: "T", ID: "x",
				Context: map[string]string{"_shard": "1", "xds.node": "v", "+k": "w", "é": ""}, URN: true,
			},
		},
		{
			"GLOB-1 TP1 glob example",
			"xdstp://some-authority/envoy.config.listeners.v3.Listener/my-listeners/*?node_type=ingress",
			parts{
				Canonical: "xdstp://some-authority/envoy.config.listeners.v3.Listener/my-listeners/*?node_type=ingress",
				Authority: "some-authority", Type: "envoy.config.listeners.v3.Listener", ID: "my-listeners/*",
				Context: map[string]string{"node_type": "ingress"}, Glob: true,
			},
		},
		{
			"LOC-5 TP1 failover example",
			"xdstp://some-cloud-authority/envoy.config.endpoint.v3.ClusterLoadAssignment/foo#alt=xdstp://some-onprem-authority/envoy.config.endpoint.v3.ClusterLoadAssignment/bar",
			parts{
				Canonical: "xdstp://some-cloud-authority/envoy.config.endpoint.v3.ClusterLoadAssignment/foo",
				Authority: "some-cloud-authority", Type: "envoy.config.endpoint.v3.ClusterLoadAssignment", ID: "foo",
				Alt: "xdstp://some-onprem-authority/envoy.config.endpoint.v3.ClusterLoadAssignment/bar",
			},
		},
		{
			"LIST-1 TP1 entry of a list collection",
			"xdstp://some-authority/envoy.config.listeners.v3.ListenerCollection/foo?some=thing#entry=bar",
			parts{
				Canonical: "xdstp://some-authority/envoy.config.listeners.v3.ListenerCollection/foo?some=thing",
				Authority: "some-authority", Type: "envoy.config.listeners.v3.ListenerCollection", ID: "foo",
				Context: map[string]string{"some": "thing"}, Entry: "bar",
			},
		},
		{
			"NAME-1 empty authority", "xdstp:///T/x",
			parts{Canonical: "xdstp:///T/x", Type: "T", ID: "x", URN: true},
		},
		{
			"NAME-1 authority is opaque", "xdstp://User:Pw@[2001:db8::1]:80/T/x",
			parts{Canonical: "xdstp://User:Pw@[2001:db8::1]:80/T/x", Authority: "User:Pw@[2001:db8::1]:80", Type: "T", ID: "x", URN: true},
		},
		{
			"NAME-1 id is opaque", "xdstp://a/T/./../b//c/",
			parts{Canonical: "xdstp://a/T/./../b//c/", Authority: "a", Type: "T", ID: "./../b//c/", URN: true},
		},
		{
			"NAME-1 id of empty segments", "xdstp://a/T//",
			parts{Canonical: "xdstp://a/T//", Authority: "a", Type: "T", ID: "/", URN: true},
		},
		{
			"NAME-1 literal slashes and question marks in the query", "xdstp://a/T/x?k=/?:@=",
			parts{
				Canonical: "xdstp://a/T/x?k=/?:@=", Authority: "a", Type: "T", ID: "x",
				Context: map[string]string{"k": "/?:@="}, URN: true,
			},
		},
		{
			"NAME-1 plus is a plus", "xdstp://a/T/x?k=a+b",
			parts{Canonical: "xdstp://a/T/x?k=a+b", Authority: "a", Type: "T", ID: "x", Context: map[string]string{"k": "a+b"}, URN: true},
		},
		{
			"NAME-1 context is decoded", "xdstp://a/T/x?%6b%20=%26%3d",
			parts{Canonical: "xdstp://a/T/x?k%20=%26%3D", Authority: "a", Type: "T", ID: "x", Context: map[string]string{"k ": "&="}, URN: true},
		},
		{
			"GLOB-1 glob right below the type", "xdstp://a/T/*",
			parts{Canonical: "xdstp://a/T/*", Authority: "a", Type: "T", ID: "*", Glob: true},
		},
		{
			"GLOB-1 asterisk inside the path is literal", "xdstp://a/T/*/x",
			parts{Canonical: "xdstp://a/T/*/x", Authority: "a", Type: "T", ID: "*/x", URN: true},
		},
		{
			"GLOB-1 asterisk as part of a segment is literal", "xdstp://a/T/d/x*",
			parts{Canonical: "xdstp://a/T/d/x*", Authority: "a", Type: "T", ID: "d/x*", URN: true},
		},
		{
			"GLOB-1 encoded asterisk is literal", "xdstp://a/T/d/%2a",
			parts{Canonical: "xdstp://a/T/d/%2A", Authority: "a", Type: "T", ID: "d/%2A", URN: true},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := keyer.Parse(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, partsOf(got)); diff != "" {
				t.Errorf("Parse(%q) (-want +got):\n%s", tc.in, diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		offset   int
		reason   string
	}{
		{"NAME-1 opaque name", "foo", 0, "begins with"},
		{"NAME-1 empty", "", 0, "begins with"},
		{"NAME-1 other scheme", "http://a/T/x", 0, "begins with"},
		{"NAME-1 no slashes", "xdstp:a/T/x", 0, "begins with"},
		{"NAME-1 one slash", "xdstp:/a/T/x", 0, "begins with"},
		{"NAME-1 nothing", "xdstp://", 8, "type is missing"},
		{"NAME-1 authority only", "xdstp://a", 9, "type is missing"},
		{"NAME-1 empty type", "xdstp://a//x", 10, "type is missing"},
		{"NAME-1 no id", "xdstp://a/T", 11, "id is missing"},
		{"NAME-1 empty id", "xdstp://a/T/", 12, "id is missing"},
		{"NAME-1 empty id before the query", "xdstp://a/T/?k=v", 12, "id is missing"},
		{"NAME-1 query right after the authority", "xdstp://a?k=v", 9, "type is missing"},
		{"NAME-1 escape cut off in authority", "xdstp://a%4/T/x", 9, "two hexadecimal digits"},
		{"NAME-1 escape not hexadecimal in type", "xdstp://a/T%zz/x", 11, "two hexadecimal digits"},
		{"NAME-1 escape cut off in id", "xdstp://a/T/x y%2", 15, "two hexadecimal digits"},
		{"NAME-1 half an escape in id", "xdstp://a/T/%2g", 12, "two hexadecimal digits"},
		{"NAME-1 bad escape in key", "xdstp://a/T/x?k%=v", 15, "two hexadecimal digits"},
		{"NAME-1 bad escape in value", "xdstp://a/T/x?k=v&l=%", 20, "two hexadecimal digits"},
		{"NAME-3 key twice", "xdstp://a/T/x?k=1&j=2&k=1", 22, `"k" occurs twice`},
		{"NAME-3 key twice, once encoded", "xdstp://a/T/x?k=1&%6B=2", 18, `"k" occurs twice`},
		{"NAME-1 no key", "xdstp://a/T/x?=v", 14, "without key"},
		{"NAME-1 empty parameter", "xdstp://a/T/x?k=v&&l=w", 18, "without key"},
		{"NAME-6 unknown directive", "xdstp://a/T/x#foo=bar", 14, `unknown directive "foo=bar"`},
		{"NAME-6 empty directive", "xdstp://a/T/x#entry=a,", 22, "unknown directive"},
		{"NAME-6 entry twice", "xdstp://a/T/x#entry=a,entry=b", 22, "entry= occurs twice"},
		{"NAME-6 alt twice", "xdstp://a/T/x#alt=xdstp://b/T/x,alt=xdstp://b/T/x", 32, "alt= occurs twice"},
		{"NAME-6 empty entry", "xdstp://a/T/x#entry=", 20, "an entry is"},
		{"NAME-6 entry with a space", "xdstp://a/T/x#entry=a%20b", 20, "an entry is"},
		{"NAME-6 bad escape in entry", "xdstp://a/T/x#entry=a%2", 21, "two hexadecimal digits"},
		{"NAME-6 alt without value", "xdstp://a/T/x#alt", 17, "its alternative: an xdstp name begins"},
		{"NAME-6 alt is no xdstp name", "xdstp://a/T/x#alt=foo", 18, "its alternative: an xdstp name begins"},
		{"NAME-6 alt is bad", "xdstp://a/T/x#alt=xdstp://b/T/", 18, "its alternative: the id is missing"},
		{"NAME-6 alt's directive unencoded", "xdstp://a/T/x#alt=xdstp://b/T/x#entry=e", 31, `must be written "%23"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := keyer.Parse(tc.in)
			wantNameError(t, err, tc.in, tc.offset, tc.reason)
			if !keyer.IsXDSTP(tc.in) {
				return
			}
			if key, err := keyer.Key(tc.in); err == nil {
				t.Errorf("Key(%q) = %q, want the error", tc.in, key)
			}
		})
	}
}

func wantNameError(t *testing.T, err error, name string, offset int, reason string) {
	t.Helper()
	got, ok := errors.AsType[*keyer.NameError](err)
	if !ok {
		t.Fatalf("error %v for %q, want a *NameError", err, name)
	}
	if got.Name != name || got.Offset != offset || !strings.Contains(got.Reason, reason) {
		t.Errorf("error %+v, want name %q, offset %d, reason with %q", *got, name, offset, reason)
	}
}

func TestNameErrorText(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  keyer.NameError
		want string
	}{
		{"NAME-1 with offset", keyer.NameError{Name: "xdstp:\n", Offset: 6, Reason: "why"}, `xdstp name "xdstp:\n" at byte 6: why`},
		{"NAME-1 without offset", keyer.NameError{Name: "x", Offset: -1, Reason: "why"}, `xdstp name "x": why`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.err.Error(); got != tc.want {
				t.Errorf("Error() = %s, want %s", got, tc.want)
			}
		})
	}
}

// NAME-1: however long a name or a part of it is, its error stays readable.
func TestNameErrorIsShort(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	for _, in := range []string{
		"xdstp:" + long,
		"xdstp://" + long,
		"xdstp://a/T/x?k" + long + "&k" + long,
		"xdstp://a/T/x#" + long,
		"xdstp://a/T/x#alt=xdstp://b/T/x%23" + long,
	} {
		_, err := keyer.Parse(in)
		got, ok := errors.AsType[*keyer.NameError](err)
		if !ok {
			t.Fatalf("error %v, want a *NameError", err)
		}
		if len(got.Name)+len(got.Reason) > 1024 || !utf8.ValidString(got.Name) || !strings.HasSuffix(got.Name, "…") {
			t.Errorf("a name of %d bytes in an error of %d bytes: %s", len(in), len(got.Error()), got.Error())
		}
	}
}

func TestCheckConfigured(t *testing.T) {
	for _, tc := range []struct {
		name, in, reason string
		offset           int
	}{
		{"NAME-7 plain", "xdstp://a/T/x?k=v&shard_id=1#alt=xdstp://b/T/x?k=v", "", 0},
		{"NAME-7 xds without dot", "xdstp://a/T/x?xds=v", "", 0},
		{"NAME-7 in a value", "xdstp://a/T/x?k=_v&l=xds.foo", "", 0},
		{"NAME-7 the beginning of a name", "xdstp://a/", "", 0},
		{"NAME-7 an opaque name", "foo?_k=v&xds.foo=v", "", 0},
		{"NAME-7 xds.resource.", "xdstp://a/T/x?k=v&xds.resource.vip=v", `"xds.resource.vip": keys beginning with "xds."`, 18},
		{"NAME-7 encoded", "xdstp://a/T/x?%78ds.resource.vip=v", `"xds.resource.vip": keys beginning with "xds."`, 14},
		{"NAME-7 a first character that is not alphanumeric", "xdstp://a/T/x?k=v&_shard=v", `"_shard": keys beginning with a character`, 18},
		{"NAME-7 a first character that is encoded", "xdstp://a/T/x?%2Bk", `"+k": keys beginning with a character`, 14},
		{"NAME-7 in the beginning of a name", "xdstp://a/T/x?xds.", `"xds.": keys beginning`, 14},
		{"NAME-7 in the alternative", "xdstp://a/T/x#entry=e,alt=xdstp://b/T/x?xds.resource.vip=v", "its alternative: context key", 26},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := keyer.CheckConfigured(tc.in)
			if tc.reason == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantNameError(t, err, tc.in, tc.offset, tc.reason)
		})
	}
}

func TestCheckType(t *testing.T) {
	const listener = "envoy.config.listener.v3.Listener"
	for _, tc := range []struct {
		name, nameType, typeURL, want string
	}{
		{"NAME-5 same type", listener, "type.googleapis.com/" + listener, ""},
		{"NAME-5 collection of the type", listener + "Collection", "type.googleapis.com/" + listener, ""},
		{"NAME-5 LIST-1 same collection", listener + "Collection", "type.googleapis.com/" + listener + "Collection", ""},
		{"NAME-5 type URL without host", listener, listener, ""},
		{"NAME-5 type URL with a longer path", listener, "example.com/types/" + listener, ""},
		{
			"NAME-5 other type", "envoy.config.cluster.v3.Cluster", "type.googleapis.com/" + listener,
			`its type is "envoy.config.cluster.v3.Cluster", the request is for "type.googleapis.com/envoy.config.listener.v3.Listener": ` +
				`expected "envoy.config.listener.v3.Listener" or "envoy.config.listener.v3.ListenerCollection"`,
		},
		{
			"NAME-5 member where the collection was asked for", listener, "type.googleapis.com/" + listener + "Collection",
			`its type is "envoy.config.listener.v3.Listener", the request is for "type.googleapis.com/envoy.config.listener.v3.ListenerCollection": ` +
				`expected "envoy.config.listener.v3.ListenerCollection"`,
		},
		{"NAME-5 type is case-sensitive", strings.ToLower(listener), "type.googleapis.com/" + listener, "its type is"},
		{"NAME-5 type URL is longer", "Listener", "type.googleapis.com/" + listener, "its type is"},
		{"NAME-5 empty type URL", listener, "", "its type is"},
		{"NAME-5 type called Collection and an empty type URL", "Collection", "", "its type is"},
		{"NAME-5 LIST-4 entry", listener + "Collection/x#entry=e", "type.googleapis.com/" + listener, ""},
		{
			"NAME-5 LIST-4 entry where the collection was asked for", listener + "Collection/x#entry=e", "type.googleapis.com/" + listener + "Collection",
			`its entry is a "envoy.config.listener.v3.Listener", the request is for "type.googleapis.com/envoy.config.listener.v3.ListenerCollection"`,
		},
		{"NAME-5 LIST-4 entry of another type", "SCollection/x#entry=e", "T", `its entry is a "S", the request is for "T"`},
		{"NAME-5 LOC-5 alternative", listener + "/x#alt=xdstp://b/" + listener + "/y", "type.googleapis.com/" + listener, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, err := keyer.Parse("xdstp://a/" + tc.nameType + "/x")
			if strings.Contains(tc.nameType, "/") {
				n, err = keyer.Parse("xdstp://a/" + tc.nameType)
			}
			if err != nil {
				t.Fatal(err)
			}
			err = keyer.CheckType(n, tc.typeURL)
			if tc.want == "" {
				if err != nil {
					t.Errorf("CheckType: %v, want none", err)
				}
				return
			}
			wantNameError(t, err, n.Resolved(), -1, tc.want)
		})
	}
}

func TestIsXDSTP(t *testing.T) {
	for name, want := range map[string]bool{
		"xdstp://a/T/x": true, "XDSTP://a/T/x": true, "xdstp://": true, "xdstp://a": true,
		"xdstp:": false, "xdstp:a/T/x": false, "xdstp:/a/T/x": false,
		"": false, "*": false, "xdstp": false, "xdst:p": false, "xds://a": false, " xdstp://a": false, "xdſtp://": false,
	} {
		t.Run(fmt.Sprintf("NAME-1 %q", name), func(t *testing.T) {
			if got := keyer.IsXDSTP(name); got != want {
				t.Errorf("IsXDSTP(%q) = %v", name, got)
			}
		})
	}
}
