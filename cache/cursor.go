package cache

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// cursor is how far one client has followed one collection. Guarded by
// Store.mu, against other clients by being reachable from its own only.
type cursor struct {
	client *Client
	watch  *watch
	coll   *collection
	pos    int // in coll.followers
	// Place in coll.rested from 1; 0: it was woken, or its watch was. Guarded like that.
	resting int
	name    string // the collection as the client spells it

	born      uint64 // number at which it began; older tombstones do not concern it
	sent      uint64 // last change of a living member that the client was sent
	removed   uint64 // last removal that it was sent
	reached   uint64 // highest sent of any pass before the present one
	at        *entry // the member with number sent, unless it changed since
	tomb      *entry // the tombstone with number removed, likewise
	errorSent uint64 // last error that it was told (ERR-1)
	ttl       ttlPosition

	seen    uint64 // coll.changes when it was last level with the collection
	since   int    // changes sent since then
	told    bool   // the client has been told something, if only that it is empty
	renamed bool   // name is not canonical: members are respelled (NAME-4)
	synced  bool   // a reader knows that the collection is

	// versions is what the client said it holds of the collection
	// (initial_resource_versions), by key, until each was compared; what is left
	// when the collection is synced does not exist any more (RES-11).
	versions   *claims
	handedOver handedOver[*entry]
}

// follow makes a client follow c from its beginning.
func (c *collection) follow(w *watch, spelling string) *cursor {
	n := c.table.store.seq
	f := &cursor{
		client: w.client, watch: w, coll: c, pos: len(c.followers), name: spelling,
		born: n, removed: n, seen: c.changes, renamed: undirected(spelling, c.key) != c.key,
		ttl: newTTLPosition(n, c.table.store.heartbeats),
	}
	followed := c.followed()
	c.followers = append(c.followers, f)
	if w.client.form.TTL {
		c.heartbeats.clients++
	}
	if w.client.form.State {
		c.states++
		c.table.digests.use(1, c.table.entries)
	}
	f.rest()
	c.interest.want()
	c.askForTransient(w)
	c.table.references.followersChanged(c, followed)
	return f
}

// followed reports whether a client follows the collection.
func (c *collection) followed() bool {
	return slices.ContainsFunc(c.followers, func(f *cursor) bool { return !f.client.reads() })
}

// unfollow ends it.
func (f *cursor) unfollow() {
	c := f.coll
	f.leaveRest()
	followed, last := c.followed(), len(c.followers)-1
	c.followers[f.pos] = c.followers[last]
	c.followers[f.pos].pos = f.pos
	c.followers[last] = nil
	c.followers = c.followers[:last]
	if f.client.form.TTL {
		c.heartbeats.clients--
	}
	if f.client.form.State {
		c.states--
		c.table.digests.use(-1, c.table.entries)
		c.releasePassed()
		if c.states == 0 {
			c.bodies.bare, c.bodies.wrapped = nil, nil
		}
		if c.states == 0 || f.client.form.TTL {
			c.dropTransient()
		}
	}
	c.table.references.followersChanged(c, followed)
	if last > 0 {
		return
	}
	c.runs.drop()
	c.sweep()
	if !c.pinned {
		c.interest.release()
	}
}

// repeat makes everything be sent again: the client subscribed again (SUB-6).
func (f *cursor) repeat() {
	f.reached = max(f.reached, f.sent)
	f.sent, f.at = 0, nil
	f.born = f.coll.table.store.seq
	f.seen, f.since = f.coll.changes, 0
	f.told, f.synced = false, false
	f.errorSent = 0
	f.coll.askForTransient(f.watch)
	f.versions.doubt() // it may hold them still, or have forgotten them (RES-15)
}

// mayHold notes that the client has a member from another subscription, which the
// cursor has not come to.
func (f *cursor) mayHold(key string) {
	if f.versions == nil {
		f.versions = newClaims(f.client.store.cache.seed, 0, 0)
	}
	f.versions.set(key, "")
}

// passed reports whether an entry is a member that the cursor has come to.
func (f *cursor) passed(e *entry) bool {
	return e.coll == f.coll && !e.dead && e.changed <= f.sent
}

// gave reports whether the client may hold an entry because of the cursor, or said
// that it does (RES-11).
func (f *cursor) gave(e *entry) bool {
	if f.versions.has(e.key) {
		return true
	}
	return e.coll == f.coll && f.mayHave(e) && !(e.dead && e.changed <= f.removed)
}

// mayHave reports whether the client was sent a member before it was removed. The relay does
// not know what a client was sent before its stream began: a client that has shown a version
// and has had no list may have everything (RES-2).
func (f *cursor) mayHave(e *entry) bool {
	return f.mayHaveAll() || e.added <= max(f.reached, f.sent)
}

func (f *cursor) mayHaveAll() bool {
	w := f.watch
	return w.full && w.presented != "" && !w.listed
}

// inherit takes over from a cursor in the same collection, under another spelling,
// that ended: what the client was sent by it, and what was not compared yet.
func (f *cursor) inherit(o *cursor) {
	f.reached, f.removed = max(f.reached, o.reached, o.sent), min(f.removed, o.removed)
	f.ttl.inherit(&o.ttl)
	for key := range o.versions.keys() {
		if e := f.coll.table.entries[key]; e == nil || !f.passed(e) {
			f.mayHold(key)
		}
	}
}

// compared notes that the client knows what became of a key that it held.
func (f *cursor) compared(key string) {
	f.versions = f.versions.settle(key)
}

// behind reports whether removals were discarded that the client was not told.
func (f *cursor) behind() bool { return f.coll.floor > f.removed }

// spell gives a member under the name that the client expects: in its own
// spelling of the glob, whatever the server's is (NAME-4), and in the server's
// for "*".
func (f *cursor) spell(e *entry) string {
	if f.coll.wildcard() {
		return e.name()
	}
	return f.spellKey(e.key)
}

// spellKey is spell for what is no member.
func (f *cursor) spellKey(key string) string {
	if !f.renamed {
		return key
	}
	return keyer.Respell(f.name, key)
}

// addsDue and removalsDue report what Collect would find.
func (f *cursor) addsDue() bool {
	t := f.coll.live.tail
	return (t != nil && t.changed > f.sent) || (!f.told && f.coll.knownEmpty()) || f.ttlRemovalDue()
}

// ttlRemovalDue reports whether the server removed a TTL that the client may know: the
// client needs the content without it (TTL-4).
func (f *cursor) ttlRemovalDue() bool {
	return f.client.form.State && f.client.form.TTL && f.coll.heartbeats.removed > f.ttl.removed
}

func (f *cursor) removalsDue() bool {
	t := f.coll.tombs.tail
	return (t != nil && t.changed > f.removed) || f.behind() || f.claimsDue()
}

// claimsDue reports whether the client said that it holds something of which it is known
// by now whether it exists. What does not is told as removed when the client was sent all
// members: claimsLeft.
func (f *cursor) claimsDue() bool {
	return !f.versions.none() && f.coll.synced && !f.watch.mayHaveByAlias()
}
func (f *cursor) claimsLeft() bool { return f.claimsDue() && f.level() }

// level reports whether the client was sent all members.
func (f *cursor) level() bool {
	t := f.coll.live.tail
	return t == nil || t.changed <= f.sent
}
