package cache

import (
	priority "container/heap"
	"fmt"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// minRemaining is the least that a client is sent as the remaining TTL. Zero would be no
// TTL, and the next Settle removes a resource that is overdue.
const minRemaining = time.Millisecond

// badTTL says what is wrong with a resource's TTL.
func badTTL(r *wire.Resource) error {
	if !r.HasTTL || r.TTL() > 0 {
		return nil
	}
	return fmt.Errorf("resource %q has a ttl of %v: it must be above zero", r.Name, r.TTL())
}

// lifetime is the TTL of a resource. An entry gets one when the server first sends the
// resource with a TTL, and keeps it until the server sends other content without one: a
// client that was sent a TTL must learn that there is none any more (TTL-4). Guarded by
// Store.mu.
type lifetime struct {
	entry    *entry
	ttl      time.Duration // 0: the server removed the TTL
	deadline time.Time     // while there is a TTL
	place    int           // in lifetimes.deadlines from 1; 0: none

	// heartbeat is the number (Store.heartbeats) of the last heartbeat, or change of the
	// TTL, that came after the content; 0 if none did.
	heartbeat uint64
	listed    bool // in collection.heartbeats

	// before is the heartbeat before the last one, 0 for the content, and until the
	// deadline that it gave; zero if it gave none. A client that knows of nothing younger
	// has dropped the content by then (TTL-3).
	before uint64
	until  time.Time

	prev, next *lifetime // in collection.heartbeats

	transient *transientContent // of content that is not kept, with or without a TTL (TTL-5)

	// expired says that the TTL ran out and the entry is a tombstone. content is the
	// number of the entry's last change before that.
	expired bool
	content uint64
}

// hasTTL reports whether the resource has a TTL now. A nil lifetime has none.
func (l *lifetime) hasTTL() bool { return l != nil && l.ttl > 0 }

// ranOut reports whether the entry is a tombstone because its TTL ran out.
func (l *lifetime) ranOut() bool { return l != nil && l.expired }

// late reports whether a client may have dropped the resource before now, although the
// last heartbeat renewed it: the TTL that the client was told ran out. missed says that the
// client did not get the heartbeat before that one either (TTL-3).
func (l *lifetime) late(missed bool, now time.Time) bool {
	return missed || (!l.until.IsZero() && !now.Before(l.until))
}

// runsOut reports whether the deadline that the last heartbeat replaced comes before a time.
func (l *lifetime) runsOut(before time.Time) bool {
	return l != nil && !l.until.IsZero() && l.until.Before(before)
}

// remember keeps the deadline that clients were told so far.
func (l *lifetime) remember() {
	l.before, l.until = l.heartbeat, time.Time{}
	if l.ttl > 0 {
		l.until = l.deadline
	}
}

// hash is a hash of the content if it is not kept, else 0.
func (l *lifetime) hash() uint64 {
	if l == nil || l.transient == nil {
		return 0
	}
	return l.transient.what.Bytes
}

// lifetimes are the TTLs of a table's entries. It neither changes content nor tells
// clients: see renew.go and expire.go. Guarded by Store.mu.
type lifetimes struct {
	count     int // of entries with a lifetime
	deadlines deadlines
}

// any reports whether an entry has or had a TTL, or has content that is not kept.
func (ls *lifetimes) any() bool { return ls.count > 0 }

// start gives an entry the lifetime of its new content. The entry already has its place
// in its collection.
func (ls *lifetimes) start(e *entry, r *wire.Resource, now time.Time) {
	if !r.HasTTL {
		ls.end(e)
		return
	}
	ls.begin(e, r, nil, now)
}

// startPassed gives an entry the lifetime of new content that is not kept. It has one
// even without a TTL.
func (ls *lifetimes) startTransient(e *entry, r *wire.Resource, p *transientContent, now time.Time) {
	ls.begin(e, r, p, now)
}

func (ls *lifetimes) begin(e *entry, r *wire.Resource, p *transientContent, now time.Time) {
	l := ls.of(e)
	l.heartbeat, l.expired, l.transient = 0, false, p
	if r.HasTTL {
		ls.run(l, r.TTL(), now)
	} else {
		ls.stop(l)
		l.ttl = 0
	}
}

// of finds or makes the lifetime of an entry.
func (ls *lifetimes) of(e *entry) *lifetime {
	if e.life == nil {
		e.own().life = &lifetime{entry: e}
		ls.count++
	}
	return e.life
}

// end forgets an entry's lifetime.
func (ls *lifetimes) end(e *entry) {
	if e.life == nil {
		return
	}
	ls.stop(e.life)
	e.own().life = nil
	e.tidy()
	ls.count--
}

// remove ends the lifetime of an entry that does not exist any more. A tombstone keeps the
// lifetime that ran out: cursors must tell which clients drop the resource by themselves
// (TTL-2).
func (ls *lifetimes) remove(e *entry) {
	if e.life.ranOut() && e.dead {
		ls.stop(e.life)
		e.life.transient = nil
		return
	}
	ls.end(e)
}

// renew lets a TTL begin anew with the heartbeat of a number.
func (ls *lifetimes) renew(e *entry, ttl time.Duration, now time.Time, heartbeat uint64) {
	l := ls.of(e)
	l.remember()
	ls.run(l, ttl, now)
	l.heartbeat = heartbeat
}

// removeTTL takes back the TTL of an entry, which counts as a heartbeat.
func (ls *lifetimes) removeTTL(e *entry, heartbeat uint64) {
	l := e.life
	l.remember()
	ls.stop(l)
	l.ttl, l.heartbeat = 0, heartbeat
}

// first returns the lifetime with the earliest deadline, nil if no TTL runs.
func (ls *lifetimes) first() *lifetime {
	if len(ls.deadlines) == 0 {
		return nil
	}
	return ls.deadlines[0]
}

// run sets the deadline.
func (ls *lifetimes) run(l *lifetime, ttl time.Duration, now time.Time) {
	l.ttl, l.deadline = ttl, now.Add(ttl)
	if l.place > 0 {
		priority.Fix(&ls.deadlines, l.place-1)
	} else {
		priority.Push(&ls.deadlines, l)
	}
}

// stop removes the deadline.
func (ls *lifetimes) stop(l *lifetime) {
	if l.place > 0 {
		priority.Remove(&ls.deadlines, l.place-1)
	}
}

// deadlines is a heap of lifetimes by deadline.
type deadlines []*lifetime

func (q deadlines) Len() int           { return len(q) }
func (q deadlines) Less(i, j int) bool { return q[i].deadline.Before(q[j].deadline) }

func (q deadlines) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i+1, j+1
}

