package delivery

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
	"pgregory.net/rapid"
)

// TestNameSubs has as many names as a list and a map have.
func TestNameSubs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s nameIndex
		want := make(map[string]*nameSub)
		spelling := rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf("n%02d", rapid.IntRange(0, 2*fewNames).Draw(t, "n"))
		})
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				if n := spelling.Draw(t, "spelling"); want[n] == nil {
					want[n] = &nameSub{spelling: n}
					s.add(want[n], n)
				}
			},
			"remove": func(t *rapid.T) {
				if n := spelling.Draw(t, "spelling"); want[n] != nil {
					s.remove(want[n], n)
					delete(want, n)
				}
			},
			"reserve": func(t *rapid.T) { s.reserve(rapid.IntRange(0, 2*fewNames).Draw(t, "n")) },
			"": func(t *rapid.T) {
				c := &cache.Checker{}
				if s.check(c); c.Err() != nil {
					t.Fatal(c.Err())
				}
				var got []string
				for _, sub := range s.sorted() {
					got = append(got, sub.spelling)
				}
				if !slices.Equal(got, slices.Sorted(maps.Keys(want))) || s.len() != len(want) {
					t.Fatalf("%d are %q, want %q", s.len(), got, slices.Sorted(maps.Keys(want)))
				}
				if n := spelling.Draw(t, "spelling"); s.get(n) != want[n] {
					t.Fatalf("%q is %v, want %v", n, s.get(n), want[n])
				}
				for range s.all() {
					break // may be stopped
				}
			},
		})
	})
}

// Room is made for as many names as begin together, and for no more: clients come by the thousand (LIM-1).
func TestNameIndexReserve_LIM1(t *testing.T) {
	for _, tc := range []struct {
		has, more int
		many      bool
		room      int // of the list
	}{
		{0, 0, false, 0},
		{0, 1, false, 0}, // as most clients have
		{0, 2, false, 2},
		{0, fewNames, false, fewNames},
		{0, fewNames + 1, true, 0},
		{1, 2, false, 1}, // they may be there already
		{1, fewNames + 1, true, 0},
	} {
		var i nameIndex
		for n := range tc.has {
			i.add(&nameSub{spelling: fmt.Sprint(n)}, fmt.Sprint(n))
		}
		i.reserve(tc.more)
		if many := i.many != nil; many != tc.many || cap(i.list) != tc.room || i.len() != tc.has {
			t.Errorf("%d names and %d more: in a map %t, room for %d in a list, %d names", tc.has, tc.more, many, cap(i.list), i.len())
		}
	}
}
