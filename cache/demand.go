package cache

import (
	"maps"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/smallmap"
)

// demand is something that the relay asks its server for: one name, a glob or "*". It exists from
// the first subscription until the session takes its unsubscribe. Guarded by Store.mu.
type demand struct {
	table *Table
	entry *Entry      // a name; or
	coll  *Collection // a glob or "*"

	weight     weight // counted in Cache.evicting while evicted
	asked      uint32 // number of its clock in demandQueue.clocks
	pending    int32  // place in demandQueue.pending from 1: the server is to be told something
	subscribed bool   // on the stream as it is now
	idle       bool   // no client subscribes to it: in the LRU
	again      bool   // to be asked for anew, though it is subscribed to
	repeats    bool   // again, by subscribing once more and no unsubscribing (RES-16)
	waits      bool   // for the stream to begin anew; TakeDemand has said so
	evicting   bool   // evicted: to be dropped when its unsubscribe is taken
	leftOut    bool   // a name for which requests have no room; see LeaveOut
	passes     bool   // what the resolver reads for it is not to be cached (TTL-5)
	opening    bool   // a name in the first request of the stream: no list there answers an older one
	unlisted   bool   // opening, and such a list did not have it (RES-7)
}

// name is what goes upstream: the canonical spelling, which serves all clients (NAME-3).
func (d *demand) name() string {
	if d.coll != nil {
		return d.coll.key
	}
	return d.entry.key
}

// subscribedTo reports whether a client subscribes to it, or it is pinned.
func (d *demand) subscribedTo() bool {
	if d.coll != nil {
		return len(d.coll.followers) > 0 || d.coll.pinned
	}
	return d.entry.wanted()
}

// kept reports whether the demand may stay idle. A name that does not exist may not, and neither
// may content that is not to be cached (TTL-5). A name that the server does not answer may stay: a
// returning client need not wait again (ABS-3).
func (d *demand) kept() bool {
	if d.table.unheard() {
		return false // clients may invent any number of types
	}
	return !d.passing() && (d.coll != nil || d.entry.state == Present || d.entry.Open())
}

// subscribe records that the server is asked for it now, and returns the name to ask for.
func (d *demand) subscribe(now time.Time) string {
	d.subscribed, d.again, d.repeats, d.waits = true, false, false, false
	d.opening, d.unlisted = false, false
	d.leaveOut(false)
	d.startClock(now)
	return d.name()
}

// leaveOut records whether requests have no room for a name.
func (d *demand) leaveOut(out bool) {
	if d.leftOut == out {
		return
	}
	d.leftOut = out
	if out {
		d.table.demands.leftOut++
	} else {
		d.table.demands.leftOut--
	}
}

// empty reports whether the relay holds nothing because of it.
func (d *demand) empty() bool {
	if d.coll != nil {
		return d.coll.log.live.len == 0
	}
	return d.entry.res == nil
}

// want makes sure that the server is asked, and that nothing evicts the demand. It cancels an
// eviction whose unsubscribe was not taken yet.
func (d *demand) want() {
	if d.idle && d.subscribed && d.open() {
		d.table.store.demandSignal.send() // the session asks anew when to Settle: a client waits now (makeRoom)
	}
	d.leaveIdle()
	d.stay()
	if !d.subscribed {
		d.mark()
	}
}

// leaveIdle takes it out of the LRU, if it is there.
func (d *demand) leaveIdle() {
	if d.idle {
		d.idle = false
		d.table.store.cache.removeIdle(d)
		d.table.demands.leaveIdle(d)
	}
}

// review notes whether it is vacant: idle, and there is nothing to keep.
func (d *demand) review() {
	s := d.table.store
	if d.vacant() {
		s.vacant.add(d, len(d.name()))
		s.cache.addVacant(d, len(d.name()))
	} else if s.vacant.remove(d) {
		s.cache.removeVacant(d)
	}
}

// vacant reports whether it is an idle name without an answer, or an idle collection without members. Names of
// which the server said that there is nothing are not idle (kept).
func (d *demand) vacant() bool { return d.idle && d.empty() }

// stay cancels its eviction, if it is evicted.
func (d *demand) stay() {
	if d.evicting {
		d.evicting = false
		d.table.store.cache.countEvicting(weight{-d.weight.resources, -d.weight.bytes})
		d.weight = weight{}
	}
}

// weigh estimates how much memory its drop frees.
func (d *demand) weigh() weight {
	if d.entry != nil {
		if d.entry.state != Present || d.entry.Member() {
			return weight{}
		}
		return weight{1, d.entry.Size()}
	}
	return weight{int64(d.coll.log.live.len), d.coll.bytes}
}

// mark queues the demand: the session is to tell the server something of it.
func (d *demand) mark() {
	d.table.demands.add(d)
	d.table.store.demandSignal.send()
}

// alive reports whether it was not dropped.
func (d *demand) alive() bool {
	if d.coll != nil {
		return d.table.colls[d.coll.key] == d.coll
	}
	return d.entry.extra.demand == d
}

// newDemand has the server asked for a name or a collection.
func (t *Table) newDemand(e *Entry, c *Collection) *demand {
	t.assignStream()
	i := &demand{table: t, entry: e, coll: c}
	t.demands.count++
	i.mark()
	return i
}

// repeat has the server asked for a name once more, without an unsubscribe: a server might answer
// that with a removal, which would go to all clients (SUB-6, SUB-8).
func (d *demand) repeat() {
	if d.again || !d.subscribed || d.evicting {
		return
	}
	d.again, d.repeats = true, true
	d.mark()
}

