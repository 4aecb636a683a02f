package cache

import "testing"

// Types without demand take no room from others, and have none themselves (LIM-2).
func TestRoomFor_LIM2(t *testing.T) {
	s := New(Limits{}, nil).Open(Source{})
	k := &kept{t, s}
	room := func(typeURL string, most int, want bool) {
		t.Helper()
		if got := s.HasRoomFor(typeURL, most); got != want {
			t.Errorf("there is room for %q beside %d invented types: %t", typeURL, most, got)
		}
	}
	k.store.mu.Lock()
	s.Table("made.up/A", ByName)
	k.store.mu.Unlock()
	room("made.up/A", 0, false)
	room("made.up/A", 1, true)
	k.store.mu.Lock()
	table := s.Table("made.up/A", ByName)
	table.want(table.Entry("a"))
	k.store.mu.Unlock()
	room("made.up/A", 0, true)
	room("made.up/B", 1, false)
	room("made.up/B", 2, true)
}
