package cache

import (
	"testing"
	"unsafe"

	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// What a member of a large glob takes beside its bytes. Size classes of the
// allocator end at these.
func TestSizeOfAMember(t *testing.T) {
	for _, tc := range []struct {
		name      string
		got, most uintptr
	}{
		{"entry", unsafe.Sizeof(entry{}), 112},
		{"resource", unsafe.Sizeof(wire.Resource{}), 80},
		{"history", unsafe.Sizeof(digest.History{}), 64},
	} {
		if tc.got > tc.most {
			t.Errorf("a member's %s takes %d bytes, should take at most %d", tc.name, tc.got, tc.most)
		}
	}
}

// A key lies in the bytes of the content that is held, or in memory of its own; Check
// compares the addresses.
func TestNAME2_keys(t *testing.T) {
	lent := func(b *bed) bool {
		b.Helper()
		return b.store.tables[tableKey{cds, byName}].entries[nameG1].lent
	}
	b := newBed(t, Limits{})
	glob, named := b.join(), b.join()
	glob.sub(cds, globG)
	b.connect(0)
	b.says(cds, "+"+nameG1+"@1")
	b.settle() // the glob brings its members: no name is asked for by itself
	b.says(cds, "+"+nameG1+"@2")
	if !lent(b) {
		t.Error("a member has its name in memory twice")
	}
	named.sub(cds, nameG1)
	b.says(cds, "+"+nameG1+"@3")
	if lent(b) {
		t.Error("the key of what somebody named lies in its content")
	}
	named.unsub(cds, nameG1)
	b.says(cds, "+"+nameG1+"@4")
	if !lent(b) {
		t.Error("a member that nobody names any more has its name in memory twice")
	}
	glob.collect()
	b.says(cds, "-"+nameG1)
	if lent(b) {
		t.Error("the key of a tombstone lies in what was removed")
	}
	b.expect(glob.collect(), "CDS -"+nameG1)
	b.once(cds, nameG2+"@1")
	if b.store.tables[tableKey{cds, byName}].entries[nameG2].lent {
		t.Error("TTL-5: the key of what is not kept lies in its content")
	}
}
