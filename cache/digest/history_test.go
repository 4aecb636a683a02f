package digest

import (
	"fmt"
	"hash/maphash"
	"testing"
)

func content(version, bytes string) Content {
	return NewHasher(seed).Content(version, []byte(bytes))
}

var seed = maphash.MakeSeed()

func TestACK4_HistoryFindsAVersionThatIsUsedAgain(t *testing.T) {
	var h History
	if c := content("1", "x"); h.Has(c) || h.Contradicts(c) {
		t.Error("something is known of what was never noted")
	}
	h.Note(content("1", "x"))
	h.Note(content("2", "y"))
	for _, tc := range []struct {
		version, bytes   string
		has, contradicts bool
	}{
		{"1", "x", true, false},
		{"1", "y", false, true},
		{"2", "x", false, true},
		{"3", "x", false, false},
	} {
		c := content(tc.version, tc.bytes)
		if h.Has(c) != tc.has || h.Contradicts(c) != tc.contradicts {
			t.Errorf("%s=%s: noted before %t, contradicts %t", tc.version, tc.bytes, h.Has(c), h.Contradicts(c))
		}
	}
	h.Note(content("1", "y"))
	if c := content("1", "x"); !h.Has(c) || !h.Contradicts(c) {
		t.Error("a version with two contents is not suspected")
	}
}

func TestACK4_HistoryForgetsTheOldest(t *testing.T) {
	var h History
	for i := range historyLen + 1 {
		h.Note(content(fmt.Sprint(i), "x"))
	}
	if h.Has(content("0", "x")) || h.Contradicts(content("0", "y")) {
		t.Error("the oldest content is still known")
	}
	for i := 1; i <= historyLen; i++ {
		if !h.Has(content(fmt.Sprint(i), "x")) {
			t.Errorf("content %d is forgotten", i)
		}
	}
}

func TestHasher(t *testing.T) {
	h := NewHasher(seed)
	if c := h.Content("1", []byte("x")); c != (Content{h.Version("1"), h.Bytes([]byte("x"))}) {
		t.Error("a content has other hashes than its version and its bytes")
	}
	if h.Member("a", 1) != NewHasher(seed).Member("a", 1) {
		t.Error("one seed gives two hashes")
	}
	if h.Member("a", 1) == h.Member("a", 2) || h.Member("a", 1) == h.Member("b", 1) {
		t.Error("other members have the same hash")
	}
	if NewHasher(maphash.MakeSeed()).Version("1") == h.Version("1") {
		t.Error("another seed gives the same hash")
	}
}
