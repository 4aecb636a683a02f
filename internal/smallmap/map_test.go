package smallmap_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xdsrelay/xdsrelay/internal/smallmap"
)

// TestMapIsAMap does the same to a Map and to Go's, over the number at which it changes.
func TestMapIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m smallmap.Map[int, string]
		want := make(map[int]string)
		key := rapid.IntRange(0, 12)
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				k, v := key.Draw(t, "key"), rapid.String().Draw(t, "value")
				m.Set(k, v)
				want[k] = v
			},
			"set while going over them": func(*rapid.T) {
				for k := range m.All() {
					m.Set(k, "seen")
				}
				for k := range want {
					want[k] = "seen"
				}
			},
			"clear": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "dice") == 0 {
					m.Clear()
					clear(want)
				}
			},
			"": func(t *rapid.T) {
				if got := maps.Collect(m.All()); !cmp.Equal(got, want) {
					t.Fatalf("All: %s", cmp.Diff(want, got))
				}
				if m.Len() != len(want) {
					t.Fatalf("Len is %d, want %d", m.Len(), len(want))
				}
				for k := range 13 {
					got, ok := m.Lookup(k)
					if v, has := want[k]; got != v || ok != has || m.Get(k) != v {
						t.Fatalf("Lookup(%d) = %q, %v, want %q, %v", k, got, ok, v, has)
					}
				}
			},
		})
	})
}

func TestAllStops(t *testing.T) {
	for _, n := range []int{3, 30} {
		var m smallmap.Map[int, int]
		for i := range n {
			m.Set(i, i)
		}
		seen := 0
		for range m.All() {
			if seen++; seen == 2 {
				break
			}
		}
		if seen != 2 {
			t.Errorf("of %d entries %d were seen, want 2", n, seen)
		}
	}
}
