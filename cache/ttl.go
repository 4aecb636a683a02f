package cache

import (
	priority "container/heap"
	"fmt"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// lifetime is the ttl of a resource. An entry gets one when the server first sends
// it with a ttl, and keeps it until other content comes without one: clients that
// were sent a ttl must learn that it is gone (TTL-4). Guarded by Store.mu.
type lifetime struct {
	table    *table
	entry    *entry
	ttl      time.Duration // 0: the server took it back
	deadline time.Time     // while there is a ttl
	place    int           // in Store.expiry from 1

	// beat is the number of the last heartbeat, or change of the ttl, that came
	// after the content (Store.beats); 0 if none did. Those of members stand in
	// collection.beats in the order of their numbers.
	beat   uint64
	listed bool

	// before is the beat before the last one, 0 for the content, and until the deadline
	// that it gave; zero if it gave none. Who knows of nothing younger has dropped the
	// content by then (TTL-3).
	before uint64
	until  time.Time

	prev, next *lifetime // in collection.beats

	passed *passed // of what is relayed, with or without a ttl (TTL-5)

	// The content ran out: the entry is a tombstone, and content is its number
	// before it became one.
	expired bool
	content uint64
}

// minRemaining is the least that a client is sent as the remaining ttl: zero would
// be none, and what is already overdue is expired by the next Settle.
const minRemaining = time.Millisecond

// badTTL says what is wrong with a resource's ttl.
func badTTL(r *wire.Resource) error {
	if !r.HasTTL || r.TTL() > 0 {
		return nil
	}
	return fmt.Errorf("resource %q has a ttl of %v: it must be above zero", r.Name, r.TTL())
}

// live gives an entry the lifetime of its new content. It comes after the entry
// has its place in its collection.
func (t *table) live(e *entry, r *wire.Resource, now time.Time) {
	if !r.HasTTL {
		t.endLife(e)
		return
	}
	l := t.lifeOf(e)
	l.beat, l.expired, l.passed = 0, false, nil
	l.run(r.TTL(), now)
}

// lifeOf finds or makes the lifetime of an entry.
func (t *table) lifeOf(e *entry) *lifetime {
	if e.life == nil {
		e.own().life = &lifetime{table: t, entry: e}
		t.lives++
		if e.coll != nil {
			e.coll.runs.drop()
		}
	}
	return e.life
}

// endLife forgets an entry's lifetime.
func (t *table) endLife(e *entry) {
	if e.life == nil {
		return
	}
	e.life.stop()
	e.own().life = nil
	e.tidy()
	t.lives--
}

// resent takes the ttl of content that an entry holds already (TTL-4).
func (t *table) resent(e *entry, r *wire.Resource, now time.Time) {
	switch {
	case r.HasTTL:
		t.renew(e, r.TTL(), now)
	case e.life != nil && e.life.ttl > 0:
		e.life.remember()
		e.life.stop()
		e.life.ttl = 0
		t.beat(e)
	}
}

// heartbeat renews the ttl of what r, which has no payload, speaks of, and reports
// whether there is anything. A heartbeat without a ttl renews the one that there is.
func (u *update) heartbeat(t *table, key string, r *wire.Resource) bool {
	held := false
	if e := t.entries[key]; e != nil && !e.alias {
		held = u.renewed(t, e, r)
	}
	for _, e := range t.aliases.of(key) {
		held = u.renewed(t, e, r) || held
	}
	return held
}

// renewed carries out a heartbeat for an entry, and reports whether it is for it.
func (u *update) renewed(t *table, e *entry, r *wire.Resource) bool {
	if !u.speaksOf(t, e, r.Version) {
		return false
	}
	if e.member() {
		e.coll.confirm(e, false, u.received)
	}
	if r.HasTTL {
		t.renew(e, r.TTL(), u.received)
	} else if e.life != nil && e.life.ttl > 0 {
		t.renew(e, e.life.ttl, u.received)
	}
	return true
}

// holds reports whether an entry's content is what the server calls version v.
func (e *entry) holds(v string) bool { return e.res != nil && e.res.Version == v }

// speaksOf reports whether a heartbeat with version v is for the content of e: it has
// that version. In the state of the world servers may say no version there, or the
// version_info; then a response of the state that is held is meant (TTL-3).
func (u *update) speaksOf(t *table, e *entry, v string) bool {
	has := func(v string) bool { return e.holds(v) || t.serverVersions.relayed(e, v) }
	if has(v) {
		return true
	}
	if u.state == nil || !e.there() || u.state.VersionInfo == "" || u.state.VersionInfo != t.serverVersions.info {
		return false
	}
	return v == "" || v == u.state.VersionInfo || has("")
}

// renew lets a ttl begin anew, and has the clients told that can do ttl.
func (t *table) renew(e *entry, ttl time.Duration, now time.Time) {
	l := t.lifeOf(e)
	l.remember()
	l.run(ttl, now)
	t.beat(e)
}

// remember keeps what the clients were told so far.
func (l *lifetime) remember() {
	l.before, l.until = l.beat, time.Time{}
	if l.ttl > 0 {
		l.until = l.deadline
	}
}

// beat numbers a heartbeat and notes whom to tell. The latest replaces those that
// were not told yet.
func (t *table) beat(e *entry) {
	s := t.store
	s.beats++
	e.life.beat = s.beats
	lifted := e.life.ttl == 0
	if e.member() {
		e.coll.beats.remove(e.life)
		e.coll.beats.push(e.life)
		if lifted {
			e.coll.lifted = s.beats
		}
		if e.coll.timed > 0 && !e.coll.beaten {
			e.coll.beaten = true
			s.beaten = append(s.beaten, e.coll)
		}
	}
	for _, sub := range e.subs {
		switch form := sub.watch.client.form; {
		case !form.TTL:
		case form.State && lifted:
			sub.repeat() // the only word for it is the content (TTL-4)
		default:
			sub.renew()
		}
	}
}

// renew makes a heartbeat known to the subscription's client, unless the content
// is on its way to it anyway.
func (n *nameSub) renew() {
	if n.dirty || n.lacks {
		n.missed = n.beat
		return
	}
	n.dirty, n.beat, n.missed = true, true, false
	n.watch.dirty = append(n.watch.dirty, n)
	n.watch.client.store.wake(n.watch)
}

// wakeBeaten wakes the clients that can do ttl in the collections with heartbeats.
func (s *Store) wakeBeaten() {
	for i, c := range s.beaten {
		c.beaten = false
		s.rouse(&c.rested.timed)
		s.beaten[i] = nil
	}
	s.beaten = s.beaten[:0]
}

// expire drops what has run out at now, whether the server can be reached or not
// (TTL-2). It returns when the next one does, zero if none has a ttl.
func (s *Store) expire(now time.Time) time.Time {
	for len(s.expiry) > 0 {
		l := s.expiry[0]
		if now.Before(l.deadline) {
			return l.deadline
		}
		l.expired, l.content = true, l.entry.changed
		s.cache.observer.Expired(l.table.typeURL)
		l.table.variants.expired(l.entry)
		l.table.unset(l.entry, absent, nil, now)
	}
	return time.Time{}
}

// die ends the lifetime of an entry that is not there any more. What ran out keeps
// it as a tombstone, so that cursors can tell who drops it without a word.
func (t *table) die(e *entry) {
	if l := e.life; l != nil && l.expired && e.dead {
		l.stop()
		l.passed = nil
		return
	}
	t.endLife(e)
}

// drops reports whether the client has dropped what expired by itself, and notes
// it: it can do ttl, was sent all there was to know, did not reject it, and waits for no
// answer. The content came with the change of that number.
func (n *nameSub) drops(content uint64) bool {
	if !n.watch.client.form.TTL || !n.holds || n.dirty || n.lacks {
		return false
	}
	if n.watch.refused || n.watch.lacksChange(n.entry, content) {
		return false
	}
	n.holds, n.last = false, nil
	return true
}

// run sets the clock.
func (l *lifetime) run(ttl time.Duration, now time.Time) {
	l.ttl, l.deadline = ttl, now.Add(ttl)
	if q := &l.table.store.expiry; l.place > 0 {
		priority.Fix(q, l.place-1)
	} else {
		priority.Push(q, l)
	}
}

// stop stops it.
func (l *lifetime) stop() {
	if l.place > 0 {
		priority.Remove(&l.table.store.expiry, l.place-1)
	}
}

// expiry is a heap of lifetimes by deadline.
type expiry []*lifetime

func (q expiry) Len() int           { return len(q) }
func (q expiry) Less(i, j int) bool { return q[i].deadline.Before(q[j].deadline) }

func (q expiry) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i+1, j+1
}

