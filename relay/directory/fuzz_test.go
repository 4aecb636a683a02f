package directory_test

import (
	"bytes"
	"slices"
	"testing"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/relay/directory"
)

// FuzzRead holds Read to what the generated types make of the same bytes (LIST-2,
// LIST-4).
func FuzzRead(f *testing.F) {
	value := func(entries ...*xdscorev3.CollectionEntry) []byte {
		return encoded.Bytes(&listenerv3.ListenerCollection{Entries: entries})
	}
	f.Add([]byte{})
	f.Add(value(reference(typeName, "x/*"), inline("foo", "1", listener(f, "foo")), inline("foo", "", nil)))
	f.Add(slices.Concat(value(reference("", "x")), []byte("\x0a\x00\x0a\x04\x0a\x00\x12\x00")))
	f.Fuzz(func(t *testing.T, value []byte) {
		packed := encoded.Bytes(&anypb.Any{TypeUrl: collectionType, Value: value})
		before := bytes.Clone(packed)
		d, err := directory.Read(packed)
		if !bytes.Equal(before, packed) {
			t.Fatal("LIST-4: Read has changed the directory")
		}
		var want listenerv3.ListenerCollection
		unmarshalErr := proto.Unmarshal(value, &want)
		if err != nil {
			if unmarshalErr == nil {
				t.Fatalf("LIST-2: Read refuses what proto.Unmarshal accepts: %v", err)
			}
			return
		}
		for _, fault := range d.Faults {
			_ = fault.Error()
		}
		if got := d.Versions().Conflicts(d.Versions()); got != nil {
			t.Fatalf("LIST-4: conflicts of a directory with itself: %v", got)
		}
		for i := range d.Entries {
			checkEntry(t, &d.Entries[i])
			if unmarshalErr == nil {
				checkAgrees(t, &d.Entries[i], want.Entries[d.Entries[i].Number])
			}
		}
		if unmarshalErr == nil && len(d.Entries) < len(want.Entries) && len(d.Faults) == 0 {
			t.Fatalf("LIST-2: %d of %d entries and no fault", len(d.Entries), len(want.Entries))
		}
	})
}

// checkEntry checks what must be true of any entry.
func checkEntry(t *testing.T, e *directory.Entry) {
	t.Helper()
	if e.Inline() {
		return
	}
	if key, err := keyer.ResolvedKey(e.Locator); err != nil || key != e.Locator || e.Any != nil || e.Name != "" {
		t.Fatalf("LIST-2: reference %+v: %q, %v", e, key, err)
	}
}

// checkAgrees checks that an entry is what the generated type makes of it.
func checkAgrees(t *testing.T, e *directory.Entry, want *xdscorev3.CollectionEntry) {
	t.Helper()
	if l := want.GetLocator(); l != nil {
		if name, err := keyer.Locator(l); err != nil || name != e.Locator {
			t.Fatalf("LIST-2: reference %q, want %q, %v", e.Locator, name, err)
		}
		return
	}
	in := want.GetInlineEntry()
	var resource anypb.Any
	if err := proto.Unmarshal(e.Any, &resource); err != nil {
		t.Fatal(err)
	}
	if !e.Inline() || e.Name != in.GetName() || e.Version != in.GetVersion() || e.TypeURL != resource.TypeUrl || !proto.Equal(&resource, in.GetResource()) {
		t.Fatalf("LIST-4: inline entry %+v, want %v", e, in)
	}
}
