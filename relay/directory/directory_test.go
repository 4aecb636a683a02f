package directory_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/relay/directory"
)

const (
	listenerType   = "type.googleapis.com/envoy.config.listener.v3.Listener"
	collectionType = "type.googleapis.com/envoy.config.listener.v3.ListenerCollection"
	clusterType    = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	typeName       = "envoy.config.listener.v3.Listener"
)

func listener(t testing.TB, name string) *anypb.Any {
	t.Helper()
	return encoded.Any(&listenerv3.Listener{Name: name})
}

func reference(typ, id string) *xdscorev3.CollectionEntry {
	return &xdscorev3.CollectionEntry{ResourceSpecifier: &xdscorev3.CollectionEntry_Locator{
		Locator: &xdscorev3.ResourceLocator{Authority: "some-authority", ResourceType: typ, Id: id},
	}}
}

func inline(name, version string, resource *anypb.Any) *xdscorev3.CollectionEntry {
	return &xdscorev3.CollectionEntry{ResourceSpecifier: &xdscorev3.CollectionEntry_InlineEntry_{
		InlineEntry: &xdscorev3.CollectionEntry_InlineEntry{Name: name, Version: version, Resource: resource},
	}}
}

// collection gives an encoded Any of a ListenerCollection.
func collection(t testing.TB, entries ...*xdscorev3.CollectionEntry) []byte {
	t.Helper()
	return encoded.Bytes(encoded.Any(&listenerv3.ListenerCollection{Entries: entries}))
}

// raw gives an encoded Any of a collection with these bytes as entries.
func raw(t testing.TB, entries ...[]byte) []byte {
	t.Helper()
	var value []byte
	for _, e := range entries {
		value = protowire.AppendBytes(protowire.AppendTag(value, 1, protowire.BytesType), e)
	}
	return encoded.Bytes(&anypb.Any{TypeUrl: collectionType, Value: value})
}

func bytesField(num protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), b)
}

func faultTexts(d *directory.Directory) []string {
	var texts []string
	for _, f := range d.Faults {
		texts = append(texts, f.Error())
	}
	return texts
}

