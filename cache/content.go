package cache

import (
	"cmp"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// content is what an entry comes to hold: a resource, or none.
type content struct {
	state State
	res   *wire.Resource      // of Present
	coll  *Collection         // that it becomes a member of with res, if it is in none yet
	err   *wire.ResourceError // why there is nothing
}

// cause is why an entry changes.
type cause uint8

const (
	said      cause = iota // somebody says what there is: subscribers are told
	repeated               // the server has the same content: the bytes may be others
	unsaid                 // there is nothing, and the server has not said so
	forgotten              // nobody subscribes any more: the entry goes
)

// become is the only writer of Entry.state and Entry.res. What the content before meant to the features of the
// relay ends in leave; what the new one means begins in enter.
func (t *Table) become(e *Entry, to content, why cause, at time.Time) {
	if why == said {
		t.announce(e, &to, at)
	}
	was, n := e.res, Notice{Again: !e.Exists() && !e.Open(), Content: e.changed} // a client that was not told yet is to be told still
	t.leave(e, &to, why)
	if before, after := e.state.settled(), to.state.settled(); before && !after {
		t.usage.settled--
	} else if after && !before {
		t.usage.settled++
	}
	e.res, e.state = to.res, to.state
	t.enter(e, was, &to, why, &n, at)
}

// announce ends what was to become of an entry otherwise.
func (t *Table) announce(e *Entry, to *content, at time.Time) {
	if to.res != nil {
		t.recordPut(e, to.res, to.coll, at)
		t.upstream.held.drop(e)
		t.appear(e, at)
		return
	}
	t.recordRemoval(e, to.err, at)
	t.upstream.held.drop(e)
	t.aliases.drop(e)
	t.absences.end(e)
}

// leave ends what the content of an entry means, which is there still: what is counted of it, the versions of
// the server, and what clients were told of it.
func (t *Table) leave(e *Entry, to *content, why cause) {
	switch {
	case e.res == nil:
	case why == repeated:
		if e.Restored() && !to.res.Restored() {
			t.dropRestored()
		}
	default:
		t.account(-1, -e.Size())
		if e.Restored() {
			t.dropRestored()
		}
		t.serverVersions.leave(e)
		if e.coll != nil {
			e.coll.bytes -= e.Size()
		}
		if why != forgotten {
			t.serverVersions.remember(e)
		}
	}
	if why == said {
		t.clearError(e)
		t.rejections.clear(e)
	}
}

// enter begins what new content, or the lack of any, means, and tells the subscribers.
func (t *Table) enter(e *Entry, was *wire.Resource, to *content, why cause, n *Notice, at time.Time) {
	switch why {
	case said:
		t.shareKey(e)
		e.received = at.UnixNano()
		if to.res != nil {
			t.come(e, to, at)
		} else {
			t.depart(e, was, to, n)
		}
		t.digests.contentChanged(e)
	case repeated:
		t.shareKey(e)
		if e.coll != nil {
			e.coll.encoded.chunks.drop() // they refer to the resource
		}
		return
	case unsaid:
		e.extra.setErr(to.err)
		return
	case forgotten: // nobody is told, and no digest has it
	}
	t.references.contentChanged(e)
	t.noteStrays(e, was, to.res)
	if why == said {
		t.tell(e, to, n)
	}
}

// come gives new content its place.
func (t *Table) come(e *Entry, to *content, at time.Time) {
	e.marks.ReusedVersion = t.serverVersions.reused(e, to.res)
	if e.Restored() {
		t.addRestored()
	}
	t.serverVersions.add(e)
	t.noteName(e, to.res)
	t.account(1, e.Size())
	n := t.store.journal.nextRevision()
	if coll := cmp.Or(to.coll, e.coll); coll != nil {
		coll.dropError(e.key)
		coll.touch(e, n)
		coll.bytes += e.Size()
		t.store.changes.add(coll)
	} else {
		e.changed = n
		t.unglobbed.add(e)
	}
	t.lifetimes.start(e, to.res, at)
	t.noteDeadline()
}

// depart takes an entry without content out of its place.
func (t *Table) depart(e *Entry, was *wire.Resource, to *content, n *Notice) {
	if e.coll != nil {
		e.coll.dropError(e.key)
	}
	number := t.store.journal.nextRevision()
	switch c := e.coll; {
	case c == nil:
		e.changed = number
	case e.marks.Tombstone: // who follows the collection was told, or will be
	default:
		c.remove(e, number)
		t.store.changes.add(c)
	}
	n.Retained = t.retain(e, was)
	e.marks.Alias, e.marks.ReusedVersion = false, false
	e.extra.setErr(to.err)
	n.Expired = e.extra.life.ranOut()
	t.lifetimes.remove(e)
}

// tell tells the subscribers of an entry, and reviews the relay's own demand for it.
func (t *Table) tell(e *Entry, to *content, n *Notice) {
	if to.res != nil {
		t.store.changes.bring(e)
		e.notify(*n)
		if i := e.extra.demand; i != nil && i.idle {
			i.review()
		}
		return
	}
	n.Event = Removed
	e.notify(*n)
	switch i := e.extra.demand; {
	case i == nil && e.wanted():
		// The relay asks for a member's name by itself now: its glob may be evicted before
		// the resource comes back (GLOB-6).
		e.setDemand(t.newDemand(e, nil))
	case i != nil && !i.subscribedTo() && !i.kept():
		i.evict(ReasonAbsent)
	case i != nil && i.idle:
		i.review()
	}
	t.forgetUnused(e)
}

// retain keeps the content that e held for the clients whose lists may still hold it. e is a
// tombstone already. It returns the content if subscriptions to the name may need it.
func (t *Table) retain(e *Entry, was *wire.Resource) *wire.Resource {
	if was == nil || t.digests.users == 0 || !t.store.source.FullState[t.typeURL] || !xds.RankOf(t.typeURL).Waits() {
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
	e.notify(Notice{Event: Recovered})
}

// noteName records how the server spells the name. The resolver asks by key: there the spelling
// of the other store plays no part.
func (t *Table) noteName(e *Entry, r *wire.Resource) {
	if !e.marks.Alias && !t.store.source.Resolved {
		e.extra.spell(e.key, r.Name)
	}
}

// noteDeadline has Settle look at a table in which a TTL has begun to run.
func (t *Table) noteDeadline() {
	if len(t.lifetimes.deadlines) == 1 { // the table is listed already if there are more
		t.store.due.ttls[t] = struct{}{}
	}
}

// appear is called when there is something under a name after all. The server's answer that there
// is nothing is not true any more for its other names either: the relay asks for them again.
func (t *Table) appear(e *Entry, now time.Time) {
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
		t.become(o, content{state: Unknown}, unsaid, now)
		if i := o.extra.demand; i != nil && i.subscribed {
			i.repeat()
			i.startClock(now)
		}
	}
}

// returned records that the server sent a resource again that was held beside an error.
// The content is due for clients: they remember the error until they are sent the resource.
func (t *Table) returned(e *Entry) {
	t.clearError(e)
	n := t.store.journal.nextRevision()
	if e.Member() {
		e.coll.dropError(e.key)
		e.coll.touch(e, n)
		t.store.changes.add(e.coll)
	} else {
		e.changed = n
	}
	e.notify(Notice{Event: Changed})
}
