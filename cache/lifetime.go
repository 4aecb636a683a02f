package cache

import (
	priority "container/heap"
	"fmt"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// MinRemaining is the least that a client is sent as the remaining TTL. Zero would be no
// TTL, and the next Settle removes a resource that is overdue.
const MinRemaining = time.Millisecond

// badTTL returns the error of a resource's TTL, nil for none.
func badTTL(r *wire.Resource) error {
	if !r.HasTTL || r.TTL() > 0 {
		return nil
	}
	return fmt.Errorf("resource %q has a ttl of %v: it must be above zero", r.Name, r.TTL())
}

// Lifetime is the TTL of a resource. An entry gets one when the server first sends the resource
// with a TTL, and keeps it until the server sends other content without one: a client that was sent
// a TTL must learn that there is none any more (TTL-4). Guarded by Store.mu.
type Lifetime struct {
	entry    *Entry
	ttl      time.Duration // 0: the server removed the TTL
	deadline time.Time     // while there is a TTL
	place    int           // in lifetimes.deadlines from 1; 0: none

	// heartbeat is the number (journal.heartbeats) of the last heartbeat, or change of the
	// TTL, that came after the content; 0 if none did.
	heartbeat uint64
	listed    bool // in collection.heartbeats

	// before is the heartbeat before the last one, 0 for the content, and until the
	// deadline that it gave; zero if it gave none. A client that knows of nothing younger
	// has dropped the content by then (TTL-3).
	before uint64
	until  time.Time

	prev, next *Lifetime // in collection.heartbeats

	// expired says that the TTL ran out and the entry is a tombstone. content is the
	// number of the entry's last change before that.
	expired bool
	content uint64
}

// HasTTL reports whether the resource has a TTL now. A nil lifetime has none.
func (l *Lifetime) HasTTL() bool { return l != nil && l.ttl > 0 }

// ranOut reports whether the entry is a tombstone because its TTL ran out.
func (l *Lifetime) ranOut() bool { return l != nil && l.expired }

// Late reports whether a client may have dropped the resource before now, although the
// last heartbeat renewed it: the TTL that the client was told ran out. missed says that the
// client did not get the heartbeat before that one either (TTL-3).
func (l *Lifetime) Late(missed bool, now time.Time) bool {
	return missed || (!l.until.IsZero() && !now.Before(l.until))
}

// RunsOut reports whether the deadline that the last heartbeat replaced comes before a time.
func (l *Lifetime) RunsOut(before time.Time) bool {
	return l != nil && !l.until.IsZero() && l.until.Before(before)
}

// remember keeps the deadline that clients were told so far.
func (l *Lifetime) remember() {
	l.before, l.until = l.heartbeat, time.Time{}
	if l.ttl > 0 {
		l.until = l.deadline
	}
}

// lifetimes are the TTLs of a table's entries. It neither changes content nor tells
// clients: see renew.go and settle.go. Guarded by Store.mu.
type lifetimes struct {
	count     int // of entries with a lifetime
	deadlines deadlines
}

// any reports whether an entry has or had a TTL.
func (ls *lifetimes) any() bool { return ls.count > 0 }

// start gives an entry the lifetime of its new content. The entry already has its place
// in its collection.
func (ls *lifetimes) start(e *Entry, r *wire.Resource, now time.Time) {
	if !r.HasTTL {
		ls.end(e)
		return
	}
	l := ls.of(e)
	l.heartbeat, l.expired = 0, false
	ls.run(l, r.TTL(), now)
}

// of finds or makes the lifetime of an entry.
func (ls *lifetimes) of(e *Entry) *Lifetime {
	if e.extra.life == nil {
		e.extra.own().life = &Lifetime{entry: e}
		ls.count++
	}
	return e.extra.life
}

// end forgets an entry's lifetime.
func (ls *lifetimes) end(e *Entry) {
	if e.extra.life == nil {
		return
	}
	ls.stop(e.extra.life)
	e.extra.own().life = nil
	e.extra.tidy()
	ls.count--
}

// remove ends the lifetime of an entry that does not exist any more. A tombstone keeps the lifetime
// that ran out: cursors must tell which clients drop the resource by themselves (TTL-2).
func (ls *lifetimes) remove(e *Entry) {
	if e.extra.life.ranOut() && e.marks.Tombstone {
		ls.stop(e.extra.life)
		return
	}
	ls.end(e)
}

// renew lets a TTL begin anew with the heartbeat of a number.
func (ls *lifetimes) renew(e *Entry, ttl time.Duration, now time.Time, heartbeat uint64) {
	l := ls.of(e)
	l.remember()
	ls.run(l, ttl, now)
	l.heartbeat = heartbeat
}

// removeTTL takes back the TTL of an entry, which counts as a heartbeat.
func (ls *lifetimes) removeTTL(e *Entry, heartbeat uint64) {
	l := e.extra.life
	l.remember()
	ls.stop(l)
	l.ttl, l.heartbeat = 0, heartbeat
}

// first returns the lifetime with the earliest deadline, nil if no TTL runs.
func (ls *lifetimes) first() *Lifetime {
	if len(ls.deadlines) == 0 {
		return nil
	}
	return ls.deadlines[0]
}

// run sets the deadline.
func (ls *lifetimes) run(l *Lifetime, ttl time.Duration, now time.Time) {
	l.ttl, l.deadline = ttl, now.Add(ttl)
	if l.place > 0 {
		priority.Fix(&ls.deadlines, l.place-1)
	} else {
		priority.Push(&ls.deadlines, l)
	}
}

// stop removes the deadline.
func (ls *lifetimes) stop(l *Lifetime) {
	if l.place > 0 {
		priority.Remove(&ls.deadlines, l.place-1)
	}
}

// deadlines is a heap of lifetimes by deadline.
type deadlines []*Lifetime

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].deadline.Before(d[j].deadline) }