// Push is for package heap only.
func (q *deadlines) Push(x any) {
	l := x.(*lifetime)
	*q = append(*q, l)
	l.place = len(*q)
}

// Pop is for package heap only.
func (q *deadlines) Pop() any {
	last := len(*q) - 1
	l := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	l.place = 0
	return l
}

// check verifies the lifetimes of a table's entries. newest is the number of the store's
// last heartbeat.
func (ls *lifetimes) check(c *checker, entries map[string]*entry, newest uint64) {
	count, timed := 0, 0
	for _, e := range entries {
		e.life.check(c, e)
		if e.life != nil {
			count++
			timed += min(e.life.place, 1)
			c.that(e.life.heartbeat <= newest, "%q had a heartbeat in the future", e.key)
		}
	}
	c.that(count == ls.count, "%d lifetimes counted as %d", count, ls.count)
	c.that(timed == len(ls.deadlines), "%d entries run out, %d are in the heap", timed, len(ls.deadlines))
	for i, l := range ls.deadlines {
		c.that(l.place == i+1, "%q stands at %d of the heap, but says %d", l.entry.key, i+1, l.place)
		c.that(!l.deadline.Before(ls.deadlines[max(0, (i-1)/2)].deadline), "%q runs out before what is above it", l.entry.key)
	}
}

func (l *lifetime) check(c *checker, e *entry) {
	if l == nil {
		return
	}
	c.that(l.entry == e, "%q has the lifetime of another entry", e.key)
	c.that((l.place > 0) == (e.there() && l.ttl > 0), "%q is %s with a ttl of %v, but at %d in the heap", e.key, e.state, l.ttl, l.place)
	c.that(e.there() || (e.dead && l.expired), "%q has a lifetime, but is %s", e.key, e.state)
	c.that(!l.listed || e.member(), "%q has a heartbeat listed, but is no member", e.key)
}
