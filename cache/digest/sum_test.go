package digest

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestACK4_SumOfASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.String(), 1, 6).Draw(t, "members")
		var forth, back Sum
		for i := range words {
			forth = forth.Plus(Of("member", words[i]))
			back = back.Plus(Of("member", words[len(words)-1-i]))
		}
		if forth != back {
			t.Errorf("sum %s in one order, %s in the other", forth, back)
		}
		for _, w := range words {
			if forth == (Sum{}) {
				t.Errorf("a set with members has the digest of the empty set")
			}
			forth = forth.Minus(Of("member", w))
		}
		if forth != (Sum{}) {
			t.Errorf("sum %s is left without members", forth)
		}
	})
}

func TestACK4_SumCarriesBetweenItsHalves(t *testing.T) {
	one, low := Sum{0, 1}, Sum{0, math.MaxUint64}
	if got := low.Plus(one); got != (Sum{1, 0}) {
		t.Errorf("carried to %v", got)
	}
	if got := (Sum{1, 0}).Minus(one); got != low {
		t.Errorf("borrowed from %v", got)
	}
	if got := (Sum{math.MaxUint64, math.MaxUint64}).Plus(one); got != (Sum{}) {
		t.Errorf("beyond the highest comes %v", got)
	}
}

// The digests are shown to clients, and replicas of other releases show theirs to the
// same clients.
func TestACK4_DigestsAreTheSameInEveryReplica(t *testing.T) {
	if got := (Sum{}).String(); got != strings.Repeat("0", 32) {
		t.Errorf("the empty set is %s", got)
	}
	if got := (Sum{0x0123456789abcdef, 0xfe}).String(); got != "0123456789abcdef00000000000000fe" {
		t.Errorf("the digits are in another order: %s", got)
	}
	// The first 16 bytes of: printf '\1a\1b' | sha256sum
	if got := Of("a", "b").String(); got != "fa4a350f5906021e27b2caf19409319e" {
		t.Errorf("the digest is %s", got)
	}
}

func TestACK4_DigestOfWords(t *testing.T) {
	seen := make(map[Sum][]string)
	for _, words := range [][]string{
		nil, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"b", "a"}, {"", "ab"}, {"ab", ""},
		{strings.Repeat("x", 127)}, {strings.Repeat("x", 128)}, {strings.Repeat("x", 1000)},
	} {
		s := Of(words...)
		if other, ok := seen[s]; ok {
			t.Errorf("%q has the digest of %q", words, other)
		}
		seen[s] = words
	}
}

func TestACK4_VersionOfParts(t *testing.T) {
	if got := Join([]string{"7"}); got != "7" {
		t.Errorf("one part alone has the version %q", got)
	}
	versions := []string{"b", "a"}
	if Join(versions) != Join([]string{"a", "b"}) {
		t.Error("the version depends on the order of the parts")
	}
	if versions[0] != "b" {
		t.Error("the versions were sorted where they stand")
	}
	if Join([]string{"a", "b"}) == Join([]string{"a", "c"}) {
		t.Error("other parts have the same version")
	}
}

func TestDigestOfShortWordsTakesNoMemory(t *testing.T) {
	words := []string{"a name", "a version"}
	if n := testing.AllocsPerRun(10, func() { Of(words...) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
