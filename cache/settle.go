package cache

import (
	"fmt"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// Settle ends the quiet time of collections at now. They are complete then: members that clients
// present and the relay does not hold do not exist. Later Settle removes the members that the
// server has not confirmed since the stream began. It also ends the clocks of names
// (Source.Absent), evicts strays (SUB-11), releases losses whose hold has ended (SUR-3, GATE-4),
// and removes resources whose ttl ran out (TTL-2). It returns when to call it again, zero if
// nothing waits. The session asks anew after TakeDemand and Restart.
func (s Session) Settle(now time.Time) time.Time {
	var next time.Time
	s.store.change(func() {
		for t := range s.store.due.clocks { // first: a collection does not wait for a name whose clock has ended
			next = notify.Earlier(next, t.expireClocks(now))
		}
		for c := range s.store.due.unsettled {
			at := c.settlesAt()
			if !at.IsZero() && !now.Before(at) {
				c.table.settleCollection(c, now)
				at = c.settlesAt()
			}
			if at.IsZero() {
				delete(s.store.due.unsettled, c)
			}
			next = notify.Earlier(next, at)
		}
		next = notify.Earlier(next, s.store.expireStrays(now))
		s.store.releaseDue(now)
		next = notify.Earlier(next, s.store.thaw(now))
		for t := range s.store.due.ttls {
			next = notify.Earlier(next, t.expireTTLs(now))
		}
		s.store.reviewHeld()
		next = notify.Earlier(next, s.store.due.held.clock.Until())
	})
	return next
}

// settlesAt is when the quiet time of a collection ends; zero if there is none. The server has long to send
// what it must send.
func (c *Collection) settlesAt() time.Time {
	source := &c.table.store.source
	if c.owesMembers() {
		long := max(source.longQuiet(), source.Absent) // so that the clocks of its names have ended
		return c.quiet.end(long, long)
	}
	return c.quiet.end(source.Quiet, source.longQuiet())
}

func (t *Table) settleCollection(c *Collection, now time.Time) {
	if !c.quiet.synced {
		if c.owesMembers() {
			switch {
			case !t.behindRelay():
				c.quiet.trustAll(c.log.live.head) // the server takes versions for names only, and has these
			case !c.owesLateNames():
				c.reopen() // its own control plane may be away: it waits for that
				return
			}
		}
		t.completed(c)
		return
	}
	t.guardLoss(loss{lost: c.quiet.stale}, now)
	for e := c.log.live.head; e != nil && c.quiet.stale > 0; {
		next := e.next
		// A name with its own subscription is answered by itself.
		if c.quiet.isStale(e) {
			if e.extra.demand != nil && e.extra.demand.subscribed && t.kind == ByName {
				c.quiet.trust(e)
			} else {
				t.lose(e, now)
			}
		}
		e = next
	}
}

// completed records that the server has sent all members, and rings the clients that wait for this.
func (t *Table) completed(c *Collection) {
	c.quiet.complete()
	t.store.journal.completed++
	t.confirmMembers(c)
	for _, f := range c.followers {
		if f.follower.AwaitsMembers() {
			t.store.journal.ringType(f.bell)
		}
	}
}

// expireTTLs removes the resources whose TTL has run out at now, whether the server can be
// reached or not (TTL-2). It returns when the next TTL runs out, zero if none runs.
func (t *Table) expireTTLs(now time.Time) time.Time {
	for l := t.lifetimes.first(); l != nil; l = t.lifetimes.first() {
		if now.Before(l.deadline) {
			return l.deadline
		}
		l.expired, l.content = true, l.entry.changed
		t.store.cache.observer.Expired(t.typeURL)
		t.removeReleased(l.entry, Absent, nil, now)
	}
	delete(t.store.due.ttls, t)
	return time.Time{}
}

// expireClocks ends the waiting for answers that did not come in time (RES-7). It returns when
// the next clock ends, zero if none runs.
func (t *Table) expireClocks(now time.Time) time.Time {
	for len(t.demands.clocks.queue) > 0 {
		k := t.demands.clocks.queue[0]
		if at := k.since.Add(t.store.source.Absent); k.runs() && now.Before(at) {
			return notify.Earlier(at, t.makeRoom(now))
		}
		t.demands.clocks.queue[0] = clock{}
		t.demands.clocks.queue = t.demands.clocks.queue[1:]
		if k.runs() {
			t.expireDemand(k.demand, now)
		}
	}
	t.stopClocks()
	return time.Time{}
}

// makeRoom evicts idle names if the server has not answered a client's name for roomAfter. Each
// request lists all names, and java-control-plane answers no request with an unknown name: a name
// that is only kept warm (SUB-11) must not keep clients waiting. It returns when that is due,
// zero if it is done.
func (t *Table) makeRoom(now time.Time) time.Time {
	if !t.store.source.State || t.kind != ByName {
		return time.Time{}
	}
	since, waits := t.demands.clocks.silent()
	if !waits {
		return time.Time{}
	}
	if at := since.Add(min(roomAfter, t.store.source.Absent/2)); now.Before(at) {
		return at
	}
	for i := range t.demands.idle {
		if i.subscribed && !t.upstream.held.frozen() {
			i.evict(ReasonSilence)
		}
	}
	return time.Time{}
}

// expireDemand ends the waiting for a name or a collection. Silence does not say that there is
// nothing, so it removes nothing. A server of the state of the world cannot say that a name does
// not exist: the clients are told that it said nothing (RES-7). An incremental server must
// answer. There the relay waits on in silence.
func (t *Table) expireDemand(i *demand, now time.Time) {
	if i.coll == nil && i.entry.Open() && t.answerHeld(i.entry, now) {
		return
	}
	i.late(true)
	if i.coll != nil {
		for _, f := range i.coll.followers {
			f.follower.Overdue()
			t.store.journal.ringType(f.bell)
		}
		i.coll.askAnew()
		return
	}
	var why func(name string) *wire.ResourceError
	if t.store.source.State {
		why = func(name string) *wire.ResourceError { return t.store.errSilence(name) }
	}
	t.waitNoLonger(i.entry, why, now)
}

// waitNoLonger tells the clients of a name not to wait for the server's word. why gives the error that they
// have if nothing is known of the name; nil: none.
func (t *Table) waitNoLonger(e *Entry, why func(name string) *wire.ResourceError, now time.Time) {
	if why != nil && e.state == Unknown {
		t.become(e, content{state: Failed, err: why(e.Name())}, said, now)
	}
	e.notify(Notice{Event: Overdue})
}

// errSilence is the error of a name that the server did not answer.
func (s *Store) errSilence(name string) *wire.ResourceError {
	return &wire.ResourceError{
		Name: name, Code: codes.Unavailable,
		Message: fmt.Sprintf("the control plane has not sent it within %v", s.source.Absent),
	}
}
