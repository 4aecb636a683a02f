package cache

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

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

// Types that clients invent and let go of take no memory while the stream goes on that others use, or the server is
// away (LIM-3).
func TestInventedTypesAreForgotten_LIM3(t *testing.T) {
	for kind, tt := range map[string]struct {
		name string
		lost bool
	}{"names": {"a", false}, "globs": {"xdstp://x/made.up/*", false}, "names without a stream": {"a", true}} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Limits{}, nil).Open(Source{ResumeQuiet: 15 * time.Second})
				session := s.Session()
				s.Pin(cds, Name{Key: "a"})
				session.Restart(wire.StreamID{}, 0)
				if tt.lost {
					session.Lost(wire.StreamID{})
				}
				for i := range 10 * maxTables {
					typeURL := fmt.Sprintf("made.up/T%d", i)
					s.Pin(typeURL, Name{Key: tt.name})
					if !tt.lost {
						session.TakeDemand(wire.StreamID{})
					}
					s.Unpin(typeURL, Name{Key: tt.name})
					if !tt.lost {
						session.TakeDemand(wire.StreamID{})
					}
					time.Sleep(time.Second)
				}
				if got := len(s.tables); got > maxTables {
					t.Errorf("%d tables, want at most %d", got, maxTables)
				}
				if s.FindTable(cds, ByName) == nil {
					t.Error("the table that is wanted was dropped")
				}
			})
		})
	}
}
