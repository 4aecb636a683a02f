package delivery

import (
	"fmt"
	"slices"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

// A response remembers what it had as ranges of changes: one for members of a collection that were sent one after the
// other (ACK-3).
func TestFlightSpans_ACK3(t *testing.T) {
	f, g := new(follower), new(follower)
	type sent struct {
		of       *follower
		from, to uint64
		joined   bool
	}
	for _, tc := range []struct {
		name string
		sent []sent
		want []span
	}{
		{"nothing", nil, nil},
		{"one", []sent{{f, 1, 2, false}}, []span{{f, 1, 2}}},
		{"one after the other", []sent{{f, 1, 2, false}, {f, 2, 3, true}, {f, 3, 7, true}}, []span{{f, 1, 7}}},
		{"with another one between", []sent{{f, 1, 2, false}, {f, 3, 4, false}}, []span{{f, 1, 2}, {f, 3, 4}}},
		{"after a gap", []sent{{f, 1, 2, false}, {f, 3, 4, false}, {f, 4, 5, true}}, []span{{f, 1, 2}, {f, 3, 5}}},
		{"of two collections", []sent{{f, 1, 2, false}, {g, 1, 3, false}, {g, 3, 4, true}}, []span{{f, 1, 2}, {g, 1, 4}}},
		{"the next collection", []sent{{f, 1, 2, false}, {g, 2, 3, true}}, []span{{f, 1, 2}, {g, 2, 3}}},
		{"of both again", []sent{{f, 1, 2, false}, {g, 1, 3, false}, {f, 2, 4, false}, {f, 4, 5, true}}, []span{{f, 1, 2}, {g, 1, 3}, {f, 2, 5}}},
	} {
		var x flight
		for _, s := range tc.sent {
			x.add(s.of, s.from, s.to, s.joined)
		}
		if got := slices.Collect(x.spans()); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// So many names are remembered of removals, and no more.
func TestFlightRemoves_ACK3(t *testing.T) {
	var x flight
	for i := range 2 * maxRemovedKept {
		x.removes(fmt.Sprint(i))
		if want := min(i+1, maxRemovedKept); !x.removed || len(x.gone()) != want {
			t.Fatalf("%d names are remembered of %d, want %d", len(x.gone()), i+1, want)
		}
	}
}

// A client lacks the content that it rejected, and no other content of the same name (TTL-3).
func TestRejectionsLack_ACK3_TTL3(t *testing.T) {
	pending, alone, other := new(cache.Entry), new(cache.Entry), new(cache.Entry)
	a := &rejections{
		pending: map[*cache.Entry]uint64{pending: 2},
		alone:   map[string]*rejected{alone.Key(): {item: item{entry: alone, changed: 3}}},
	}
	for _, tc := range []struct {
		of     *rejections
		entry  *cache.Entry
		number uint64
		want   bool
	}{
		{a, pending, 2, true}, {a, pending, 3, false}, {a, pending, 0, false},
		{a, alone, 3, true}, {a, alone, 2, false},
		{a, other, 2, false}, {a, other, 0, false},
		{nil, pending, 2, false},
	} {
		if got := tc.of.lacks(tc.entry, tc.number); got != tc.want {
			t.Errorf("it lacks change %d: %t, want %t", tc.number, got, tc.want)
		}
	}
}
