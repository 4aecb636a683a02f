package digest

import (
	"hash/maphash"
	"testing"
)

func TestACK4_Departed(t *testing.T) {
	h, d := NewHasher(maphash.MakeSeed()), new(Departed)
	history := func(bytes string) *History {
		var is History
		is.Note(h.Content("1", []byte(bytes)))
		return &is
	}
	if d.Take(1) != nil || d.Len() != 0 {
		t.Error("the zero value holds something")
	}
	d.Put(1, history("x"))
	if back := d.Take(1); back == nil || !back.Contradicts(h.Content("1", []byte("y"))) {
		t.Errorf("took %v back", back)
	}
	if d.Take(1) != nil || d.Len() != 0 {
		t.Error("a history was taken twice")
	}
	for key := range uint64(10 * mostDeparted) {
		d.Put(key, history("x"))
		d.Put(key/2, history("y")) // once more, of some that are among the old ones
		if d.Len() > mostDeparted {
			t.Fatalf("%d histories are held", d.Len())
		}
	}
	const last = 10*mostDeparted - 1
	for key := uint64(last); key > last-mostDeparted/8; key-- {
		if d.Take(key) == nil {
			t.Fatalf("%d is forgotten, one of the last", key)
		}
	}
	for range 2 { // of a key it holds the last one, and nothing older behind it
		d.Put(7, history("x"))
		for key := range uint64(mostDeparted / 2) {
			d.Put(last+key, history("x"))
		}
		d.Put(7, history("y"))
	}
	if back := d.Take(7); back == nil || back.Contradicts(h.Content("1", []byte("y"))) || d.Take(7) != nil {
		t.Error("not the last history came back, or one more")
	}
}

// Histories are counted while they come. The oldest half goes when there is no room for one more.
func TestACK4_DepartedLen(t *testing.T) {
	const half = mostDeparted / 2
	d := new(Departed)
	for n := 1; n <= 2*mostDeparted; n++ {
		d.Put(uint64(n), new(History))
		if want := min(n, half+(n-1)%half+1); d.Len() != want {
			t.Fatalf("of %d histories %d are held, want %d", n, d.Len(), want)
		}
	}
	for _, tc := range []struct {
		key  uint64
		held bool
	}{{mostDeparted, false}, {mostDeparted + 1, true}, {mostDeparted + half, true}, {2 * mostDeparted, true}} {
		if held := d.Take(tc.key) != nil; held != tc.held {
			t.Errorf("number %d is held: %t", tc.key, held)
		}
	}
}
