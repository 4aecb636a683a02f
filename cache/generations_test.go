package cache

import (
	"testing"
	"time"
)

// While a burst of changes goes on, clients have the state before it. What was before the oldest state that is
// remembered is not known (GATE-4).
func TestGenerationAt_GATE4(t *testing.T) {
	begin := time.Now()
	after := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	for _, tc := range []struct {
		name    string
		changes []int // seconds
		forget  bool
		at      int
		want    uint64
		unknown bool
	}{
		{name: "before the store", at: -1, unknown: true},
		{name: "without a change", want: 0},
		{name: "before the first change", changes: []int{10, 11, 20}, at: -1, unknown: true},
		{name: "from the beginning", changes: []int{10, 11, 20}, at: 0},
		{name: "in a burst", changes: []int{10, 11, 20}, at: 10},
		{name: "behind a burst", changes: []int{10, 11, 20}, at: 11, want: 1},
		{name: "behind the last one", changes: []int{10, 11, 20}, at: 20, want: 2},
		{name: "before what is remembered", changes: []int{10, 11, 20}, forget: true, at: 9, unknown: true, want: 1},
		{name: "in what is remembered", changes: []int{10, 11, 20}, forget: true, at: 11, want: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKept(t)
			p := &k.store.changes.past
			p.since = begin
			for _, at := range tc.changes {
				p.burst(after(at))
			}
			if tc.forget {
				p.forget()
			}
			if number, ok := k.store.Operator().GenerationAt(after(tc.at)); ok == tc.unknown || ok && number != tc.want {
				t.Errorf("state %d, known: %t", number, ok)
			}
		})
	}
}
