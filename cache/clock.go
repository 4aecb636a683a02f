package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// clock says since when a name is asked for on the present stream. Answered and
// dropped ones stay in the queue until their time has come, which is soon.
type clock struct {
	interest *interest
	number   uint32 // void if the interest has another
	since    time.Time
}

// startClock is called when a name is subscribed to. What is known already needs
// none: the clock never takes anything away.
func (i *interest) startClock(now time.Time) {
	t := i.table
	if t.store.source.Absent <= 0 || t.withheld || i.entry == nil || i.entry.state != unknown {
		return
	}
	t.asks++
	i.asked = t.asks
	i.entry.overdue = false
	t.clocks = append(t.clocks, clock{i, i.asked, now})
	t.store.waiting[t] = struct{}{}
}

// stopClocks is called when a stream ends or begins.
func (t *table) stopClocks() {
	t.clocks = nil
	delete(t.store.waiting, t)
}

// Withhold says whether what was taken of a type on a stream is kept back, so that the
// server was not asked for it: until it is, no clock runs (RES-7). A stream that
// begins or ends keeps nothing back.
func (s *Store) Withhold(stream wire.StreamID, typeURL string, withheld bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.carried(stream, typeURL)
	if t == nil || t.withheld == withheld {
		return
	}
	t.withheld = withheld
	t.stopClocks()
	now := t.store.cache.now()
	for _, e := range t.entries {
		e.overdue = false
		if i := e.interest; i != nil && i.subscribed {
			i.startClock(now)
		}
	}
}

// runs reports whether the name is still waited for.
func (k clock) runs() bool {
	i := k.interest
	return i.subscribed && i.asked == k.number && i.alive() && i.entry.state == unknown
}

// expireClocks does what is due for the names that were not answered in time
// (RES-7), and returns when the next one is, zero if none waits. The queue is in the
// order of time.
func (t *table) expireClocks(now time.Time) time.Time {
	for len(t.clocks) > 0 {
		k := t.clocks[0]
		if at := k.since.Add(t.store.source.Absent); k.runs() && now.Before(at) {
			return at
		}
		t.clocks[0] = clock{}
		t.clocks = t.clocks[1:]
		if k.runs() {
			t.expire(k.interest.entry, now)
		}
	}
	t.stopClocks()
	return time.Time{}
}

// expire ends the waiting for a name. An incremental server must answer a name that
// does not exist; where it does not, nobody is told so, but nobody waits.
func (t *table) expire(e *entry, now time.Time) {
	if t.store.source.State {
		t.unset(e, absent, nil, now)
		return
	}
	e.overdue = true
	for _, sub := range e.subs {
		t.store.wake(sub.watch)
	}
}

// awaited reports whether word of the name may still come soon (RES-2). While the
// stream is down it may.
func (e *entry) awaited() bool { return e.state == unknown && !e.overdue }

func (t *table) checkClocks(c *checker) {
	running := make(map[*interest]bool)
	var last time.Time
	for _, k := range t.clocks {
		c.that(!k.since.Before(last), "the clocks are out of order")
		last = k.since
		if k.runs() {
			running[k.interest] = true
		}
	}
	_, waiting := t.store.waiting[t]
	c.that(waiting == (len(t.clocks) > 0), "%d clocks, and somebody looks: %t", len(t.clocks), waiting)
	for key, e := range t.entries {
		if t.store.source.Absent > 0 && !t.withheld && e.awaited() && e.interest != nil && e.interest.subscribed {
			c.that(running[e.interest], "%q is waited for without a clock", key)
		}
	}
}