func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i+1, j+1
}

// Push is for package heap only.
func (d *deadlines) Push(x any) {
	l := x.(*Lifetime)
	*d = append(*d, l)
	l.place = len(*d)
}

// Pop is for package heap only.
func (d *deadlines) Pop() any {
	last := len(*d) - 1
	l := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	l.place = 0
	return l
}

// check verifies the lifetimes of a table's entries. newest is the number of the store's
// last heartbeat.
func (ls *lifetimes) check(c *Checker, entries map[string]*Entry, newest uint64) {
	count, timed := 0, 0
	for _, e := range entries {
		e.extra.life.check(c, e)
		if e.extra.life != nil {
			count++
			timed += min(e.extra.life.place, 1)
			c.That(e.extra.life.heartbeat <= newest, "%q had a heartbeat in the future", e.key)
		}
	}
	c.That(count == ls.count, "%d lifetimes counted as %d", count, ls.count)
	c.That(timed == len(ls.deadlines), "%d entries run out, %d are in the heap", timed, len(ls.deadlines))
	for i, l := range ls.deadlines {
		c.That(l.place == i+1, "%q stands at %d of the heap, but says %d", l.entry.key, i+1, l.place)
		c.That(!l.deadline.Before(ls.deadlines[max(0, (i-1)/2)].deadline), "%q runs out before what is above it", l.entry.key)
	}
}

func (l *Lifetime) check(c *Checker, e *Entry) {
	if l == nil {
		return
	}
	c.That(l.entry == e, "%q has the lifetime of another entry", e.key)
	c.That((l.place > 0) == (e.Exists() && l.ttl > 0), "%q is %s with a ttl of %v, but at %d in the heap", e.key, e.state, l.ttl, l.place)
	c.That(e.Exists() || (e.marks.Tombstone && l.expired), "%q has a lifetime, but is %s", e.key, e.state)
	c.That(!l.listed || e.Member(), "%q has a heartbeat listed, but is no member", e.key)
}

// Entry is the entry that has the ttl.
func (l *Lifetime) Entry() *Entry { return l.entry }

// TTL is how long the resource lives after the last heartbeat; 0: the server removed the ttl.
func (l *Lifetime) TTL() time.Duration { return l.ttl }

// Deadline is when the ttl runs out, if there is one.
func (l *Lifetime) Deadline() time.Time { return l.deadline }

// Number is that of the last heartbeat, 0 if none came after the content.
func (l *Lifetime) Number() uint64 { return l.heartbeat }

// Before is the number of the heartbeat before the last one.
func (l *Lifetime) Before() uint64 { return l.before }

// Next is the lifetime in the collection with the next heartbeat, nil for none.
func (l *Lifetime) Next() *Lifetime { return l.next }

// Content is, of a tombstone whose ttl ran out, the revision of the content before that.
func (l *Lifetime) Content() uint64 { return l.content }