// Push is for package heap only.
func (q *expiry) Push(x any) {
	l := x.(*lifetime)
	*q = append(*q, l)
	l.place = len(*q)
}

// Pop is for package heap only.
func (q *expiry) Pop() any {
	last := len(*q) - 1
	l := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	l.place = 0
	return l
}

// beatList is an intrusive list of lifetimes ordered by lifetime.beat.
type beatList struct{ head, tail *lifetime }

func (b *beatList) push(l *lifetime) {
	l.prev, l.next, l.listed = b.tail, nil, true
	if b.tail == nil {
		b.head = l
	} else {
		b.tail.next = l
	}
	b.tail = l
}

// remove takes l off the list, if there is an l and it is there.
func (b *beatList) remove(l *lifetime) {
	if l == nil || !l.listed {
		return
	}
	if l.prev == nil {
		b.head = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next == nil {
		b.tail = l.prev
	} else {
		l.next.prev = l.prev
	}
	l.prev, l.next, l.listed = nil, nil, false
}

// after returns the first heartbeat with a number above n. It takes as many steps
// as there are.
func (b *beatList) after(n uint64) *lifetime {
	if b.tail == nil || b.tail.beat <= n {
		return nil
	}
	l := b.tail
	for l.prev != nil && l.prev.beat > n {
		l = l.prev
	}
	return l
}
