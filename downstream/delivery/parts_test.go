package delivery

import (
	"fmt"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

// "*" leaves out what the stream names in other stores, not in its own, however many there are (AGG-1).
func TestPartsNamed_AGG1_LOC3(t *testing.T) {
	for _, stores := range []int{2, maxParts, maxParts + 1} {
		t.Run(fmt.Sprint(stores), func(t *testing.T) {
			star := newBed(t, cache.Limits{}).join()
			star.sub(cds, "*", "own", "both")
			var other *peer
			for range stores - 1 {
				other = star.also()
				other.sub(cds, globG)
			}
			s, o := &star.c.find(cds).subs, &other.c.find(cds).subs
			named := func(where string, subs *subscribed, something bool, want map[string]bool) {
				t.Helper()
				for name, want := range want {
					if got := s.parts.named(name, subs); got != want {
						t.Errorf("%s: %q is named in another store: %t, want %t", where, name, got, want)
					}
				}
				if got := s.parts.anyNamed(subs); got != something {
					t.Errorf("%s: anything is named in another store: %t, want %t", where, got, something)
				}
			}
			named("*", s, false, map[string]bool{"own": false, "other": false, "none": false})
			named("the other", o, true, map[string]bool{"own": true, "other": false, "none": false})
			other.sub(cds, "other", "twice")
			named("*", s, true, map[string]bool{"own": false, "other": true, "none": false})
			named("the other", o, true, map[string]bool{"own": true, "other": false, "none": false})
			if counted := s.parts.names != nil; counted != (stores > maxParts) {
				t.Errorf("LIM-2: the names of %d stores are counted: %t", stores, counted)
			}
			other.unsub(cds, "other", "twice")
			named("*", s, false, map[string]bool{"own": false, "other": false, "none": false})
			other.sub(cds, "other")
			star.unsub(cds, "own", "both")
			other.leave()
			named("*", s, false, map[string]bool{"own": false, "other": false, "none": false})
		})
	}
	var none *parts
	if none.named("a", nil) || none.anyNamed(nil) {
		t.Error("a stream with one store names something in another one")
	}
}