func TestRead(t *testing.T) {
	foo, bar := listener(t, "foo"), listener(t, "bar")
	inlineFoo := directory.Entry{TypeURL: listenerType, Name: "foo", Version: "1", Any: encoded.Bytes(foo)}
	for _, tc := range []struct {
		name   string
		in     []byte
		want   []directory.Entry
		faults []string
	}{
		{"LIST-2 empty", collection(t), nil, nil},
		{
			"LIST-2 TP1 references", collection(t, reference(typeName, "bar"), reference(typeName, "baz")),
			[]directory.Entry{
				{Number: 0, Locator: "xdstp://some-authority/envoy.config.listener.v3.Listener/bar", TypeURL: listenerType},
				{Number: 1, Locator: "xdstp://some-authority/envoy.config.listener.v3.Listener/baz", TypeURL: listenerType},
			}, nil,
		},
		{
			"LIST-4 TP1 inline, one of them anonymous", collection(t, inline("bar", "8.5.4", bar), inline("", "3.9.0", foo)),
			[]directory.Entry{
				{Number: 0, TypeURL: listenerType, Name: "bar", Version: "8.5.4", Any: encoded.Bytes(bar)},
				{Number: 1, TypeURL: listenerType, Version: "3.9.0", Any: encoded.Bytes(foo)},
			}, nil,
		},
		{
			"LIST-2 any T", encoded.Bytes(&anypb.Any{TypeUrl: "example.com/p.TCollection", Value: bytesField(1, encoded.Bytes(reference("p.T", "x")))}),
			[]directory.Entry{{Locator: "xdstp://some-authority/p.T/x", TypeURL: "type.googleapis.com/p.T"}}, nil,
		},
		{
			"LIST-2 fields that this build does not know", raw(t,
				slices.Concat(bytesField(9, []byte("?")), encoded.Bytes(inline("foo", "1", foo)), protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 7))),
			[]directory.Entry{inlineFoo}, nil,
		},
		{
			"LIST-2 the last of a oneof counts", raw(t,
				slices.Concat(encoded.Bytes(reference(typeName, "x")), encoded.Bytes(inline("foo", "1", foo))),
				slices.Concat(encoded.Bytes(inline("foo", "1", foo)), encoded.Bytes(reference(typeName, "x")))),
			[]directory.Entry{inlineFoo, {Number: 1, Locator: "xdstp://some-authority/envoy.config.listener.v3.Listener/x", TypeURL: listenerType}}, nil,
		},
		{
			"LIST-2 a message in parts", raw(t,
				slices.Concat(bytesField(2, bytesField(1, []byte("foo"))), bytesField(2, bytesField(2, []byte("1"))),
					bytesField(2, bytesField(3, bytesField(1, []byte(listenerType)))), bytesField(2, bytesField(3, bytesField(2, foo.Value)))),
				slices.Concat(bytesField(1, bytesField(2, []byte("x"))), bytesField(1, bytesField(4, []byte(typeName))))),
			[]directory.Entry{inlineFoo, {Number: 1, Locator: "xdstp:///envoy.config.listener.v3.Listener/x", TypeURL: listenerType}}, nil,
		},
		{
			"LIST-2 what cannot be read loses nothing else", raw(t,
				nil, []byte{0x0a}, encoded.Bytes(inline("foo", "1", foo)), bytesField(1, []byte{0x12, 0x01}),
				encoded.Bytes(reference("", "x")), encoded.Bytes(inline("x", "1", nil)), encoded.Bytes(inline("y", "1", &anypb.Any{})),
				bytesField(2, slices.Concat(bytesField(1, []byte("\xff")), bytesField(3, encoded.Bytes(foo)))),
				bytesField(2, slices.Concat(bytesField(2, []byte("\xff")), bytesField(3, encoded.Bytes(foo)))),
				bytesField(2, bytesField(3, bytesField(1, []byte("\xff"))))),
			[]directory.Entry{{Number: 2, TypeURL: listenerType, Name: "foo", Version: "1", Any: encoded.Bytes(foo)}},
			[]string{
				"resources[0]: neither a locator nor an inline entry",
				"resources[1]: it is no encoded message: unexpected EOF",
				"resources[3]: resource locator: proto",
				"resources[4]: resource locator: the resource type is missing",
				"resources[5]: an inline entry without resource",
				"resources[6]: its resource: a payload without type_url",
				"resources[7]: its name is not UTF-8",
				"resources[8]: its version is not UTF-8",
				"resources[9]: its resource: its type_url is not UTF-8",
			},
		},
		{
			"LIST-4 a name twice", collection(t, inline("foo", "1", foo), inline("bar", "1", bar), inline("foo", "1", foo), inline("", "1", foo), inline("", "1", foo)),
			[]directory.Entry{
				inlineFoo,
				{Number: 1, TypeURL: listenerType, Name: "bar", Version: "1", Any: encoded.Bytes(bar)},
				{Number: 2, TypeURL: listenerType, Name: "foo", Version: "1", Any: encoded.Bytes(foo)},
				{Number: 3, TypeURL: listenerType, Version: "1", Any: encoded.Bytes(foo)},
				{Number: 4, TypeURL: listenerType, Version: "1", Any: encoded.Bytes(foo)},
			},
			[]string{`resources[2]: the name "foo" is that of resources[0], too`},
		},
		{
			"LIST-4 members of another type", collection(t, inline("c", "1", encoded.Any(&clusterv3.Cluster{})), reference("S", "x")),
			[]directory.Entry{
				{TypeURL: clusterType, Name: "c", Version: "1", Any: encoded.Bytes(encoded.Any(&clusterv3.Cluster{}))},
				{Number: 1, Locator: "xdstp://some-authority/S/x", TypeURL: "type.googleapis.com/S"},
			},
			[]string{
				`resources[0]: a "type.googleapis.com/envoy.config.cluster.v3.Cluster" in a collection of "type.googleapis.com/envoy.config.listener.v3.Listener"`,
				`resources[1]: a "type.googleapis.com/S" in a collection of "type.googleapis.com/envoy.config.listener.v3.Listener"`,
			},
		},
		{
			"LIST-2 LOC-1 other directories and inline redirects", collection(t, reference(typeName+"Collection", "d"),
				inline("r", "1", encoded.Any(&xdscorev3.ResourceLocator{ResourceType: typeName, Id: "x"}))),
			[]directory.Entry{
				{Locator: "xdstp://some-authority/envoy.config.listener.v3.ListenerCollection/d", TypeURL: collectionType},
				{Number: 1, TypeURL: wire.RedirectTypeURL, Name: "r", Version: "1", Any: encoded.Bytes(encoded.Any(&xdscorev3.ResourceLocator{ResourceType: typeName, Id: "x"}))},
			}, nil,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := directory.Read(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Entries, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			// The text of package proto is not fixed.
			if diff := cmp.Diff(tc.faults, faultTexts(got), cmpopts.EquateEmpty(), cmp.Comparer(func(a, b string) bool {
				return a == b || strings.HasSuffix(a, "locator: proto") && strings.HasPrefix(b, a) || strings.HasSuffix(b, "locator: proto") && strings.HasPrefix(a, b)
			})); diff != "" {
				t.Errorf("LIST-4 faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	tooMany := make([][]byte, directory.MaxEntries+1)
	for _, tc := range []struct {
		name string
		in   []byte
		want string
	}{
		{"LIST-2 nothing", nil, "a payload without type_url"},
		{"LIST-2 no Any", []byte{0x0a, 0x05, 'x'}, "it is no encoded message: unexpected EOF"},
		{"LIST-2 other type", encoded.Bytes(listener(t, "x")), `a "type.googleapis.com/envoy.config.listener.v3.Listener" is no list collection`},
		{"LIST-2 type that is not UTF-8", bytesField(1, []byte("\xff")), "its type_url is not UTF-8"},
		{"LIST-2 no collection", encoded.Bytes(&anypb.Any{TypeUrl: collectionType, Value: []byte{0x0a, 0x7f}}), `a "` + collectionType + `": it is no encoded message: unexpected EOF`},
		{"LIST-2 too many entries", raw(t, tooMany...), `a "` + collectionType + `": more than 100000 entries`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d, err := directory.Read(tc.in); err == nil || err.Error() != tc.want {
				t.Errorf("Read() = %v, %v, want the error %q", d, err, tc.want)
			}
		})
	}
}

// LIST-4: however many faults a directory has, they stay readable.
func TestFaultsAreBounded(t *testing.T) {
	d, err := directory.Read(raw(t, make([][]byte, directory.MaxEntries)...))
	if err != nil {
		t.Fatal(err)
	}
	texts := faultTexts(d)
	if len(texts) != 17 || texts[16] != "and 99984 more" {
		t.Errorf("%d faults, the last: %q", len(texts), texts[len(texts)-1])
	}
	fault, ok := errors.AsType[*directory.FaultError](d.Faults[15])
	if d.Counts[directory.Unreadable] != directory.MaxEntries {
		t.Errorf("%v faults, want as many as entries", d.Counts)
	}
	if !ok || fault.Number != 15 || fault.Kind != directory.Unreadable || errors.Unwrap(fault) == nil {
		t.Errorf("fault %#v, want that of entry 15", d.Faults[15])
	}
	long := strings.Repeat("x", 1<<20)
	d, err = directory.Read(collection(t, inline(long, "1", listener(t, "")), inline(long, "1", listener(t, ""))))
	if err != nil || len(d.Faults) != 1 || len(d.Faults[0].Error()) > 1024 {
		t.Errorf("a fault that is not short: %v", err)
	}
}

// LIST-4: a fault says of what kind it is, and how many there are of each is counted.
func TestFaultKinds(t *testing.T) {
	foo := listener(t, "foo")
	d, err := directory.Read(collection(t,
		inline("foo", "1", foo), inline("foo", "2", foo), inline("foo", "3", foo),
		reference("envoy.config.cluster.v3.Cluster", "x"), new(xdscorev3.CollectionEntry)))
	if err != nil {
		t.Fatal(err)
	}
	want := map[directory.Kind]int{directory.Duplicate: 2, directory.WrongType: 1, directory.Unreadable: 1}
	if diff := cmp.Diff(want, d.Counts); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, err := range d.Faults {
		f, _ := errors.AsType[*directory.FaultError](err)
		want[f.Kind]--
	}
	if want[directory.Duplicate]+want[directory.WrongType]+want[directory.Unreadable] != 0 {
		t.Errorf("listed are others: %v", d.Faults)
	}
}

// LIST-4: inline payloads are not copied, and what is written behind one does not
// reach its neighbours.
func TestInlineIsPartOfTheDirectory(t *testing.T) {
	in := collection(t, inline("foo", "1", listener(t, "foo")), inline("bar", "1", listener(t, "bar")))
	d, err := directory.Read(in)
	if err != nil {
		t.Fatal(err)
	}
	before := slices.Clone(d.Entries[1].Any)
	_ = append(d.Entries[0].Any, strings.Repeat("x", 100)...)
	if !slices.Equal(before, d.Entries[1].Any) {
		t.Error("appending to one entry has changed the next")
	}
	allocs := testing.AllocsPerRun(10, func() { _, _ = directory.Read(in) })
	if allocs > 20 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestConflicts(t *testing.T) {
	one, two := listener(t, "one"), listener(t, "two")
	for _, tc := range []struct {
		name        string
		before, now []*xdscorev3.CollectionEntry
		want        []directory.ConflictError
	}{
		{"LIST-4 nothing changed", []*xdscorev3.CollectionEntry{inline("x", "1", one)}, []*xdscorev3.CollectionEntry{inline("x", "1", one)}, nil},
		{"LIST-4 new version", []*xdscorev3.CollectionEntry{inline("x", "1", one)}, []*xdscorev3.CollectionEntry{inline("x", "2", two)}, nil},
		{"LIST-4 new version, same payload", []*xdscorev3.CollectionEntry{inline("x", "1", one)}, []*xdscorev3.CollectionEntry{inline("x", "2", one)}, nil},
		{
			"LIST-4 same version, other payload",
			[]*xdscorev3.CollectionEntry{inline("y", "1", one), inline("x", "1", one), inline("z", "1", one)},
			[]*xdscorev3.CollectionEntry{inline("z", "1", one), inline("y", "1", two), inline("x", "1", two)},
			[]directory.ConflictError{{Name: "x", Version: "1"}, {Name: "y", Version: "1"}},
		},
		{"LIST-4 anonymous", []*xdscorev3.CollectionEntry{inline("", "1", one)}, []*xdscorev3.CollectionEntry{inline("", "1", two)}, nil},
		{"LIST-4 no version", []*xdscorev3.CollectionEntry{inline("x", "", one)}, []*xdscorev3.CollectionEntry{inline("x", "", two)}, nil},
		{"LIST-4 removed and added", []*xdscorev3.CollectionEntry{inline("x", "1", one)}, []*xdscorev3.CollectionEntry{inline("y", "1", two), reference(typeName, "x")}, nil},
		{
			"LIST-4 the first of a name counts",
			[]*xdscorev3.CollectionEntry{inline("x", "1", one), inline("x", "1", two)},
			[]*xdscorev3.CollectionEntry{inline("x", "1", one), inline("x", "1", two)}, nil,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, err := directory.Read(collection(t, tc.before...))
			if err != nil {
				t.Fatal(err)
			}
			now, err := directory.Read(collection(t, tc.now...))
			if err != nil {
				t.Fatal(err)
			}
			if got := now.Versions().Conflicts(before.Versions()); !slices.Equal(got, tc.want) {
				t.Errorf("conflicts %v, want %v", got, tc.want)
			}
			if got := now.Versions().Conflicts(nil); got != nil {
				t.Errorf("conflicts with nothing: %v", got)
			}
		})
	}
	want := `inline entry "x" has another payload than before at the same version "1"`
	if got := fmt.Sprint(directory.ConflictError{Name: "x", Version: "1"}); got != want {
		t.Errorf("text %q, want %q", got, want)
	}
}
