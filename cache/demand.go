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
func (i *demand) name() string {
	if i.coll != nil {
		return i.coll.key
	}
	return i.entry.key
}

// subscribedTo reports whether a client subscribes to it, or it is pinned.
func (i *demand) subscribedTo() bool {
	if i.coll != nil {
		return len(i.coll.followers) > 0 || i.coll.pinned
	}
	return i.entry.wanted()
}

// kept reports whether the demand may stay idle. A name that does not exist may not, and neither
// may content that is not to be cached (TTL-5). A name that the server does not answer may stay: a
// returning client need not wait again (ABS-3).
func (i *demand) kept() bool {
	if i.table.unheard() {
		return false // clients may invent any number of types
	}
	return !i.passing() && (i.coll != nil || i.entry.state == Present || i.entry.Open())
}

// subscribe records that the server is asked for it now, and returns the name to ask for.
func (i *demand) subscribe(now time.Time) string {
	i.subscribed, i.again, i.repeats, i.waits = true, false, false, false
	i.opening, i.unlisted = false, false
	i.leaveOut(false)
	i.startClock(now)
	return i.name()
}

// leaveOut records whether requests have no room for a name.
func (i *demand) leaveOut(out bool) {
	if i.leftOut == out {
		return
	}
	i.leftOut = out
	if out {
		i.table.demands.leftOut++
	} else {
		i.table.demands.leftOut--
	}
}

// empty reports whether the relay holds nothing because of it.
func (i *demand) empty() bool {
	if i.coll != nil {
		return i.coll.log.live.len == 0
	}
	return i.entry.res == nil
}

// want makes sure that the server is asked, and that nothing evicts the demand. It cancels an
// eviction whose unsubscribe was not taken yet.
func (i *demand) want() {
	if i.idle && i.subscribed && i.open() {
		i.table.store.demandSignal.send() // the session asks anew when to Settle: a client waits now (makeRoom)
	}
	i.leaveIdle()
	i.stay()
	if !i.subscribed {
		i.mark()
	}
}

// leaveIdle takes it out of the LRU, if it is there.
func (i *demand) leaveIdle() {
	if i.idle {
		i.idle = false
		i.table.store.cache.removeIdle(i)
		i.table.demands.leaveIdle(i)
	}
}

// review notes whether it is vacant: idle, and there is nothing to keep.
func (i *demand) review() {
	s := i.table.store
	if i.vacant() {
		s.vacant.add(i, len(i.name()))
		s.cache.addVacant(i, len(i.name()))
	} else if s.vacant.remove(i) {
		s.cache.removeVacant(i)
	}
}

// vacant reports whether it is an idle name without an answer, or an idle collection without members. Names of
// which the server said that there is nothing are not idle (kept).
func (i *demand) vacant() bool { return i.idle && i.empty() }

// stay cancels its eviction, if it is evicted.
func (i *demand) stay() {
	if i.evicting {
		i.evicting = false
		i.table.store.cache.countEvicting(weight{-i.weight.resources, -i.weight.bytes})
		i.weight = weight{}
	}
}

// weigh estimates how much memory its drop frees.
func (i *demand) weigh() weight {
	if i.entry != nil {
		if i.entry.state != Present || i.entry.Member() {
			return weight{}
		}
		return weight{1, i.entry.Size()}
	}
	return weight{int64(i.coll.log.live.len), i.coll.bytes}
}

// mark queues the demand: the session is to tell the server something of it.
func (i *demand) mark() {
	i.table.demands.add(i)
	i.table.store.demandSignal.send()
}

// alive reports whether it was not dropped.
func (i *demand) alive() bool {
	if i.coll != nil {
		return i.table.colls[i.coll.key] == i.coll
	}
	return i.entry.extra.demand == i
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
func (i *demand) repeat() {
	if i.again || !i.subscribed || i.evicting {
		return
	}
	i.again, i.repeats = true, true
	i.mark()
}

// ask has the session ask the server for the demand once more.
func (i *demand) ask() {
	if i.subscribed && !i.evicting {
		i.again, i.repeats = true, false
		i.mark()
	}
}

// startClock is called when the server is asked for it. A known answer needs no clock: a clock
// never takes anything away.
func (i *demand) startClock(now time.Time) {
	t := i.table
	if t.store.source.Absent <= 0 || t.demands.clocks.withheld || !i.open() {
		return
	}
	i.late(false)
	t.demands.clocks.start(i, now)
	t.store.due.clocks[t] = struct{}{}
}

// late records whether the server was asked long ago.
func (i *demand) late(overdue bool) {
	if i.coll != nil {
		i.coll.quiet.overdue = overdue
	} else {
		i.entry.marks.Overdue = overdue
	}
}

// open reports whether the server has not answered yet. Restored content is no answer.
func (i *demand) open() bool {
	if i.coll != nil {
		return !i.coll.quiet.synced && i.coll.quiet.answered.IsZero()
	}
	return i.entry.Open() || i.entry.Restored()
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
