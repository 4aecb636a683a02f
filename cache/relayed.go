package cache

import (
	"slices"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// What a server marks with cache_control.do_not_cache goes to those who subscribe
// to it when it comes, and is not kept (TTL-5). The bytes wait with each client that
// was not sent them yet, and with nobody else; the entry only remembers what it was,
// so that the same content is not sent twice. Who subscribes later makes the relay
// ask again: a name is unsubscribed and subscribed to anew; for a collection, of
// which no single member can be asked for, the stream begins anew, at most once
// a second, and does not present what is not here.
//
// Lists of full-state types hold everything whenever anything changes (RES-2): while
// a client follows that is sent such ones, they keep the bytes, and nobody else is
// served from them.

// passed is what is known of content that was not kept.
type passed struct {
	what    digest.Content // hashed
	name    string         // as the server spelled it
	version string         // as clients are shown it
	list    *wire.Resource // what lists hold, while somebody is sent some
	renew   *wire.Resource // what clients are renewed with, while there are some that take no heartbeats
}

// there reports whether the resource exists, kept or not.
func (e *entry) there() bool { return e.state == present || e.state == relayed }

// servedName is the server's name of what serves the entry: another one than its
// own for an alias.
func (e *entry) servedName() string {
	switch e.state {
	case present:
		return e.res.Name
	case relayed:
		return e.life.passed.name
	default:
		return e.name()
	}
}

// contentFor is the content of e that a client is to be sent: of what is not kept,
// what waits for it.
func (e *entry) contentFor(waits *wire.Resource) *wire.Resource {
	if e.res == nil {
		return waits
	}
	return e.res
}

// relay passes content on without keeping it.
func (t *table) relay(e *entry, r *wire.Resource, coll *collection, now time.Time) {
	what := t.serverVersions.contentOf(r)
	again := e.state == relayed && e.life.passed.what == what && e.err == nil
	had := again && e.listed() != nil // by all who are sent lists
	before, timed := e.changed, r.HasTTL || e.life.hasTTL()
	t.letGo(e)
	t.clearError(e)
	t.appear(e, now)
	e.state, e.tainted = relayed, false
	e.received = now.UnixNano()
	t.called(e, r)
	if coll == nil {
		coll = e.coll
	}
	member := e.member() // else nobody was sent it with the collection
	level := uint64(0)   // of who was sent all there was
	if n := t.store.next(); coll != nil {
		if coll.live.tail != nil {
			level = coll.live.tail.changed
		}
		coll.dropError(e.key)
		coll.touch(e, n)
		coll.relayed++
		t.store.changed(coll)
	} else {
		e.changed = n
	}
	t.remain(e, r, what, now)
	t.serverVersions.add(e)
	t.list(e, r)
	t.digests.contentChanged(e)
	t.references.contentChanged(e)
	t.store.bring(e)
	for _, sub := range e.subs {
		sub.pass(r, again, had, timed)
	}
	if coll != nil {
		for _, f := range coll.followers {
			f.pass(e, r, again && member, had && member, timed, before, level)
		}
	}
	if i := e.interest; i != nil && !i.watched() && !i.kept() && !i.leaving {
		i.evict(ReasonAbsent)
	}
}

// pass has content that is not kept go to a name's client, unless it was sent it: again
// says that it is what it was, had that lists held it, timed that there is a ttl.
func (n *nameSub) pass(r *wire.Resource, again, had, timed bool) {
	switch retimed := timed && n.watch.client.form.TTL; {
	case n.watch.full && had && !retimed:
	case n.watch.full:
		n.push()
	case !again || n.lacks || retimed:
		n.watch.wait(n, r)
		n.push()
	}
}

// pass does so for a collection's client. The member was changed before with that
// number, and level is the highest number of all members then.
func (f *cursor) pass(e *entry, r *wire.Resource, again, had, timed bool, before, level uint64) {
	_, owed := f.watch.answers[e.key]
	switch retimed := timed && f.client.form.TTL; {
	case f.watch.full && had && !retimed && f.sent >= level:
		f.sent, f.at = e.changed, e // no list is due for it (STR-7)
		f.since++
	case f.watch.full:
	case !again || owed || f.born >= before || retimed:
		f.wait(e, r)
	}
}

// letGo takes the content off an entry that is about to change.
func (t *table) letGo(e *entry) {
	if e.state == relayed {
		t.serverVersions.leave(e)
		if e.member() {
			e.coll.relayed--
		}
	}
	if e.res != nil {
		t.account(-1, -e.size())
		t.serverVersions.leave(e)
		if e.coll != nil {
			e.coll.bytes -= e.size()
		}
		t.serverVersions.remember(e)
		e.res = nil
	}
	t.clear(e)
	t.lend(e)
}

// hash is that of the content that was relayed.
func (l *lifetime) hash() uint64 {
	if l == nil || l.passed == nil {
		return 0
	}
	return l.passed.what.Bytes
}

// remain notes what was relayed, and its ttl.
func (t *table) remain(e *entry, r *wire.Resource, what digest.Content, now time.Time) {
	t.lifetimes.startPassed(e, r, &passed{what: what, name: strings.Clone(r.Name), version: strings.Clone(shown(r))}, now)
	t.noteDeadline()
}

// wait has content that is not kept wait for a name's client.
func (w *watch) wait(sub *nameSub, r *wire.Resource) {
	if w.once == nil {
		w.once = make(map[*nameSub]*wire.Resource)
	}
	w.once[sub] = r
}

// wait has content that is not kept wait for a collection's client.
func (f *cursor) wait(e *entry, r *wire.Resource) {
	if f.once == nil {
		f.once = make(map[*entry]*wire.Resource)
	}
	f.once[e] = r
}

// taken forgets what waited.
func (w *watch) taken(sub *nameSub) {
	if w.once != nil {
		w.once = without(w.once, sub)
	}
}

func (f *cursor) taken(e *entry) {
	if f.once != nil {
		f.once = without(f.once, e)
	}
}

// takenGone forgets what waited of what is no member any more.
func (f *cursor) takenGone() {
	for e := range f.once {
		if !e.member() || e.coll != f.coll {
			f.taken(e)
		}
	}
}

// lack notes that a client needs the content of a name that was not kept for it,
// and has the server asked again.
func (t *table) lack(sub *nameSub) {
	e := sub.entry
	if e.state != relayed || sub.watch.once[sub] != nil || (sub.watch.full && e.listed() != nil) {
		return
	}
	sub.lacks = true
	if e.interest == nil {
		e.setInterest(t.newInterest(e, nil))
	} else {
		e.interest.ask()
	}
}

// lack has the server asked again for a collection, if it has members whose content
// was not kept for a client that follows it from its beginning.
func (c *collection) lack(w *watch) {
	if c.relayed > 0 && (!w.full || c.unlisted()) {
		c.interest.ask()
	}
}

// lacks reports whether the cursor's client was not there when e was relayed.
func (f *cursor) lacks(e *entry) bool {
	if f.watch.full {
		return e.listed() == nil
	}
	return e.state == relayed && f.born >= e.changed
}

// listed is what lists hold of the entry; nil for nothing.
func (e *entry) listed() *wire.Resource {
	if e.res == nil && e.life != nil && e.life.passed != nil {
		return e.life.passed.list
	}
	return e.res
}

// unlisted reports whether members lack in lists, since they were not kept.
func (c *collection) unlisted() bool {
	if c.relayed == 0 {
		return false
	}
	for e := c.live.head; e != nil; e = e.next {
		if e.listed() == nil {
			return true
		}
	}
	return false
}

// list has lists keep what is not kept otherwise, if somebody is sent some.
func (t *table) list(e *entry, r *wire.Resource) {
	if e.inLists() {
		e.life.passed.list = r
	}
	if e.renewedWhole() {
		e.life.passed.renew = r
	}
}

// renewedWhole reports whether somebody who subscribes is renewed with whole resources, where
// responses need not hold everything (TTL-1).
func (e *entry) renewedWhole() bool {
	if e.member() && slices.ContainsFunc(e.coll.followers, func(f *cursor) bool { return f.watch.renewedWhole() }) {
		return true
	}
	return slices.ContainsFunc(e.subs, func(s *nameSub) bool { return s.watch.renewedWhole() })
}

func (w *watch) renewedWhole() bool { return w.client.form.State && w.client.form.TTL && !w.full }

// inLists reports whether somebody is sent lists that hold the entry.
func (e *entry) inLists() bool {
	if e.member() && e.coll.states > 0 && e.coll.table.store.source.FullState[e.coll.table.typeURL] {
		return true
	}
	return slices.ContainsFunc(e.subs, func(s *nameSub) bool { return s.watch.full })
}

// unlist drops what only lists kept, once nobody is sent any that hold it.
func (t *table) unlist(e *entry) {
	if e.state == relayed && e.life.passed.renew != nil && !e.renewedWhole() {
		e.life.passed.renew = nil
	}
	if e.state == relayed && e.life.passed.list != nil && !e.inLists() {
		e.life.passed.list = nil
		t.digests.contentChanged(e)
	}
}

// unlist does so for all members.
func (c *collection) unlist() {
	if c.relayed == 0 {
		return
	}
	for e := c.live.head; e != nil; e = e.next {
		c.table.unlist(e)
	}
}

// ask has what is subscribed to be asked for anew.
func (i *interest) ask() {
	if i.subscribed && !i.leaving {
		i.again, i.repeats = true, false
		i.mark()
	}
}

// doubt makes stale what is not here and so was not presented to the server: if it
// does not exist any more, the server has no reason to say so (RES-12).
func (c *collection) doubt() {
	if c.relayed == 0 && !c.table.variants.any() {
		return
	}
	c.epoch++
	for e := c.live.head; e != nil; e = e.next {
		if e.state == relayed || (e.res != nil && e.res.Constrained()) {
			c.stale++
		} else {
			e.epoch = c.epoch
		}
	}
}

// checkRelayed verifies what is known of content that is not kept.
func (e *entry) checkRelayed(c *checker) {
	if e.life == nil || e.life.passed == nil {
		c.that(e.state != relayed, "%q is relayed, and nothing is known of it: passed on: false", e.key)
		return
	}
	p := e.life.passed
	c.that(e.state == relayed, "%q is %s, passed on: true", e.key, e.state)
	c.that(p.renew == nil || e.renewedWhole(), "%q is kept for renewals of nobody", e.key)
	c.that(p.list == nil || e.inLists(), "%q is kept for lists that nobody is sent", e.key)
}

// checkRelayed verifies the number of members that are not kept.
func (c *collection) checkRelayed(check *checker) {
	relayedMembers := 0
	for e := c.live.head; e != nil; e = e.next {
		if e.state == relayed {
			relayedMembers++
		}
	}
	check.that(relayedMembers == c.relayed, "%q: %d members are not kept, counted as %d", c.key, relayedMembers, c.relayed)
}
