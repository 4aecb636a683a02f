package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// put puts new content into an entry, and tells its subscribers.
func (t *Table) put(e *Entry, r *wire.Resource, coll *Collection, now time.Time) {
	recordPut(t, e, r, coll, now)
	n, was := t.store.journal.nextRevision(), e.res
	t.upstream.held.drop(e)
	appear(t, e, now)
	t.dropContent(e)
	t.clearError(e)
	t.rejections.clear(e)
	e.marks.ReusedVersion = t.serverVersions.reused(e, r)
	e.res, e.state = r, Present
	if r.Restored() {
		t.addRestored()
	}
	t.shareKey(e)
	t.serverVersions.add(e)
	e.received = now.UnixNano()
	noteName(t, e, r)
	t.account(1, e.Size())
	if coll == nil {
		coll = e.coll
	}
	if coll != nil {
		dropError(coll, e.key)
		coll.touch(e, n)
		coll.bytes += e.Size()
		t.store.changes.add(coll)
	} else {
		e.changed = n
		t.unglobbed.add(e)
	}
	t.lifetimes.start(e, r, now)
	noteDeadline(t)
	t.digests.contentChanged(e)
	t.references.contentChanged(e)
	noteStrays(t, e, was, r)
	t.store.changes.bring(e)
	if e.extra.audience != nil {
		e.extra.audience.Changed()
	}
	if i := e.extra.demand; i != nil && i.idle {
		i.review()
	}
}

// remove makes an entry absent, or failed with err, and tells its subscribers.
func (t *Table) remove(e *Entry, to State, err *wire.ResourceError, now time.Time) {
	recordRemoval(t, e, err, now)
	n, content, held := t.store.journal.nextRevision(), e.changed, e.res
	t.upstream.held.drop(e)
	t.aliases.drop(e)
	t.absences.end(e)
	was, gone := e.res, !e.Exists() && !e.Open() // who was not told yet is to be told still
	t.releaseContent(e)
	t.clearError(e)
	if e.coll != nil {
		dropError(e.coll, e.key)
	}
	switch c := e.coll; {
	case c == nil:
		e.changed = n
	case e.marks.Tombstone: // who follows the collection was told, or will be
	default:
		c.remove(e, n)
		t.store.changes.add(c)
	}
	r := Removal{Was: retain(t, e, was), Again: gone, Content: content}
	e.res, e.state, e.marks.Alias, e.marks.ReusedVersion = nil, to, false, false
	e.extra.setErr(err)
	e.received = now.UnixNano()
	r.Expired = e.extra.life.ranOut()
	t.lifetimes.remove(e)
	t.digests.contentChanged(e)
	t.references.contentChanged(e)
	noteStrays(t, e, held, nil)
	if e.extra.audience != nil {
		e.extra.audience.Removed(r)
	}
	switch i := e.extra.demand; {
	case i == nil && e.wanted():
		// The relay asks for a member's name by itself now: its glob may be evicted before
		// the resource comes back (GLOB-6).
		setDemand(e, t.newDemand(e, nil))
	case i != nil && !i.subscribedTo() && !i.kept():
		i.evict(ReasonAbsent)
	case i != nil && i.idle:
		i.review()
	}
	t.forgetUnused(e)
}

// retain keeps the content that e held for the clients whose lists may still hold it. e is a
// tombstone already. It returns the content if subscriptions to the name may need it.
func retain(t *Table, e *Entry, was *wire.Resource) *wire.Resource {
	if was == nil || t.digests.users == 0 || !t.store.source.FullState[t.typeURL] || !RankOf(t.typeURL).Waits() {
		return nil
	}
	if e.marks.Tombstone && e.coll.states > 0 {
		e.coll.retained.add(e, was)
	}
	return was
}

// clearError forgets the error of an entry (ERR-1).
func (t *Table) clearError(e *Entry) {
	if e.extra.err == nil {
		return
	}
	e.extra.setErr(nil)
	t.excuses.drop(e)
	if e.extra.audience != nil {
		e.extra.audience.Recovered()
	}
}

// releaseContent takes the content off an entry that is about to change.
func (t *Table) releaseContent(e *Entry) {
	t.dropContent(e)
	t.rejections.clear(e)
	t.shareKey(e)
}

// dropContent drops the content, if the relay holds some.
func (t *Table) dropContent(e *Entry) {
	if e.res == nil {
		return
	}
	t.account(-1, -e.Size())
	if e.Restored() {
		t.dropRestored()
	}
	t.serverVersions.leave(e)
	if e.coll != nil {
		e.coll.bytes -= e.Size()
	}
	t.serverVersions.remember(e)
	e.res = nil
}

// noteName records how the server spells the name. The resolver asks by key: there the spelling
// of the other store plays no part.
func noteName(t *Table, e *Entry, r *wire.Resource) {
	if !e.marks.Alias && !t.store.source.Resolved {
		e.extra.spell(e.key, r.Name)
	}
}

// noteDeadline has Settle look at a table in which a TTL has begun to run.
func noteDeadline(t *Table) {
	if len(t.lifetimes.deadlines) == 1 { // the table is listed already if there are more
		t.store.due.ttls[t] = struct{}{}
	}
}

// appear is called when there is something under a name after all. The server's answer that there
// is nothing is not true any more for its other names either: the relay asks for them again.
func appear(t *Table, e *Entry, now time.Time) {
	answer := e.extra.absence.Answer()
	t.absences.end(e)
	if answer == nil {
		return
	}
	for _, alias := range answer.Aliases() {
		key, err := keyer.Key(alias)
		if err != nil {
			continue
		}
		o := t.entries[key]
		if o == nil || o.extra.absence.Answer() != answer {
			continue
		}
		t.absences.end(o)
		o.state = Unknown
		if i := o.extra.demand; i != nil && i.subscribed {
			i.repeat()
			i.startClock(now)
		}
	}
}

// returned records that the server sent a resource again that was held beside an error.
// The content is due for clients: they remember the error until they are sent the resource.
func returned(t *Table, e *Entry) {
	t.clearError(e)
	n := t.store.journal.nextRevision()
	if e.Member() {
		dropError(e.coll, e.key)
		e.coll.touch(e, n)
		t.store.changes.add(e.coll)
	} else {
		e.changed = n
	}
	if e.extra.audience != nil {
		e.extra.audience.Changed()
	}
}
