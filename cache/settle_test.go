package cache

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
)

// newTimed has a store with a clock that stands still.
func newTimed(tb testing.TB, source Source) (*kept, time.Time) {
	tb.Helper()
	at := time.Unix(1_000_000, 0)
	c := New(Limits{}, nil)
	c.Now = func() time.Time { return at }
	return &kept{tb, c.Open(source)}, at
}

// Idle names make room for one that a client waits for, after a second, or sooner where clients do not wait that long. Frozen
// ones stay (RES-7, GATE-4).
func TestMakeRoom_RES7_GATE4(t *testing.T) {
	for _, tc := range []struct {
		absent, at time.Duration
		frozen     bool
		gone       bool
	}{
		{time.Minute, roomAfter - 1, false, false},
		{time.Minute, roomAfter, false, true},
		{time.Second, time.Second/2 - 1, false, false},
		{time.Second, time.Second / 2, false, true},
		{time.Minute, roomAfter, true, false},
	} {
		k, begin := newTimed(t, Source{State: true, Absent: tc.absent})
		l := k.listener(NeedsStream)
		l.watch("idle")
		k.demand(WholeType)
		list := words.Response(cds, "+idle@1")
		list.State = true
		k.apply(WholeType, list)
		l.unwatch("idle")
		l.watch("new")
		k.demand(WholeType)
		if tc.frozen {
			k.freeze()
		}
		k.store.Session().Settle(begin.Add(tc.at))
		k.check()
		if _, unsubscribed := k.demand(WholeType); len(unsubscribed) == 1 != tc.gone {
			t.Errorf("after %v of %v %q are let go, want one: %t", tc.at, tc.absent, unsubscribed, tc.gone)
		}
	}
}
