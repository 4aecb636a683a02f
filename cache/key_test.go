package cache

import (
	"testing"
	"time"
	"unsafe"

	"github.com/xdsrelay/xdsrelay/internal/testkit/words"

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
		{"entry", unsafe.Sizeof(Entry{}), 112},
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
	k := newKept(t)
	shares := func() bool { return k.store.FindTable(cds, ByName).Find(name).marks.sharesKey }
	follower, named := k.listener(NeedsStream), k.listener(NeedsStream)
	follower.follow(glob)
	k.store.Session().Restart(stream(WholeType), 0) // which the names have for themselves
	first := func(words ...string) { k.Helper(); k.apply(WholeType, response(words...)) }
	first("+" + name + "@1")
	k.store.Session().Settle(time.Now().Add(time.Minute)) // the glob brings its members: no name is asked for by itself
	first("+" + name + "@2")
	if !shares() {
		t.Error("a member has its name in memory twice")
	}
	named.watch(name)
	first("+" + name + "@3")
	if shares() {
		t.Error("the key of what somebody named lies in its content")
	}
	named.unwatch(name)
	first("+" + name + "@4")
	if !shares() {
		t.Error("a member that nobody names any more has its name in memory twice")
	}
	first("-" + name)
	if shares() {
		t.Error("the key of a tombstone lies in what was removed")
	}
}

func response(said ...string) *wire.Response { return words.Response(cds, said...) }