// ask has the session ask the server for the demand once more.
func (d *demand) ask() {
	if d.subscribed && !d.evicting {
		d.again, d.repeats = true, false
		d.mark()
	}
}

// startClock is called when the server is asked for it. A known answer needs no clock: a clock
// never takes anything away.
func (d *demand) startClock(now time.Time) {
	t := d.table
	if t.store.source.Absent <= 0 || t.demands.clocks.withheld || !d.open() {
		return
	}
	d.late(false)
	t.demands.clocks.start(d, now)
	t.store.due.clocks[t] = struct{}{}
}

// late records whether the server was asked long ago.
func (d *demand) late(overdue bool) {
	if d.coll != nil {
		d.coll.quiet.overdue = overdue
	} else {
		d.entry.marks.Overdue = overdue
	}
}

// open reports whether the server has not answered yet. Restored content is no answer.
func (d *demand) open() bool {
	if d.coll != nil {
		return !d.coll.quiet.synced && d.coll.quiet.answered.IsZero()
	}
	return d.entry.Open() || d.entry.Restored()
}

// demandQueue is the demand of a table. The session tells the server of the pending part. Guarded
// by Store.mu.
type demandQueue struct {
	count   int       // names and collections that the server is asked for, or will be
	leftOut int       // names for which requests have no room
	pending []*demand // the server is to be told something of them

	idle map[*demand]struct{} // names that no client subscribes to

	clocks clocks
	pins   map[string]int // by key of a name or a glob; see Pin

	// unsubscribed is what was unsubscribed lately on the present stream: collections, also
	// those of names; and names, if they share a stream with "*".
	unsubscribed map[string]time.Time
}

// add puts a demand on the list, if it is not there.
func (q *demandQueue) add(i *demand) {
	if i.pending == 0 {
		q.pending = append(q.pending, i)
		i.pending = int32(len(q.pending))
	}
}

// remove takes a demand off the list, if it is there.
func (q *demandQueue) remove(i *demand) {
	if i.pending == 0 {
		return
	}
	last := len(q.pending) - 1
	q.pending[i.pending-1] = q.pending[last]
	q.pending[i.pending-1].pending = i.pending
	q.pending[last] = nil
	q.pending = q.pending[:last]
	i.pending = 0
}

// addIdle notes that a demand has become idle.
func (q *demandQueue) addIdle(i *demand) {
	if i.entry != nil {
		q.idle = with(q.idle, i)
	}
	i.review()
}

// leaveIdle notes that a demand is not idle any more.
func (q *demandQueue) leaveIdle(i *demand) {
	if i.entry != nil {
		q.idle = smallmap.Without(q.idle, i)
	}
	i.table.store.vacant.remove(i)
}

// restart forgets the queue of the stream before.
func (q *demandQueue) restart() { q.pending, q.unsubscribed = nil, nil }

// asks reports whether the server is to be asked for something.
func (q *demandQueue) asks() bool {
	return slices.ContainsFunc(q.pending, func(i *demand) bool { return !i.evicting })
}

// asksNow reports whether the server is to be asked for something on the stream as it is.
func (q *demandQueue) asksNow() bool {
	return slices.ContainsFunc(q.pending, func(i *demand) bool { return !i.evicting && !i.waits })
}

// maxUnsubscribed is the number of unsubscribed keys from which on old ones are forgotten.
const maxUnsubscribed = 1024

// tidy forgets keys that were unsubscribed before a time, if there are many keys.
func (q *demandQueue) tidy(quiet time.Duration, now time.Time) {
	if len(q.unsubscribed) >= maxUnsubscribed {
		q.forgetUnsubscribed(quiet, now)
	}
}

func (q *demandQueue) forgetUnsubscribed(quiet time.Duration, now time.Time) {
	maps.DeleteFunc(q.unsubscribed, func(_ string, at time.Time) bool { return now.Sub(at) > quiet })
}

// unsubscribe records that the server is told that a key is not wanted any more.
func (q *demandQueue) unsubscribe(key string, now time.Time) {
	if q.unsubscribed == nil {
		q.unsubscribed = make(map[string]time.Time)
	}
	q.unsubscribed[key] = now
}

// lately reports whether a key was unsubscribed, and whether that is no longer ago than a
// time: responses for it may still be on their way.
func (q *demandQueue) lately(key string, quiet time.Duration, now time.Time) (unsubscribed, lately bool) {
	at, ok := q.unsubscribed[key]
	return ok, ok && now.Sub(at) <= quiet
}

// check verifies the lists and returns what is pending as a set.
func (q *demandQueue) check(c *Checker, t *Table) map[*demand]bool {
	idle, leftOut := 0, 0
	for i := range t.allDemands() {
		if i.leftOut {
			leftOut++
		}
		if _, listed := q.idle[i]; i.entry != nil && i.idle {
			idle++
			c.That(listed, "%q is idle, but not listed so", i.name())
		}
	}
	c.That(leftOut == q.leftOut, "requests have no room for %d names, counted as %d", leftOut, q.leftOut)
	c.That(idle == len(q.idle), "%d names are idle, %d are listed so", idle, len(q.idle))
	pending := make(map[*demand]bool)
	for at, i := range q.pending {
		c.That(!pending[i], "%q is pending twice", i.name())
		c.That(int(i.pending) == at+1, "%q is pending at %d, but says %d", i.name(), at+1, i.pending)
		pending[i] = true
	}
	return pending
}
