package cache

import (
	"fmt"
	"testing"
	"time"
)

// The first entry behind a number is found from wherever it is looked for: the ends, or the entry with that number.
func TestListAfter(t *testing.T) {
	for n := range 8 {
		var l list
		c := new(Collection)
		entries := make([]*Entry, n)
		for i := range entries {
			entries[i] = newEntry(fmt.Sprint(i))
			entries[i].changed, entries[i].coll = uint64(10*i+10), c
			l.push(entries[i])
		}
		for number := range uint64(10*n + 20) {
			var want, at *Entry
			for _, e := range entries {
				if e.changed == number {
					at = e
				}
				if want == nil && e.changed > number {
					want = e
				}
			}
			for _, hint := range []*Entry{nil, at} {
				if got := l.after(number, hint, c); got != want {
					t.Errorf("of %d, behind %d with the hint %v: found %v, want %v", n, number, hint, got, want)
				}
			}
		}
	}
}

// A cluster came back for a client that was told of its removal and not of its return.
func TestCameBack_WARM3(t *testing.T) {
	e := newEntry("c")
	if e.CameBack(0, 0) {
		t.Error("it was never away")
	}
	e.extra.setBack(comeback{removed: 5, came: 7})
	for _, tc := range []struct {
		since, removed uint64
		want           bool
	}{
		{6, 5, true}, {6, 6, true}, // told of the removal
		{6, 4, false}, // not told of it
		{7, 5, false}, // told of the return
	} {
		if got := e.CameBack(tc.since, tc.removed); got != tc.want {
			t.Errorf("for a client that was sent members up to %d and removals up to %d: %t", tc.since, tc.removed, got)
		}
	}
}

// A deadline runs out before a time, but not at it, and only if there is one (TTL-3).
func TestLifetimeRunsOut_TTL3(t *testing.T) {
	now := time.Now()
	for _, tc := range []struct {
		name string
		l    *Lifetime
		want bool
	}{
		{"no lifetime", nil, false},
		{"no deadline before the last heartbeat", new(Lifetime), false},
		{"before", &Lifetime{until: now.Add(-1)}, true},
		{"at the time", &Lifetime{until: now}, false},
	} {
		if got := tc.l.RunsOut(now); got != tc.want {
			t.Errorf("%s: it runs out: %t", tc.name, got)
		}
	}
}
