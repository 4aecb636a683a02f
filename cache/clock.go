package cache

import (
	"fmt"
	"iter"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// clock says since when a name or a collection is asked for on the present stream.
// A server that is shown what is held need not say anything of a collection that has
// not changed. Answered and dropped ones stay in the queue until their time has come, which is soon.
type clock struct {
	interest *interest
	number   uint32 // void if the interest has another
	since    time.Time
}

// open reports whether the server has not answered it yet.
func (i *interest) open() bool {
	if i.coll != nil {
		return !i.coll.synced && i.coll.quiet.answered.IsZero()
	}
	return i.entry.open() || i.table.variants.borrows(i.entry)
}

// open reports whether nobody knows what became of a name. An error that does not mean
// that there is no such resource leaves that open (ERR-1).
func (e *entry) open() bool {
	return e.state == unknown ||
		(e.state == failed && e.err.Transient())
}

// startClock is called when it is subscribed to. What is known already needs
// none: the clock never takes anything away.
func (i *interest) startClock(now time.Time) {
	t := i.table
	if t.store.source.Absent <= 0 || t.withheld || !i.open() {
		return
	}
	t.asks++
	i.asked = t.asks
	i.late(false)
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
	for _, t := range s.carried(stream, typeURL, nil) {
		t.withhold(withheld)
	}
}

func (t *table) withhold(withheld bool) {
	if t.withheld == withheld {
		return
	}
	t.withheld = withheld
	t.stopClocks()
	now := t.store.cache.now()
	for i := range t.all() {
		i.late(false)
		if i.subscribed {
			i.startClock(now)
		}
	}
}

// all are the interests of the table.
func (t *table) all() iter.Seq[*interest] {
	return func(yield func(*interest) bool) {
		for _, c := range t.colls {
			if !yield(c.interest) {
				return
			}
		}
		for _, e := range t.entries {
			if e.interest != nil && !yield(e.interest) {
				return
			}
		}
	}
}

// late notes whether it was asked for long ago.
func (i *interest) late(overdue bool) {
	if i.coll != nil {
		i.coll.overdue = overdue
	} else {
		i.entry.overdue = overdue
	}
}

// runs reports whether it is still waited for.
func (k clock) runs() bool {
	i := k.interest
	return i.subscribed && i.asked == k.number && i.alive() && i.open()
}

// expireClocks does what is due for what was not answered in time
// (RES-7), and returns when the next one is, zero if none waits. The queue is in the
// order of time.
func (t *table) expireClocks(now time.Time) time.Time {
	for len(t.clocks) > 0 {
		k := t.clocks[0]
		if at := k.since.Add(t.store.source.Absent); k.runs() && now.Before(at) {
			return sooner(at, t.makeRoom(k.since, now))
		}
		t.clocks[0] = clock{}
		t.clocks = t.clocks[1:]
		if k.runs() {
			t.expire(k.interest, now)
		}
	}
	t.stopClocks()
	return time.Time{}
}

// roomAfter is how long a server of the state of the world may say nothing of a name before
// names that nobody wants are let go, unless its time is less than twice that.
const roomAfter = time.Second

// makeRoom lets go of names that nobody wants beside one that has been waited for since a
// time. Each request lists all names, and java-control-plane answers none that lists what it
// has not: a name that is only kept warm (SUB-11) must not be what keeps clients waiting. It
// returns when that is due, zero if it is done.
func (t *table) makeRoom(since, now time.Time) time.Time {
	if !t.store.source.State || t.kind != byName {
		return time.Time{}
	}
	if at := since.Add(min(roomAfter, t.store.source.Absent/2)); now.Before(at) {
		return at
	}
	for _, e := range t.entries {
		if i := e.interest; i != nil && i.parked && i.subscribed {
			i.evict(ReasonSilence)
		}
	}
	return time.Time{}
}

// expire ends the waiting for a name or a collection. A server's silence does not say that
// there is nothing, so it removes nothing from anybody. A server of the state of the world
// has no other word for a name that does not exist: the clients are told that it said
// nothing (RES-7). An incremental one must answer, and goes on being waited for in silence.
func (t *table) expire(i *interest, now time.Time) {
	if i.coll == nil && t.variants.borrows(i.entry) {
		repay(t, i.entry, now)
		if !i.alive() || !i.open() {
			return
		}
	}
	i.late(true)
	if t.store.source.State && i.coll == nil && i.entry.state == unknown {
		t.unset(i.entry, failed, t.store.silence(i.entry.name()), now)
	}
	if i.coll != nil {
		for _, f := range i.coll.followers {
			f.tooLate()
			t.store.wake(f.watch)
		}
		return
	}
	for _, sub := range i.entry.subs {
		sub.tooLate()
		sub.lateLoss()
		t.store.wake(sub.watch)
	}
}

// silence is the error of a name that the server did not answer.
func (s *Store) silence(name string) *wire.ResourceError {
	return &wire.ResourceError{
		Name: name, Code: codes.Unavailable,
		Message: fmt.Sprintf("the control plane has not sent it within %v", s.source.Absent),
	}
}

// awaited reports whether word of members may still come soon (RES-2), though none has
// on this stream, or the server is not done.
func (c *collection) awaited() bool { return !c.synced && !c.overdue }

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
	for i := range t.all() {
		overdue := (i.coll != nil && i.coll.overdue) || (i.entry != nil && i.entry.overdue)
		if t.store.source.Absent > 0 && !t.withheld && i.open() && !overdue && i.subscribed {
			c.that(running[i], "%q is waited for without a clock", i.name())
		}
	}
}
