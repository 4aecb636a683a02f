package cache

import (
	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc/codes"
)

// The error of a resource (ERR-1) is in its entry. An error that removes the resource makes
// the entry failed, and so does any error if the relay holds no content. Any other error
// leaves the content. The relay tells it beside the content, once with each subscription to
// the name; a client that subscribes later is told both. The relay forgets the error when
// there is another one, or when the server sends or removes the resource.
//
// Errors of collections, and of names in them, are also in the collection's errorLog.

// fail applies a resource error (ERR-1). NOT_FOUND and PERMISSION_DENIED remove the resource,
// others keep the content. An error of a name that was not asked for is ignored.
func (u *update) fail(t *Table, key string, re *wire.ResourceError) {
	if c := t.colls[key]; c != nil {
		u.failWhole(t, c, re)
		return
	}
	if re.Code == codes.NotFound && t.holdBack(key, t.entries[key], hold.Fate{Err: own(re), Loss: true}) {
		return
	}
	if e := t.entries[key]; e != nil {
		u.failEntry(t, e, re)
	}
	if !re.Transient() {
		t.dropAliases(key, u.received)
	}
	c := t.collectionOf(key, t.entries[key])
	if c != nil && !c.errors.has(key, re) {
		c.addError(key, own(re))
		t.store.changes.add(c)
	}
}

// failWhole applies the error of a glob, or of "*". That a glob does not exist means that
// it has no members. "*" cannot fail to exist, and a server that says so may have taken it
// for a name: its members stay whatever the error.
func (u *update) failWhole(t *Table, c *Collection, re *wire.ResourceError) {
	again := c.errors.has(c.key, re)
	keeps := re.Transient() || c.Wildcard()
	if !keeps {
		t.removeMembers(c, u.received)
		if c.log.live.len > 0 {
			return // held: so is what clients would conclude from the error
		}
	}
	if !again {
		c.addError(c.key, own(re))
		t.store.changes.add(c)
	}
	if keeps {
		c.errors.open = true
		c.reopen()
	}
}

// reopen takes back that the collection was answered. An error that leaves the members open was
// the answer: no quiet time runs, and the next other answer begins it. The relay waits for that
// as for an answer, while the collection's clock runs.
func (c *Collection) reopen() {
	if !c.demand.subscribed {
		return
	}
	wasOpen := c.demand.open()
	c.quiet.restart()
	t := c.table
	delete(t.store.due.unsettled, c)
	t.upstream.unanswered = with(t.upstream.unanswered, c)
	if !wasOpen {
		c.demand.startClock(t.store.cache.Now())
	}
}

// answersWholes forgets errors of collections as a whole that the response answers: with
// members or, of "*", with the lack of any. A server says by its name that a glob is empty
// (GLOB-4): see update.remove.
func (u *update) answersWholes(t *Table) {
	if t.excuses.collections == 0 {
		return
	}
	brought := u.bringsMembersOf(t.kind)
	for key, c := range t.colls {
		if c.errors.get(c.key) == nil || u.failing[key] {
			continue
		}
		if brought[key] || u.saysWhole(c) {
			c.dropError(key)
		}
	}
}

// bringsMembersOf returns the collections that the response has members of.
func (u *update) bringsMembersOf(k Kind) map[string]bool {
	all := make(map[string]bool)
	for i, key := range u.keys {
		switch {
		case key == badKey || !u.response.Resources[i].HasPayload():
		case k == WholeType:
			return map[string]bool{Wildcard: true}
		default:
			all[keyer.GlobOf(key)] = true
		}
	}
	return all
}

// saysWhole reports whether the response says by the lack of members that a collection has none.
func (u *update) saysWhole(c *Collection) bool {
	switch {
	case u.saysNothing():
		return false
	case u.response.State:
		return (c.Wildcard() || u.response.Complete) && !u.heartbeats
	case !c.Wildcard():
		return false
	}
	return len(u.keys)+len(u.removed)+len(u.failing) == 0
}

// checkErrors verifies the error of an entry.
func (e *Entry) checkErrors(c *Checker) {
	c.That(e.state != Failed || e.extra.err != nil, "%q is failed without an error", e.key)
	c.That(e.extra.err == nil || e.state == Failed || e.Exists(), "%q is %s and has an error", e.key, e.state)
	c.That(e.extra.err == nil || e.state == Failed || e.extra.err.Transient(), "%q is %s in spite of its error", e.key, e.state)
}

// checkErrors verifies the errors of a table's collections, and the excuses.
func (t *Table) checkErrors(c *Checker) {
	collections := 0
	for _, coll := range t.colls {
		coll.errors.check(c, coll.key, t.store.journal.revision, func(x *LoggedError) bool { return coll.mayLog(x) })
		if coll.errors.get(coll.key) != nil {
			collections++
		}
		_, waits := t.upstream.unanswered[coll]
		c.That(!coll.errors.leavesOpen() || !coll.demand.subscribed || waits, "%q has no members for now, and its answer is not awaited", coll.key)
	}
	t.excuses.check(c, t.entries, collections)
}

// mayLog reports whether an error in the log is the collection's or a member's, and equals the
// member's.
func (c *Collection) mayLog(x *LoggedError) bool {
	if x.key != c.key && !c.covers(x.key) {
		return false
	}
	e := c.table.entries[x.key]
	return e == nil || e.coll != c || !e.Exists() || (e.extra.err != nil && *e.extra.err == *x.err)
}
