package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// resource applies one resource.
func (u *update) resource(t *Table, key string, r *wire.Resource) {
	e := t.entries[key]
	coll := t.collectionOf(key, e)
	if !r.HasPayload() {
		u.bare(t, key, r)
		return
	}
	if t.upstream.held.active() && u.holds(t, key, e, r) {
		return
	}
	aliases := !u.resolved && t.serveAliases(key, r, u.received)
	if coll == nil && (e == nil || (e.extra.demand == nil && !e.Member())) {
		if !aliases {
			u.unsolicited++
		}
		return
	}
	if e == nil {
		e = t.Entry(key)
		e.marks.sharesKey = true // or will be, when it holds r
	}
	t.aliases.drop(e)
	isNew := coll != nil && !e.Member()
	solved := e.extra.err != nil && !u.failing[key] && e.Exists() && e.res != nil && u.same(e.res, r)
	u.confirmSame(t, e, r)
	switch {
	case e.res == nil || !u.same(e.res, r):
		t.become(e, content{state: Present, res: r, coll: coll}, said, u.received)
	case isNew:
		// Held already because it was asked for by name; now it also is a member.
		e.received = u.received.UnixNano()
		coll.touch(e, t.store.journal.nextRevision())
		coll.bytes += e.Size()
		t.store.changes.add(coll)
		t.store.changes.bring(e)
		t.references.usersChanged(e)
		t.sentAgain(e, r)
		t.resent(e, r, u.received)
	default:
		if r.Size() == e.res.Size() && r.Restored() == e.res.Restored() { // or it is called otherwise (same)
			t.become(e, content{state: Present, res: r}, repeated, u.received)
		}
		t.sentAgain(e, r)
		t.resent(e, r, u.received)
	}
	if solved && e.extra.err != nil {
		t.returned(e)
	}
	e.response = t.upstream.response
	if coll != nil {
		coll.quiet.confirm(e, isNew, u.received)
	}
	t.passOn(e)
}

// confirmSame is confirm if the server sends just what e holds.
func (u *update) confirmSame(t *Table, e *Entry, r *wire.Resource) {
	if e.Restored() && !r.Restored() && u.same(e.res, r) {
		t.confirm(e)
	}
}

// bare applies a resource without payload. With the version of the content it is a heartbeat.
// With aliases it says that they stand for nothing. Otherwise an older server says that it does
// not exist (RES-16). In the state of the world it is always a heartbeat.
func (u *update) bare(t *Table, key string, r *wire.Resource) {
	if e := t.entries[key]; e != nil {
		e.response = t.upstream.response
	}
	for _, e := range t.aliases.of(key) {
		e.response = t.upstream.response
	}
	if u.response.State {
		u.heartbeat(t, key, r)
		return
	}
	switch {
	case r.Version != "" && u.heartbeat(t, key, r):
	case len(r.Aliases()) > 0:
		u.bareAliases(t, r)
	default:
		u.remove(t, key, r.Name)
	}
}

// remove applies a removal: of a resource, or of all members of a glob (GLOB-4). A server may
// take "*" for a name and say that it does not exist. That means nothing.
func (u *update) remove(t *Table, key, name string) {
	if c := t.colls[key]; c != nil && !c.Wildcard() {
		c.dropError(key)
		t.removeMembers(c, u.received)
		return
	}
	e := t.entries[key]
	if t.holdBack(key, e, hold.Fate{Name: name, Loss: true}) {
		return
	}
	t.dropAliases(key, u.received)
	e = t.entries[key]
	if c := t.collectionOf(key, e); c != nil {
		c.dropError(key)
	}
	if e == nil || e.state == Absent {
		return // not asked for, or known already
	}
	if e.res == nil {
		e.extra.spell(e.key, name)
	}
	t.become(e, content{state: Absent}, said, u.received)
}

// removeMembers applies the server's word that a collection has no members.
func (t *Table) removeMembers(c *Collection, now time.Time) {
	wasSynced := c.quiet.synced
	c.quiet.complete()
	t.upstream.held.dropMembers(c, t.shown())
	for e := c.log.live.head; e != nil; {
		next := e.next
		t.lose(e, now)
		e = next
	}
	if !wasSynced {
		t.store.journal.completed++
		t.store.changes.add(c)
	}
}

// own copies an error, or all errors of its response would be kept with it.
func own(re *wire.ResourceError) *wire.ResourceError {
	e := *re
	return &e
}

// failEntry applies an error to an entry.
func (u *update) failEntry(t *Table, e *Entry, re *wire.ResourceError) {
	listed := e.response == t.upstream.response // the response has the resource too: its error excuses nothing
	e.response = t.upstream.response
	keeps := re.Transient() && e.Exists()
	if keeps {
		if listed {
			t.excuses.drop(e)
		} else if t.store.source.State {
			t.excuses.add(e)
		}
		if e.Member() {
			e.coll.quiet.confirm(e, false, u.received)
		}
		if u.response.State && u.lists(t) {
			t.confirm(e) // it will not say more, and lists wait for its word (SUR-1, ABS-3)
		}
	}
	if e.extra.err != nil && *e.extra.err == *re {
		return // said before
	}
	if keeps {
		e.extra.setErr(own(re))
		e.notify(Notice{Event: Erred})
		return
	}
	wasOpen := e.Open()
	if re.Transient() {
		t.removeReleased(e, Failed, own(re), u.received)
	} else {
		t.become(e, content{state: Failed, err: own(re)}, said, u.received)
	}
	if i := e.extra.demand; !wasOpen && i != nil && i.subscribed {
		i.startClock(t.store.cache.Now())
	}
}
