package cache

import (
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// Table is all resources of one store, one type and one kind. One upstream stream feeds it.
// Guarded by Store.mu.
type Table struct {
	store    *Store
	typeURL  string
	kind     Kind
	upstream exchange

	entries map[string]*Entry
	colls   map[string]*Collection

	demands demandQueue

	serverVersions serverVersions
	digests        digests
	aliases        aliases
	references     references
	unglobbed      globIndex
	absences       absences

	lifetimes  lifetimes
	excuses    excuses
	rejections Rejections

	usage usage
}

// usage is what a table has, counted so that a scrape need not walk the entries.
type usage struct {
	weight

	watchers int64 // clients' subscriptions by name
	settled  int   // entries of which the server has said whether they exist
}

// Settled reports whether no name of the table is open. It may be false without one.
func (t *Table) Settled() bool { return t == nil || t.usage.settled == len(t.entries) }

// exchange is the upstream stream that carries a table, and what was said of the table on it.
type exchange struct {
	// stream is assigned as soon as the server is to be asked for something. The assignment
	// stays while the stream lives, even without any demand: what the server sent for one kind
	// before it read the unsubscribe must not be taken for the other (SUB-12).
	stream   wire.StreamID
	assigned bool
	spoken   bool // the server was asked for something of the table on the present stream
	heard    bool // the server has said something of it, on whatever stream

	response   uint32                   // the number of the last response: the entries that it held have it
	unanswered map[*Collection]struct{} // subscribed to since the last response
	questions  questions                // on the present stream
	restored   int                      // resources of an earlier process that it has not confirmed yet
	shown      bool                     // it was shown on the present stream what the relay holds, or sends that again anyway
	begun      time.Time                // when the present stream began; zero for the first one
	resumed    bool                     // the present stream began with content from before
	back       wentBack                 // content that went back with it (SUR-7)
	held       *heldBack                // what clients are not told yet; nil until something was lost
}

// on reports whether it is a stream.
func (e *exchange) on(stream wire.StreamID) bool { return e.assigned && e.stream == stream }

// other is the table of the same type and the other kind, nil if there is none.
func (t *Table) other() *Table { return t.store.tables[tableKey{t.typeURL, 1 - t.kind}] }

// Collection finds or makes the collection with a canonical key.
func (t *Table) Collection(key string) *Collection {
	c := t.colls[key]
	if c == nil {
		c = &Collection{table: t, key: key}
		c.demand = t.newDemand(nil, c)
		t.colls[key] = c
		t.adoptNamed(c)
	}
	return c
}

// collectionOf is the collection that a key belongs to, if a client subscribed to it.
func (t *Table) collectionOf(key string, e *Entry) *Collection {
	if e != nil && e.coll != nil {
		return e.coll
	}
	if len(t.colls) == 0 {
		return nil
	}
	if t.kind == WholeType {
		return t.colls[Wildcard]
	}
	if g := keyer.GlobOf(key); g != "" {
		return t.colls[g]
	}
	return nil
}

// shown returns a function that reports whether clients have something of the resource with a key: by
// its name, or by an alias.
func (t *Table) shown() func(key string) bool {
	return func(key string) bool {
		e := t.entries[key]
		return e != nil && e.Exists() || len(t.aliases.of(key)) > 0
	}
}

// adoptNamed makes entries that are held by name members of a new collection. The server need not
// mention them again: on a resumed stream it knows that the relay holds them. Clients that are relays
// are told that these members are only a part, as after an answer that broke off.
func (t *Table) adoptNamed(c *Collection) {
	for e := range t.unglobbed.take(c.key) {
		if e.res != nil {
			c.touch(e, t.store.journal.nextRevision())
			c.bytes += e.Size()
			if e.Restored() {
				c.restored.is = true
				c.quiet.distrust(e) // the server was asked for it by its name
			}
			c.quiet.breaks = 1
			if e.extra.err != nil {
				c.addError(e.key, e.extra.err)
			}
		}
	}
}

// sharesStream reports whether the wildcard and the names of the type are on one stream.
func (t *Table) sharesStream() bool {
	s := t.store
	if s.source.Shared[t.typeURL] {
		return true
	}
	if s.source.PerType {
		return s.single[t.typeURL]
	}
	return s.single[""]
}

// assignStream gives the table its stream: the first one, unless that carries the other kind of
// the same type, and the two must not share one.
func (t *Table) assignStream() {
	if t.upstream.assigned {
		return
	}
	t.upstream.assigned = true
	t.upstream.stream = wire.StreamID{}
	if t.store.source.PerType {
		t.upstream.stream.TypeURL = t.typeURL
	}
	if other := t.other(); other != nil && other.upstream.on(t.upstream.stream) && !t.sharesStream() {
		t.upstream.stream.Second = true
	}
}

// A resource's name lies in its bytes. The key of its entry lies there too, if both are the
// same and nothing asks for the name: a member of a glob has its name in memory once. The key
// moves with the content, in the entry and in the table. Otherwise it would keep the old bytes.
// A subscription or a demand for the name needs the key for longer than that.

// shareKey points e.key into the resource's bytes, or takes it out of them. It is called after
// the content changed, and after a client or the relay asked for e by name.
func (t *Table) shareKey(e *Entry) {
	switch {
	case e.res != nil && !e.extra.named() && e.res.Name == e.key:
		e.key, e.marks.sharesKey = e.res.Name, true
	case e.marks.sharesKey:
		e.key, e.marks.sharesKey = strings.Clone(e.key), false
	default:
		return
	}
	t.entries[e.key] = e // has the table's key moved too
}

// setDemand gives an entry a demand of its own, or takes it away with nil.
func (e *Entry) setDemand(i *demand) {
	e.extra.own().demand = i
	e.extra.tidy()
	if i != nil {
		i.table.shareKey(e)
	}
}

// unheard reports whether a table is of a type that no discovery service is known of, and of which the server has
// said nothing: a client may have invented it (LIM-2).
func (t *Table) unheard() bool {
	return !t.upstream.heard && t.usage.resources == 0 && !t.store.source.Resolved && !xds.HasService(t.typeURL)
}

// behindRelay reports whether the server is a relay, as it says itself.
func (t *Table) behindRelay() bool {
	id := t.store.controlPlane.Load()
	return id != nil && wire.FromRelay(*id)
}
