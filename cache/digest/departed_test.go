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
