package delivery

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Claims are a map.
func TestRES11ClaimsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom([]string{"", "a", "b", "ab", "a\x00", "long name of a resource"}).Draw(t, "key") +
				rapid.StringN(0, 1, 1).Draw(t, "more")
		})
		want := map[string]string{}
		c := newHeldVersions(maphash.MakeSeed(), rapid.IntRange(0, 9).Draw(t, "room"), 10)
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			k := key.Draw(t, "at")
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1, 2, 3, 4:
				if c == nil {
					c = newHeldVersions(maphash.MakeSeed(), 0, 0)
				}
				want[k] = rapid.String().Draw(t, "version")
				c.set(k, want[k])
			case 5, 6, 7:
				delete(want, k)
				if c = c.settle(k); c.none() != (len(want) == 0) {
					t.Fatalf("left %v, want %v", c, want)
				}
			case 8:
				if c != nil {
					c.fit()
				}
			case 9:
				c.doubt()
				for k := range want {
					want[k] = ""
				}
			}
			if got := c.sorted(); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
				t.Fatalf("claimed are %q, want %q", got, want)
			}
			if version, claimed := c.get(k); claimed != c.has(k) || version != want[k] {
				t.Fatalf("%q is claimed with %q, want %q", k, version, want[k])
			}
		}
	})
}

// What few of many versions need is not kept: clients come back by the thousand. Nor does what comes and goes pile up
// with a client that stays.
func TestHeldVersionsMemory_RES11(t *testing.T) {
	for _, tc := range []struct{ room, used, kept int }{
		{8, 3, 3}, {8, 4, 4}, {8, 5, 8}, {8, 8, 8}, {9, 4, 4}, {9, 5, 9},
	} {
		c := newHeldVersions(maphash.MakeSeed(), tc.room, 100)
		for i := range tc.used {
			c.set(fmt.Sprint(i), "1")
		}
		c.fit()
		if got := cap(c.all); got != tc.kept || len(c.slots) > 2*max(4, 2*tc.kept) {
			t.Errorf("with %d versions of %d there is room for %d, in %d slots, want %d", tc.used, tc.room, got, len(c.slots), tc.kept)
		}
	}
	c := newHeldVersions(maphash.MakeSeed(), 4, 100)
	c.set("stays", "1")
	for i := range 1000 {
		c.set(fmt.Sprint(i), "1")
		c.settle(fmt.Sprint(i))
	}
	if cap(c.all) > 16 || !c.has("stays") {
		t.Errorf("there is room for %d versions, for 2 at a time", cap(c.all))
	}
}
