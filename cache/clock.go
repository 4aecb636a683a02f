package cache

import (
	"iter"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// clock is the time at which the server was asked for a name or a collection on the present
// stream. A server that was shown versions need not answer for a collection that has not changed.
// Clocks of answered and dropped demands may stay in the queue until their time has come.
type clock struct {
	demand *demand
	number uint32 // void if the demand has another
	since  time.Time
}

// clocks are the clocks of a table, in the order of time. Guarded by Store.mu.
type clocks struct {
	queue    []clock
	sweepAt  int // length of the queue from which on void clocks are taken out
	started  uint32
	withheld bool // the server was asked for nothing, though all is subscribed: no clock runs
}

// start starts the clock of a demand, in place of the one before.
func (k *clocks) start(i *demand, now time.Time) {
	k.started++
	i.asked = k.started
	k.queue = append(k.queue, clock{i, i.asked, now})
	if len(k.queue) >= k.sweepAt {
		k.sweep()
	}
}

// minClocks is the number of clocks from which on void ones are taken out before their time has come.
const minClocks = 1024

// sweep takes void clocks out, when there are as many as there were running ones: each keeps a name in
// memory that may be long gone (LIM-3).
func (k *clocks) sweep() {
	k.queue = slices.Clone(slices.DeleteFunc(k.queue, func(c clock) bool { return !c.runs() }))
	k.sweepAt = max(minClocks, 2*len(k.queue))
}

// run reports whether something is waited for.
func (k *clocks) run() bool { return slices.ContainsFunc(k.queue, clock.runs) }

// silent returns since when the server has said nothing of a demand that a client waits for. An
// error that leaves a name open is no silence.
func (k *clocks) silent() (since time.Time, waits bool) {
	for _, c := range k.queue { // at most sweepAt
		if c.runs() && c.demand.subscribedTo() && (c.demand.coll != nil || c.demand.entry.state == Unknown) {
			return c.since, true
		}
	}
	return time.Time{}, false
}

// check verifies the order of the clocks and returns the demands that are waited for.
func (k *clocks) check(c *Checker) map[*demand]bool {
	running := make(map[*demand]bool)
	var last time.Time
	for _, x := range k.queue {
		c.That(!x.since.Before(last), "the clocks are out of order")
		last = x.since
		running[x.demand] = running[x.demand] || x.runs()
	}
	return running
}

// stopClocks is called when a stream ends or begins.
func (t *Table) stopClocks() {
	t.demands.clocks.queue, t.demands.clocks.sweepAt = nil, 0
	delete(t.store.due.clocks, t)
}

// Withhold says whether the session keeps back what it took of a type on a stream, so that the
// server was not asked. Meanwhile no clock runs (RES-7). A stream that begins or ends keeps
// nothing back.
func (s Session) Withhold(stream wire.StreamID, typeURL string, withheld bool) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for _, t := range s.carried(stream, typeURL, nil) {
		t.withhold(withheld)
	}
}

func (t *Table) withhold(withheld bool) {
	if t.demands.clocks.withheld == withheld {
		return
	}
	t.demands.clocks.withheld = withheld
	t.stopClocks()
	now := t.store.cache.Now()
	for i := range t.allDemands() {
		i.late(false)
		if i.subscribed {
			i.startClock(now)
		}
	}
}

// allDemands returns the demands of a table.
func (t *Table) allDemands() iter.Seq[*demand] {
	return func(yield func(*demand) bool) {
		for _, c := range t.colls {
			if !yield(c.demand) {
				return
			}
		}
		for _, e := range t.entries {
			if e.extra.demand != nil && !yield(e.extra.demand) {
				return
			}
		}
	}
}

// runs reports whether the relay still waits for the answer.
func (c clock) runs() bool {
	i := c.demand
	return i.subscribed && i.asked == c.number && i.alive() && i.open()
}

// Awaited reports whether the server may soon name members (RES-2): it is not done, and was asked
// not long ago.
func (c *Collection) Awaited() bool { return !c.quiet.synced && !c.quiet.overdue }

func (t *Table) checkClocks(c *Checker) {
	running := t.demands.clocks.check(c)
	_, waiting := t.store.due.clocks[t]
	c.That(waiting == (len(t.demands.clocks.queue) > 0), "%d clocks, and somebody looks: %t", len(t.demands.clocks.queue), waiting)
	for i := range t.allDemands() {
		overdue := (i.coll != nil && i.coll.quiet.overdue) || (i.entry != nil && i.entry.marks.Overdue)
		if t.store.source.Absent > 0 && !t.demands.clocks.withheld && i.open() && !overdue && i.subscribed {
			c.That(running[i], "%q is waited for without a clock", i.name())
		}
	}
}
