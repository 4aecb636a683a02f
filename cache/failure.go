package cache

import (
	linked "container/list"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// An error of a resource (ERR-1) stands with its entry. One that takes the resource
// away makes the entry failed, as one does of which nothing is held. Any other leaves
// the content and is told beside it, once, by every subscription to the name; who
// subscribes later is told both. It is remembered until there is another error, or the
// server sends or removes the resource.
//
// Errors of collections as a whole, and of names in them, are a log like the members:
// each has the number at which it came, the collection keeps the last one of each name
// in that order, and a cursor holds the number of the last one that its client was
// told. Errors are rare: without one, none of this takes any memory.

// failures is what a collection remembers of errors, those that came last at the end.
type failures struct {
	order linked.List // of *failure, by number
	byKey map[string]*linked.Element
	// standing says that the server gave, on the present stream, an error for the
	// collection as a whole that leaves open what its members are: what the server does
	// not mention may be there all the same.
	standing bool
}

// failure is an error of one name; of the collection as a whole under its own key.
type failure struct {
	number uint64
	key    string
	err    *wire.ResourceError
}

// after returns the first failure with a number above n, nil if there is none. It
// takes as many steps as there are.
func (fs *failures) after(n uint64) *linked.Element {
	if fs == nil {
		return nil
	}
	var first *linked.Element
	for el := fs.order.Back(); el != nil && failureOf(el).number > n; el = el.Prev() {
		first = el
	}
	return first
}

func failureOf(el *linked.Element) *failure { return el.Value.(*failure) } //nolint:forcetypeassert // nothing else is put there

// fail remembers an error of a key, and has the followers told.
func (c *collection) fail(key string, err *wire.ResourceError) {
	c.note(key, err)
	c.table.store.changed(c)
}

// note remembers an error of a key. As many are remembered as tombstones would be: a
// server may give errors for names without end.
func (c *collection) note(key string, err *wire.ResourceError) {
	c.forgive(key)
	if c.fails == nil {
		c.fails = &failures{byKey: make(map[string]*linked.Element)}
	}
	fs := c.fails
	fs.byKey[key] = fs.order.PushBack(&failure{c.table.store.next(), key, err})
	if key == c.key {
		c.table.failing++
	}
	for fs.order.Len() > max(minTombstones, c.live.len) {
		c.forgive(failureOf(fs.order.Front()).key)
	}
}

// forgive forgets the error of a key, if there is one.
func (c *collection) forgive(key string) {
	fs := c.fails
	if fs == nil || fs.byKey[key] == nil {
		return
	}
	fs.order.Remove(fs.byKey[key])
	delete(fs.byKey, key)
	if key == c.key {
		fs.standing = false
		c.table.failing--
	}
	if fs.order.Len() == 0 {
		c.fails = nil
	}
}

// whole is the error of the collection as a whole, nil if there is none.
func (c *collection) whole() *wire.ResourceError {
	if c.fails == nil || c.fails.byKey[c.key] == nil {
		return nil
	}
	return failureOf(c.fails.byKey[c.key]).err
}

// standing reports whether the present stream said that nobody knows what the members
// are.
func (c *collection) standing() bool { return c.fails != nil && c.fails.standing }

// mayTell reports whether the client may be told an error while removals up to a number may
// go: not before the removal that came with it.
func (f *cursor) mayTell(x *failure, upTo uint64) bool {
	e := f.coll.table.entries[x.key]
	return e == nil || e.coll != f.coll || !e.dead || e.changed <= max(f.removed, upTo)
}

// failuresDue reports whether the client is to be told an error while removals up to a number
// may go. No list is due for one alone as long as nobody knows the members, if the
// client may hold some: it would be an empty one (RES-2).
func (f *cursor) failuresDue(upTo uint64) bool {
	if w := f.watch; w.full && w.presented != "" && !w.listed && !f.coll.synced {
		return false
	}
	el := f.coll.fails.after(f.failed)
	return el != nil && f.mayTell(failureOf(el), upTo)
}

// tellsFailure reports whether an error of a key is the cursor's to tell: not of what
// the client names, here or in another store. That store says what became of it (LOC-3),
// and who is told of NOT_FOUND drops what it has.
func (f *cursor) tellsFailure(key string) bool {
	return !f.watch.named(key) && !(f.coll.wildcard() && f.watch.namedElsewhere(key))
}

// passFailures passes over errors of what the client is served by name.
func (f *cursor) passFailures() {
	for el := f.coll.fails.after(f.failed); el != nil && !f.tellsFailure(failureOf(el).key); el = el.Next() {
		f.failed = failureOf(el).number
	}
}

// spellFailure gives the name of an error under which the client expects it: the
// collection as it subscribed to it, members as it is sent them (NAME-4).
func (f *cursor) spellFailure(x *failure) string {
	switch {
	case x.key == f.coll.key:
		return f.name
	case f.coll.wildcard():
		return x.err.Name
	}
	return f.spellKey(x.key)
}

// fail notes that the subscription's client is to be told of an error that takes
// nothing away.
func (n *nameSub) fail() {
	if n.watch.fails == nil {
		n.watch.fails = make(map[*nameSub]struct{})
	}
	n.watch.fails[n] = struct{}{}
}

// forgiven forgets that it is to be told of one.
func (n *nameSub) forgiven() {
	if n.watch.fails != nil {
		n.watch.fails = without(n.watch.fails, n)
	}
}

// solve forgets the error of an entry.
func (t *table) solve(e *entry) {
	if e.err == nil {
		return
	}
	e.setErr(nil)
	t.excused = without(t.excused, e)
	for _, s := range e.subs {
		s.forgiven()
	}
}

// returned notes that the server sent again what was held beside an error: clients
// remember one until they are sent the resource.
func (t *table) returned(e *entry) {
	t.solve(e)
	n := t.store.next()
	if e.member() {
		e.coll.forgive(e.key)
		e.coll.touch(e, n)
		t.store.changed(e.coll)
	} else {
		e.changed = n
	}
	for _, s := range e.subs {
		s.push()
	}
}

// excuse notes that the server said on the present stream why it does not send what is
// held. It need not say so again: in a list that lacks the resource it is not missing
// (RES-8), until a list holds it again, or the server says that it does not exist.
func (t *table) excuse(e *entry) {
	if !t.store.source.State {
		return
	}
	if t.excused == nil {
		t.excused = make(map[*entry]struct{})
	}
	t.excused[e] = struct{}{}
}

// unexcuse notes which of what an error was given for a list holds all the same: when
// the next one lacks it, it is gone.
func (u *update) unexcuse(t *table) {
	for e := range t.excused {
		if e.mark == t.mark && !u.failing[e.key] {
			t.excused = without(t.excused, e)
		}
	}
}

// isExcused reports whether what a list lacks may be there all the same. A source that
// says everything each time would say why.
func (u *update) isExcused(t *table, e *entry) bool {
	if u.state.Complete {
		return false
	}
	_, excused := t.excused[e]
	return excused || (e.member() && e.coll.standing())
}

// restand forgets what was said of errors on a stream that begins or ends.
func (t *table) restand() {
	t.excused = nil
	for _, c := range t.colls {
		if c.fails != nil {
			c.fails.standing = false
		}
	}
}

// fail applies a resource error (ERR-1): NOT_FOUND and PERMISSION_DENIED drop the
// resource, others keep what is held. Errors of what nobody asked for are nobody's.
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
	if c == nil || c.saidBefore(key, re) {
		return
	}
	c.fail(key, own(re))
}

