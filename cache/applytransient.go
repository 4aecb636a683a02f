package cache

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// pass hands content over to the clients without keeping it.
func (t *table) pass(e *entry, r *wire.Resource, coll *collection, now time.Time) {
	what := t.serverVersions.contentOf(r)
	h := handover{res: r, before: e.changed, timed: r.HasTTL || e.life.hasTTL()}
	h.again = e.state == transient && e.life.transient.what == what && e.err == nil
	h.listed = h.again && e.listed() != nil
	t.release(e)
	t.clearError(e)
	appear(t, e, now)
	e.state, e.tainted = transient, false
	e.received = now.UnixNano()
	t.called(e, r)
	if coll == nil {
		coll = e.coll
	}
	ofMember := h
	if !e.member() { // no client was sent it with the collection
		ofMember.again, ofMember.listed = false, false
	}
	if n := t.store.next(); coll != nil {
		if coll.live.tail != nil {
			ofMember.level = coll.live.tail.changed
		}
		coll.dropError(e.key)
		coll.touch(e, n)
		coll.transient++
		t.store.changed(coll)
	} else {
		e.changed = n
	}
	t.lifetimes.startTransient(e, r, newTransient(r, what), now)
	t.noteDeadline()
	t.serverVersions.add(e)
	e.keepTransient(r)
	t.digests.contentChanged(e)
	t.references.contentChanged(e)
	t.store.bring(e)
	for _, sub := range e.subs {
		sub.handOver(h)
	}
	if coll != nil {
		for _, f := range coll.followers {
			f.handOver(e, ofMember)
		}
	}
	if i := e.interest; i != nil && !i.watched() && !i.kept() && !i.leaving {
		i.evict(ReasonAbsent)
	}
}

// keepTransient has lists and renewals keep content that is not kept otherwise, if a client is sent
// some.
func (e *entry) keepTransient(r *wire.Resource) {
	if e.inLists() {
		e.life.transient.list = r
	}
	if e.renewedInFull() {
		e.life.transient.renew = r
	}
}

// dropTransient drops content that only lists or renewals kept, once no client is sent any
// that hold the entry.
func (t *table) dropTransient(e *entry) {
	if e.state != transient {
		return
	}
	content := e.life.transient
	if content.renew != nil && !e.renewedInFull() {
		content.renew = nil
	}
	if content.list != nil && !e.inLists() {
		content.list = nil
		t.digests.contentChanged(e)
	}
}

// dropTransient does so for all members.
func (c *collection) dropTransient() {
	if c.transient == 0 {
		return
	}
	for e := c.live.head; e != nil; e = e.next {
		c.table.dropTransient(e)
	}
}

// inLists reports whether a client is sent lists that hold the entry.
func (e *entry) inLists() bool {
	if e.member() && e.coll.states > 0 && e.coll.table.store.source.FullState[e.coll.table.typeURL] {
		return true
	}
	return slices.ContainsFunc(e.subs, func(s *nameSub) bool { return s.watch.full })
}

// renewedInFull reports whether a client is renewed with the whole resource, of a type whose
// responses need not hold everything (TTL-1).
func (e *entry) renewedInFull() bool {
	if e.member() && slices.ContainsFunc(e.coll.followers, func(f *cursor) bool { return f.watch.renewedInFull() }) {
		return true
	}
	return slices.ContainsFunc(e.subs, func(s *nameSub) bool { return s.watch.renewedInFull() })
}

// askFor has the server asked again if a client needs the content of a name that was not
// kept for it.
func (t *table) askFor(sub *nameSub) {
	e := sub.entry
	if e.state != transient || sub.watch.handedOver[sub] != nil || (sub.watch.full && e.listed() != nil) {
		return
	}
	sub.askedAgain = true
	if e.interest == nil {
		e.setInterest(t.newInterest(e, nil))
	} else {
		e.interest.ask()
	}
}

// askForTransient has the server asked again for a collection, if the collection has members
// whose content was not kept for a client that follows it from its beginning.
func (c *collection) askForTransient(w *watch) {
	if c.transient > 0 && (!w.full || c.lacksInLists()) {
		c.interest.ask()
	}
}

// ask has the server asked anew for what it is asked for already.
func (i *interest) ask() {
	if i.subscribed && !i.leaving {
		i.again, i.repeats = true, false
		i.mark()
	}
}

// checkTransient verifies the number of members that are not kept.
func (c *collection) checkTransient(check *checker) {
	n := 0
	for e := c.live.head; e != nil; e = e.next {
		if e.state == transient {
			n++
		}
	}
	check.that(n == c.transient, "%q: %d members are not kept, counted as %d", c.key, n, c.transient)
}

// checkTransient verifies what an entry remembers of content that is not kept.
func (l *lifetime) checkTransient(c *checker, e *entry) {
	if l == nil || l.transient == nil {
		c.that(e.state != transient, "%q is %s, and nothing is known of it: passed on: false", e.key, e.state)
		return
	}
	content := l.transient
	c.that(e.state == transient, "%q is %s, passed on: true", e.key, e.state)
	c.that(content.renew == nil || e.renewedInFull(), "%q is kept for renewals of nobody", e.key)
	c.that(content.list == nil || e.inLists(), "%q is kept for lists that nobody is sent", e.key)
}
