package cache

import (
	"hash/maphash"
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// What a client presents when its stream begins (RES-11) is compared at once with what is
// here. Who holds just what a collection has, as nearly all clients do that come back,
// gets a cursor at its end; what cannot be told yet is kept in claims. Everybody may come
// back at the same time, with a thousand versions each: so nothing is done for each of
// them under the lock, and none is looked up where the sum of all says enough.

// distrusted is the version_info that a client counts as having presented whose version is
// not to be believed (Change.Distrust). No server has it.
const distrusted = "\x00distrusted"

// present takes what the client says it holds. What it is not subscribed to is none of
// the relay's business. The caller is the client's stream, and holds no lock: what became
// of something since it was subscribed to is compared as it is now. begun says that there
// was nothing of the type before, and distrust that no version is to be believed.
func (w *watch) present(versions *wire.Versions, begun, distrust bool) {
	if versions.Len() == 0 {
		return
	}
	s := w.client.store
	w.heldAt, w.led = s.cache.now(), true
	if w.names.len() > 0 {
		own := versions.Clone() // its names are looked up as strings
		versions = &own
		s.mu.RLock()
		w.presentNames(versions, begun, distrust)
		s.mu.RUnlock()
	}
	if (w.wildcard == nil && len(w.globs) == 0) || (!distrust && w.level(versions)) {
		return
	}
	claimed := w.claim(versions)
	if distrust {
		for _, c := range claimed {
			c.doubt()
		}
	}
	s.mu.RLock()
	for f, c := range claimed {
		f.claim(c)
	}
	s.mu.RUnlock()
}

// presentNames compares the versions of names. What is not the same, or not known, is kept
// until the name is answered. Of a name that is presented twice the last version counts.
func (w *watch) presentNames(versions *wire.Versions, begun, distrust bool) {
	for it := versions.Walk(); it.Next(); {
		sub, respelled := w.names.get(it.NameString()), w.respelledNames[it.NameString()]
		switch {
		case sub == nil && len(respelled) == 0:
			w.presentAlias(&it, begun, distrust)
		case sub == nil:
			w.presentName(respelled[0], it.Version, begun, distrust)
		default:
			w.presentName(sub, it.Version, begun, distrust)
		}
	}
	w.dirty = slices.DeleteFunc(w.dirty, func(sub *nameSub) bool { return !sub.dirty && !sub.ended })
	if len(w.dirty) == 0 {
		w.dirty = nil
	}
}

// presentName compares the version of a name: at once, if it has one spelling.
func (w *watch) presentName(sub *nameSub, version []byte, begun, distrust bool) {
	if begun && !distrust && len(w.respelledNames[sub.entry.key]) == 0 && sub.same(version) {
		w.held = without(w.held, sub.entry.key)
		w.handedOver.drop(sub)
		sub.holds, sub.dirty, sub.pushed, sub.denied = true, false, false, false
		return
	}
	if w.held == nil {
		w.held = make(map[string]string)
	}
	w.held[sub.entry.key] = ""
	if !distrust {
		w.held[sub.entry.key] = string(version)
	}
	w.markHeld(sub.entry.key)
	sub.dirty = sub.dirty || (begun && sub.entry.state == present) // which is in w.dirty, as all those are
}

// same reports whether a client that presents a version has what the name stands for, and
// need not be told anything of it.
func (n *nameSub) same(version []byte) bool {
	e, w := n.entry, n.watch
	return e.state == present && !n.heartbeat && w.variants == nil && !e.constrained() &&
		(e.life == nil || !w.client.form.TTL) && !e.tainted && len(version) > 0 && string(version) == e.version()
}

// level puts the cursors of a client at the end that presents just what their collections
// have, and reports whether it did: by the sum of its versions.
func (w *watch) level(versions *wire.Versions) bool {
	if w.names.len() > 0 {
		return false
	}
	seed, presented := w.client.store.cache.seed, uint64(0)
	for it := versions.Walk(); it.Next(); {
		presented += maphash.Bytes(seed, it.Entry())
	}
	// Under a server that changes something all the time the sum of a large collection is
	// never complete: then its members are compared one by one.
	for range 2 * (1 + versions.Len()/maxLooked) {
		if same, known := w.levelAt(versions.Len(), presented); known {
			return same
		}
	}
	return false
}

// levelAt is level for a number of versions and their sum. What the collections have is
// not known yet if they are so large that it takes several goes.
func (w *watch) levelAt(n int, presented uint64) (same, known bool) {
	s := w.client.store
	s.mu.RLock()
	defer s.mu.RUnlock()
	for f := range w.cursors() {
		if !f.comparable() {
			return false, true
		}
		n -= f.coll.live.len
	}
	if n != 0 {
		return false, true
	}
	looked := 0
	for f := range w.cursors() {
		sum, complete := f.coll.versionSum(&looked)
		if !complete {
			return false, false
		}
		presented -= sum
	}
	if presented != 0 {
		return false, true
	}
	for f := range w.cursors() {
		f.toEnd()
	}
	return true, true
}

// comparable reports whether nothing but the versions of its members decides what a
// cursor has to tell: nothing was told or claimed before, and there are no ttls that the
// client has to know (TTL-1), nor members that are not kept (TTL-5).
func (f *cursor) comparable() bool {
	return f.sent == 0 && f.versions.none() && f.coll.transient == 0 &&
		(!f.client.form.TTL || !f.coll.table.lifetimes.any())
}

// toEnd has the client know all members.
func (f *cursor) toEnd() {
	c := f.coll
	if t := c.live.tail; t != nil {
		f.sent, f.at, f.reached, f.told = t.changed, t, t.changed, true
	}
	f.seen, f.since = c.changes, 0
}

// versionSum is the sum of what a client presents that holds all members. It is worked out
// once for all clients that come before the next change, in several goes if there are more
// than maxLooked members: the store's lock is held, for reading. It takes in proportion to
// what the first of these clients presents.
func (c *collection) versionSum(looked *int) (sum uint64, complete bool) {
	b := &c.bodies
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.summedAt != c.changes {
		b.summedAt, b.versions, b.summed = c.changes, 0, c.live.head
	}
	seed := c.table.store.cache.seed
	for ; b.summed != nil; b.summed = b.summed.next {
		if *looked++; *looked > maxLooked {
			return 0, false
		}
		b.versions += b.summed.versionPart(seed)
	}
	return b.versions, true
}

// versionPart is the part of the sum that a member has. Some have one that nobody can
// present, since it is no UTF-8: no version makes anybody skip them, or there is more to
// note of a client that has them (DYN-1).
func (e *entry) versionPart(seed maphash.Seed) uint64 {
	version := e.version()
	if e.tainted || version == "" || e.constrained() {
		version = "\xff"
	}
	var room [128]byte
	return maphash.Bytes(seed, wire.AppendVersion(room[:0], e.key, version))
}

// claim gives what is presented by the cursors that have to compare it. Names have their
// own ways.
func (w *watch) claim(versions *wire.Versions) map[*cursor]*claims {
	own := versions.Clone()
	claimed := make(map[*cursor]*claims)
	n, size := own.Len(), own.Size()
	if len(w.globs) > 1 || (w.wildcard != nil && len(w.globs) > 0) {
		n, size = 0, 0 // nobody knows how many each has
	}
	for it := own.Walk(); it.Next(); {
		key := it.NameString()
		if w.named(key) {
			continue
		}
		f := w.globFor(key)
		if f == nil {
			f = w.wildcard
		}
		if f == nil {
			continue
		}
		c := claimed[f]
		if c == nil {
			c = newClaims(w.client.store.cache.seed, n, size)
			claimed[f] = c
		}
		c.set(key, it.VersionString())
	}
	for _, c := range claimed {
		c.fit()
	}
	return claimed
}

// claim adds what the client says it holds.
func (f *cursor) claim(c *claims) {
	f.told = true
	if f.versions.none() {
		f.versions = c
		return
	}
	for key := range c.keys() {
		version, _ := c.get(key)
		f.versions.set(key, version)
	}
}

// checkVersions verifies the sum of the members' versions, and what followers still claim.
func (c *collection) checkVersions(check *checker) {
	if b := &c.bodies; b.summedAt == c.changes && b.summed == nil {
		sum := uint64(0)
		for e := c.live.head; e != nil; e = e.next {
			sum += e.versionPart(c.table.store.cache.seed)
		}
		check.that(sum == b.versions, "%q: the sum of the versions is %x, found %x", c.key, b.versions, sum)
	}
	for _, f := range c.followers {
		if f.versions == nil {
			continue
		}
		left := 0
		for key := range f.versions.keys() {
			left++
			check.that(f.versions.has(key), "%q: what is claimed of %q is not found", c.key, key)
		}
		check.that(left == f.versions.left, "%q: %d claims are left, counted as %d", c.key, left, f.versions.left)
	}
}
