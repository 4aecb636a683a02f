package cache

import (
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// The error of a resource (ERR-1) is in its entry. An error that removes the resource makes
// the entry failed, and so does any error if the relay holds no content. Any other error
// leaves the content. The relay tells it beside the content, once with each subscription to
// the name; a client that subscribes later is told both. The relay forgets the error when
// there is another one, or when the server sends or removes the resource.
//
// Errors of collections, and of names in them, are also in the collection's errorLog.

// returned records that the server sent a resource again that was held beside an error.
// The content is due for clients: they remember the error until they are sent the resource.
func (t *table) returned(e *entry) {
	t.clearError(e)
	n := t.store.next()
	if e.member() {
		e.coll.dropError(e.key)
		e.coll.touch(e, n)
		t.store.changed(e.coll)
	} else {
		e.changed = n
	}
	for _, s := range e.subs {
		s.push()
	}
}

// fail applies a resource error (ERR-1): NOT_FOUND and PERMISSION_DENIED remove the
// resource, others keep the content. An error of a name that nobody asked for is ignored.
func (u *update) fail(t *table, key string, re *wire.ResourceError) {
	if c := t.colls[key]; c != nil {
		u.failWhole(t, c, re)
		return
	}
	if set := t.variants.of(key); set != nil {
		if (matching{u, t, set}).fail(re); set.serves(nil) {
			return
		}
	} else if e := t.entries[key]; e != nil {
		u.failEntry(t, e, re)
	}
	if !re.Transient() {
		dropAliases(t, key, u.received)
	}
	c := t.collectionOf(key, t.entries[key])
	if c != nil && !c.errors.has(key, re) {
		c.addError(key, own(re))
		t.store.changed(c)
	}
}

// own copies an error, or all errors of its response would be kept with it.
func own(re *wire.ResourceError) *wire.ResourceError {
	e := *re
	return &e
}

// failEntry applies an error to an entry.
func (u *update) failEntry(t *table, e *entry, re *wire.ResourceError) {
	listed := e.mark == t.mark // the response has the resource too: its error excuses nothing
	e.mark = t.mark
	keeps := re.Transient() && e.there()
	if keeps {
		if listed {
			t.excuses.drop(e)
		} else if t.store.source.State {
			t.excuses.add(e)
		}
		if e.member() {
			e.coll.quiet.confirm(e, false, u.received)
		}
	}
	if e.err != nil && *e.err == *re {
		return // said before
	}
	if keeps {
		e.setErr(own(re))
		for _, s := range e.subs {
			s.watch.errors.add(s)
			t.store.wake(s.watch)
		}
		return
	}
	wasOpen := e.open()
	t.unset(e, failed, own(re), u.received)
	if i := e.interest; !wasOpen && i != nil && i.subscribed {
		i.startClock(t.store.cache.now())
	}
}

// failWhole applies the error of a glob, or of "*". That a glob does not exist means that
// it has no members. "*" cannot fail to exist, and a server that says so may have taken it
// for a name: its members stay whatever the error.
func (u *update) failWhole(t *table, c *collection, re *wire.ResourceError) {
	again := c.errors.has(c.key, re)
	keeps := re.Transient() || c.wildcard()
	if !keeps {
		t.empty(c, u.received)
	}
	if !again {
		c.addError(c.key, own(re))
		t.store.changed(c)
	}
	if keeps {
		c.errors.open = true
		c.reopen()
	}
}

// reopen takes back that the collection was answered. The answer was an error that does not
// say what the members are: no quiet time runs, and the next answer that is no error begins
// it. The relay waits for that as for an answer, no longer than the collection's clock runs.
func (c *collection) reopen() {
	if !c.interest.subscribed {
		return
	}
	wasOpen := c.interest.open()
	c.quiet.restart()
	t := c.table
	delete(t.store.unsettled, c)
	if t.unanswered == nil {
		t.unanswered = make(map[*collection]struct{})
	}
	t.unanswered[c] = struct{}{}
	if !wasOpen {
		c.interest.startClock(t.store.cache.now())
	}
}

// answersWholes forgets errors of collections as a whole that the response answers: with
// members or, of "*", with the lack of any. A server says by its name that a glob is empty
// (GLOB-4): see update.remove.
func (u *update) answersWholes(t *table) {
	if t.excuses.collections == 0 {
		return
	}
	brought := u.brought(t.kind)
	for key, c := range t.colls {
		if c.errors.get(c.key) == nil || u.failing[key] {
			continue
		}
		if brought[key] || u.saysWhole(c) {
			c.dropError(key)
		}
	}
}

// brought returns the collections that the response has members of.
func (u *update) brought(k kind) map[string]bool {
	all := make(map[string]bool)
	for i, key := range u.keys {
		switch {
		case key == badKey || !u.response.Resources[i].HasPayload():
		case k == wholeType:
			return map[string]bool{Wildcard: true}
		default:
			all[keyer.GlobOf(key)] = true
		}
	}
	return all
}

// saysWhole reports whether the response says by the lack of members that a collection has
// none.
func (u *update) saysWhole(c *collection) bool {
	switch {
	case u.saysNothing():
		return false
	case u.state != nil:
		return (c.wildcard() || u.state.Complete) && !u.heartbeats()
	case !c.wildcard():
		return false
	}
	return len(u.keys)+len(u.removed)+len(u.failing) == 0
}

// checkErrors verifies the error of an entry.
func (e *entry) checkErrors(c *checker) {
	c.that(e.state != failed || e.err != nil, "%q is failed without an error", e.key)
	c.that(e.err == nil || e.state == failed || e.there(), "%q is %s and has an error", e.key, e.state)
	c.that(e.err == nil || e.state == failed || e.err.Transient(), "%q is %s in spite of its error", e.key, e.state)
}

// checkErrors verifies the errors of a table's collections, and the excuses.
func (t *table) checkErrors(c *checker) {
	collections := 0
	for _, coll := range t.colls {
		coll.errors.check(c, coll.key, t.store.seq, coll.mayLog)
		if coll.errors.get(coll.key) != nil {
			collections++
		}
		_, waits := t.unanswered[coll]
		c.that(!coll.errors.leavesOpen() || !coll.interest.subscribed || waits, "%q has no members for now, and its answer is not awaited", coll.key)
	}
	t.excuses.check(c, t.entries, collections)
}

// mayLog reports whether an error in the log is the collection's or a member's, and is what
// the member says.
func (c *collection) mayLog(x *loggedError) bool {
	if x.key != c.key && !c.wildcard() && keyer.GlobOf(x.key) != c.key {
		return false
	}
	e := c.table.entries[x.key]
	return e == nil || e.coll != c || !e.there() || (e.err != nil && *e.err == *x.err)
}
