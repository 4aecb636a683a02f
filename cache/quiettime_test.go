package cache

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
)

// A member that is not confirmed on one stream is not confirmed on the next one either (RES-14).
func TestQuietTimeDistrust_RES14(t *testing.T) {
	var q quietTime
	e := new(Entry)
	q.enter(e)
	q.distrust(e)
	q.distrust(e)
	if !q.isStale(e) || q.stale != 1 {
		t.Fatalf("it is stale: %t, of %d", q.isStale(e), q.stale)
	}
	q.doubt(e, func(*Entry) bool { return true })
	if !q.isStale(e) || q.stale != 1 {
		t.Errorf("on the next stream it is stale: %t, of %d", q.isStale(e), q.stale)
	}
}

// A server takes three seconds for each answer. A response that comes after a collection was asked for may answer what was
// asked for before: then the collection is not complete a second later.
func TestBehindAnotherQuestion_RES2(t *testing.T) {
	for _, state := range []bool{true, false} {
		for name, tc := range map[string]struct {
			asked    time.Duration // when the collection is asked for; a name is at 0
			answered []time.Duration
			complete time.Duration
		}{
			"beside it":                {0, []time.Duration{3 * time.Second}, 4 * time.Second},
			"behind it":                {time.Second, []time.Duration{3 * time.Second}, 12 * time.Second},
			"behind it, just before":   {3*time.Second - 1, []time.Duration{3 * time.Second}, 12 * time.Second},
			"behind it, both answered": {time.Second, []time.Duration{3 * time.Second, 4 * time.Second}, 12 * time.Second},
			"once that was answered":   {4 * time.Second, []time.Duration{3 * time.Second, 7 * time.Second}, 8 * time.Second},
			"where that is not there":  {time.Minute, []time.Duration{63 * time.Second}, 64 * time.Second},
		} {
			k, begin := newTimed(t, Source{State: state, Quiet: time.Second, ResumeQuiet: 15 * time.Second})
			at := func(d time.Duration) { k.store.cache.Now = func() time.Time { return begin.Add(d) } }
			l := k.listener(NeedsStream)
			l.watch(globTwo)
			if tc.asked > 0 {
				k.demand(WholeType)
			}
			follow := func() {
				at(tc.asked)
				l.follow(glob)
				k.demand(WholeType)
			}
			followed := false
			for _, d := range tc.answered {
				if !followed && tc.asked <= d {
					follow()
					followed = true
				}
				at(d)
				r := words.Response(cds, "+"+globTwo+"@1")
				r.State = state
				k.applyAt(begin.Add(d), WholeType, r)
			}
			for _, early := range []time.Duration{1, 0} {
				k.store.Session().Settle(begin.Add(tc.complete - early))
				if c := k.store.FindTable(cds, ByName).colls[glob]; c.quiet.synced != (early == 0) {
					t.Errorf("%s, state of the world: %t: complete %v before its time: %t", name, state, early, c.quiet.synced)
				}
			}
			k.check()
		}
	}
}