// own copies an error, or all errors of its response would be kept with it.
func own(re *wire.ResourceError) *wire.ResourceError {
	e := *re
	return &e
}

func (c *collection) saidBefore(key string, re *wire.ResourceError) bool {
	return c.fails != nil && c.fails.byKey[key] != nil && *failureOf(c.fails.byKey[key]).err == *re
}

func (u *update) failEntry(t *table, e *entry, re *wire.ResourceError) {
	listed := e.mark == t.mark // beside the error: its lack is not excused by it
	e.mark = t.mark
	keeps := re.Transient() && e.there()
	if keeps {
		if listed {
			t.excused = without(t.excused, e)
		} else {
			t.excuse(e)
		}
		if e.member() {
			e.coll.confirm(e, false, u.received)
		}
	}
	if e.err != nil && *e.err == *re {
		return // said before
	}
	if keeps {
		e.setErr(own(re))
		for _, s := range e.subs {
			s.fail()
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

// failWhole applies the error of a glob, or of "*". That a glob does not exist means
// that it has no members. "*" is no name that could not exist, and who says so may have
// taken it for one: its members stay whatever the error.
func (u *update) failWhole(t *table, c *collection, re *wire.ResourceError) {
	said := c.whole()
	again := said != nil && *said == *re
	keeps := re.Transient() || c.wildcard()
	if !keeps {
		t.empty(c, u.received)
	}
	if !again {
		c.fail(c.key, own(re))
	}
	if keeps {
		c.fails.standing = true
		c.reopen()
	}
}

// reopen takes back that the collection was answered, where the answer was an error
// that leaves open what the members are: no quiet time runs, and the next answer that
// is none begins it. It is waited for like silence, no longer than its clock runs.
func (c *collection) reopen() {
	if !c.interest.subscribed {
		return
	}
	wasOpen := c.interest.open()
	c.burst = burst{}
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

// answersWholes forgets errors of collections as a whole that the response answers:
// with members or, of "*", with the lack of any. A glob that is empty is told by its
// name, and taken from there (GLOB-4).
func (u *update) answersWholes(t *table) {
	if t.failing == 0 {
		return
	}
	brought := u.brought(t.kind)
	for key, c := range t.colls {
		if c.whole() == nil || u.failing[key] {
			continue
		}
		if brought[key] || u.saysWhole(c) {
			c.forgive(key)
		}
	}
}

// brought are the collections that the response has members of.
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

// saysWhole reports whether the response says what there is in a collection by the lack
// of members.
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
