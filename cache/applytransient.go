package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// handOver hands content over to the clients without keeping it.
func handOver(t *Table, e *Entry, r *wire.Resource, coll *Collection, now time.Time) {
	t.upstream.held.drop(e)
	what := t.serverVersions.contentOf(r)
	h := Handover{Resource: r, Before: e.changed, Timed: r.HasTTL || e.extra.life.HasTTL()}
	h.Again = e.state == Transient && e.extra.life.transient.what == what && e.extra.err == nil
	h.Listed = h.Again && e.Listed() != nil
	t.releaseContent(e)
	t.clearError(e)
	appear(t, e, now)
	e.state, e.marks.ReusedVersion = Transient, t.serverVersions.reused(e, r)
	e.received = now.UnixNano()
	noteName(t, e, r)
	if coll == nil {
		coll = e.coll
	}
	ofMember := h
	if !e.Member() { // no client was sent it with the collection
		ofMember.Again, ofMember.Listed = false, false
	}
	if n := t.store.journal.nextRevision(); coll != nil {
		if coll.log.live.tail != nil {
			ofMember.Level = coll.log.live.tail.changed
		}
		dropError(coll, e.key)
		coll.touch(e, n)
		coll.transient++
		t.store.changes.add(coll)
	} else {
		e.changed = n
	}
	t.lifetimes.begin(e, r, newTransient(r, what), now)
	noteDeadline(t)
	t.serverVersions.add(e)
	keepTransient(e, r)
	t.digests.contentChanged(e)
	t.references.contentChanged(e)
	t.store.changes.bring(e)
	if e.extra.audience != nil {
		e.extra.audience.HandOver(h)
	}
	if coll != nil {
		for _, f := range coll.followers {
			f.follower.HandOver(e, ofMember)
		}
	}
	if i := e.extra.demand; i != nil && !i.subscribedTo() && !i.kept() && !i.evicting {
		i.evict(ReasonAbsent)
	}
}

// keepTransient has lists and renewals keep content that is not kept otherwise, if a client is sent
// some.
func keepTransient(e *Entry, r *wire.Resource) {
	if inLists(e) {
		e.extra.life.transient.list = r
	}
	if renewedInFull(e) {
		e.extra.life.transient.renew = r
	}
}

// dropTransient drops content that only lists or renewals kept, once no client is sent any
// that hold the entry.
func dropTransient(t *Table, e *Entry) {
	if e.state != Transient {
		return
	}
	content := e.extra.life.transient
	if content.renew != nil && !renewedInFull(e) {
		content.renew = nil
	}
	if content.list != nil && !inLists(e) {
		content.list = nil
		t.digests.contentChanged(e)
	}
}

// dropTransientMembers does so for all members.
func dropTransientMembers(c *Collection) {
	if c.transient == 0 {
		return
	}
	for e := c.log.live.head; e != nil; e = e.next {
		dropTransient(c.table, e)
	}
}

// inLists reports whether a client is sent lists that hold the entry.
func inLists(e *Entry) bool {
	if e.Member() && e.coll.states > 0 && e.coll.table.store.source.FullState[e.coll.table.typeURL] {
		return true
	}
	return e.extra.audience != nil && e.extra.audience.Any(NeedsLists)
}

// renewedInFull reports whether a client is renewed with the whole resource, of a type whose
// responses need not hold everything (TTL-1).
func renewedInFull(e *Entry) bool {
	if e.Member() && e.coll.followers.any(NeedsWhole) {
		return true
	}
	return e.extra.audience != nil && e.extra.audience.Any(NeedsWhole)
}

// AskFor has the server asked again for a name, since a client needs its content, which was
// not kept.
func (t *Table) AskFor(e *Entry) {
	if e.extra.demand == nil {
		setDemand(e, t.newDemand(e, nil))
	} else {
		e.extra.demand.ask()
	}
}

// checkTransientMembers verifies the number of members that are not kept.
func checkTransientMembers(c *Collection, check *Checker) {
	n := 0
	for e := c.log.live.head; e != nil; e = e.next {
		if e.state == Transient {
			n++
		}
	}
	check.That(n == c.transient, "%q: %d members are not kept, counted as %d", c.key, n, c.transient)
}

// checkTransient verifies what an entry has of transient content.
func (l *Lifetime) checkTransient(c *Checker, e *Entry) {
	if l == nil || l.transient == nil {
		c.That(e.state != Transient, "%q is %s, and nothing is known of it: passed on: false", e.key, e.state)
		return
	}
	content := l.transient
	c.That(e.state == Transient, "%q is %s, passed on: true", e.key, e.state)
	c.That(content.renew == nil || renewedInFull(e), "%q is kept for renewals of nobody", e.key)
	c.That(content.list == nil || inLists(e), "%q is kept for lists that nobody is sent", e.key)
}

// AskForTransient has the server asked again for a collection, if the collection has members
// whose content was not kept for a client that follows it from its beginning.
func (c *Collection) AskForTransient(needs Needs) {
	if c.transient > 0 && (!needs.Has(NeedsLists) || c.LacksInLists()) {
		c.demand.ask()
	}
}
