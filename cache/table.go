package cache

import (
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// kind tells the two tables of a type apart.
type kind uint8

const (
	wholeType kind = iota // the wildcard "*"
	byName                // names and globs
)

func (k kind) String() string { return [...]string{"wildcard", "named"}[k] }

// Wildcard is the name under which a type is subscribed to as a whole (SUB-1).
const Wildcard = "*"

// table is all resources of one store, one type and one kind, fed by one
// upstream stream. Guarded by Store.mu.
type table struct {
	store   *Store
	typeURL string
	kind    kind
	// stream is the upstream stream that carries it, once assigned, which it is as
	// soon as anything is wanted. It is kept while the stream lives even if nothing is
	// wanted any more: what the server had sent for one kind before it read the
	// unsubscribe must not be taken for the other (SUB-12).
	stream   wire.StreamID
	assigned bool
	spoken   bool // something of it was asked for on the present stream

	entries   map[string]*entry
	colls     map[string]*collection
	pins      map[string]int // by key of a name or a glob; see Pin
	pending   []*interest
	interests int
	// subscribed to since the last response
	unanswered map[*collection]struct{}
	// what was unsubscribed lately on the present stream, by collection
	farewells map[string]time.Time

	// asked for and not answered, in the order of asking; see clock
	clocks   []clock
	asks     uint32 // clocks started so far
	withheld bool   // nobody was asked, though all is subscribed: no clock runs

	serverVersions serverVersions
	digests        digests
	aliases        aliases
	references     references
	variants       variants
	unglobbed      globIndex
	absences       absences

	systemVersion string
	lifetimes     lifetimes
	excuses       excuses
	mark          uint32 // the number of the last state-of-the-world response: what it held has it

	suspects int // entries with content that a client rejected alone

	// counted, so that a scrape need not walk the entries
	resources, bytes, watchers int64
}

// assignStream gives the table its stream: the first one, unless that carries
// the other kind of the same type, and these must not share.
func (t *table) assignStream() {
	if t.assigned {
		return
	}
	t.assigned = true
	t.stream = wire.StreamID{}
	if t.store.source.PerType {
		t.stream.TypeURL = t.typeURL
	}
	if other := t.other(); other != nil && other.on(t.stream) && !t.shares() {
		t.stream.Second = true
	}
}

// other is the table of the same type and the other kind, nil if there is none.
func (t *table) other() *table { return t.store.tables[tableKey{t.typeURL, 1 - t.kind}] }

// on reports whether an upstream stream carries the table.
func (t *table) on(stream wire.StreamID) bool { return t.assigned && t.stream == stream }

// collection finds or makes the collection with a canonical key.
func (t *table) collection(key string) *collection {
	c := t.colls[key]
	if c == nil {
		c = &collection{table: t, key: key}
		c.interest = t.newInterest(nil, c)
		t.colls[key] = c
		t.adopt(c)
	}
	return c
}

// collectionOf is the collection that a key belongs to, if it is subscribed to.
func (t *table) collectionOf(key string, e *entry) *collection {
	if e != nil && e.coll != nil {
		return e.coll
	}
	if len(t.colls) == 0 {
		return nil
	}
	if t.kind == wholeType {
		return t.colls[Wildcard]
	}
	if g := keyer.GlobOf(key); g != "" {
		return t.colls[g]
	}
	return nil
}

// adopt makes what is held by name members of a new collection. The server need
// not mention them again: on a resumed stream it knows that they are here.
func (t *table) adopt(c *collection) {
	for e := range t.unglobbed.take(c.key) {
		if e.res != nil {
			c.touch(e, t.store.next())
			c.bytes += e.size()
			if e.err != nil {
				c.addError(e.key, e.err)
			}
		}
	}
}

// entry finds or makes the entry with a canonical key.
func (t *table) entry(key string) *entry {
	e := t.entries[key]
	if e == nil {
		e = newEntry(key)
		t.entries[key] = e
		if wire.IsLocator(key) {
			locate(t, e)
		}
	}
	return e
}

// undirected is a client's spelling of a key without directives.
func undirected(spelling, key string) string {
	if name := wire.LocatedName(spelling); keyer.IsXDSTP(name) {
		name, _, _ = strings.Cut(name, "#")
		spelling = wire.Respell(spelling, name)
	}
	return intern(spelling, key)
}

// demand makes sure that a named entry is asked for upstream. A member of a
// synced glob needs no subscription of its own (GLOB-6).
func (t *table) demand(e *entry) {
	switch {
	case e.interest != nil:
		e.interest.want()
	case e.member() && e.coll.synced && !e.coll.interest.leaving:
	default:
		e.setInterest(t.newInterest(e, nil))
	}
}

// forgetUnused drops an entry that nothing refers to any more.
func (t *table) forgetUnused(e *entry) {
	if e.wanted() || e.interest != nil || e.coll != nil {
		return
	}
	t.unglobbed.remove(e)
	t.aliases.drop(e)
	t.absences.end(e)
	if e.there() {
		t.serverVersions.leave(e)
	}
	t.lifetimes.end(e)
	t.clear(e)
	t.excuses.drop(e)
	if e.res != nil {
		t.account(-1, -e.size())
	}
	was := e.res
	e.res, e.state = nil, unknown // its last two users may both come here
	t.references.contentChanged(e)
	t.replaced(e, was, nil)
	delete(t.entries, e.key)
	unlocate(t, e)
}

func (t *table) account(resources, bytes int64) {
	t.store.cache.resources.Add(resources)
	t.store.cache.bytes.Add(bytes)
	t.store.resources += resources
	t.store.bytes += bytes
	t.resources += resources
	t.bytes += bytes
}

// release takes the content off an entry that is about to change.
func (t *table) release(e *entry) {
	if e.state == transient {
		t.serverVersions.leave(e)
		if e.member() {
			e.coll.transient--
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

// set puts new content into an entry, and tells who watches.
func (t *table) set(e *entry, r *wire.Resource, coll *collection, now time.Time) {
	n, was := t.store.next(), e.res
	appear(t, e, now)
	if e.state == transient {
		t.release(e)
	}
	if e.res != nil {
		t.account(0, -e.size())
		t.serverVersions.leave(e)
		if e.coll != nil {
			e.coll.bytes -= e.size()
		}
		t.serverVersions.remember(e)
	} else {
		t.account(1, 0)
	}
	t.clearError(e)
	t.clear(e)
	e.tainted = t.serverVersions.reused(e, r)
	e.res, e.state = r, present
	t.lend(e)
	t.serverVersions.add(e)
	e.received = now.UnixNano()
	t.called(e, r)
	t.account(0, e.size())
	if coll == nil {
		coll = e.coll
	}
	if coll != nil {
		coll.dropError(e.key)
		coll.touch(e, n)
		coll.bytes += e.size()
		t.store.changed(coll)
	} else {
		e.changed = n
		t.unglobbed.add(e)
	}
	t.lifetimes.start(e, r, now)
	t.noteDeadline()
	t.digests.contentChanged(e)
	t.references.contentChanged(e)
	t.replaced(e, was, r)
	t.store.bring(e)
	for _, s := range e.subs {
		s.push()
	}
}

// noteDeadline has Settle look at a table in which a TTL has begun to run.
func (t *table) noteDeadline() {
	if len(t.lifetimes.deadlines) == 1 { // the table is listed already if there are more
		t.store.timed[t] = struct{}{}
	}
}

// retain has the content that e held stay for the clients that may still list it. e became
// a tombstone before.
func (t *table) retain(e *entry, was *wire.Resource) {
	if was == nil || t.digests.users == 0 || !t.store.source.FullState[t.typeURL] || !RankOf(t.typeURL).waits() {
		return
	}
	if e.dead && e.coll.states > 0 {
		e.coll.retained.add(e, was)
	}
	for _, s := range e.subs {
		if s.holds && s.watch.full {
			s.retained = was
		}
	}
}

// clearError forgets the error of an entry (ERR-1).
func (t *table) clearError(e *entry) {
	if e.err == nil {
		return
	}
	e.setErr(nil)
	t.excuses.drop(e)
	for _, s := range e.subs {
		s.watch.errors.drop(s)
	}
}

// forgetExcuses forgets what the server said of errors on the stream before.
func (t *table) forgetExcuses() {
	t.excuses.entries = nil
	for _, c := range t.colls {
		if c.errors != nil {
			c.errors.open = false
		}
	}
}

// called notes how the server spells the name. What the relay resolves is asked for by
// its key, whatever the resource is called where it comes from.
func (t *table) called(e *entry, r *wire.Resource) {
	if !e.alias && !t.store.source.Resolved {
		e.setName(r.Name)
	}
}

// unset makes an entry absent, or failed with err, and tells who watches.
func (t *table) unset(e *entry, to state, err *wire.ResourceError, now time.Time) {
	n, content, held := t.store.next(), e.changed, e.res
	t.aliases.drop(e)
	t.absences.end(e)
	was, gone := e.listed(), !e.there() && !e.open() // who was not told yet is to be told still
	t.release(e)
	t.clearError(e)
	if e.coll != nil {
		e.coll.dropError(e.key)
	}
	switch c := e.coll; {
	case c == nil:
		e.changed = n
	case e.dead: // who follows the collection was told, or will be
	default:
		c.bury(e, n)
		t.store.changed(c)
	}
	t.retain(e, was)
	e.res, e.state, e.alias, e.tainted = nil, to, false, false
	e.setErr(err)
	e.received = now.UnixNano()
	expired := e.life.ranOut()
	t.lifetimes.remove(e)
	t.digests.contentChanged(e)
	t.references.contentChanged(e)
	t.replaced(e, held, nil)
	for _, s := range e.subs {
		s.denied = s.denied || !e.open() || (gone && s.dirty)
		if !expired || !s.dropsByItself(content) {
			s.push()
		}
	}
	switch i := e.interest; {
	case i == nil && e.wanted():
		// A name that its glob brought is asked for by itself now: the glob may be
		// let go before the resource comes back (GLOB-6).
		e.setInterest(t.newInterest(e, nil))
	case i != nil && !i.watched() && !i.kept():
		i.evict(ReasonAbsent)
	}
	t.forgetUnused(e)
}

// intern returns b if it equals a, so that a's bytes need not be kept.
func intern(a, b string) string {
	if a == b {
		return b
	}
	return a
}
