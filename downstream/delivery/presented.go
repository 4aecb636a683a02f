package delivery

import (
	"hash/maphash"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// The relay compares the versions that a client presents when its stream begins (RES-11) at
// once. Nearly all clients that come back hold just what a collection has: their follower
// begins at the end. Versions that cannot be compared yet are kept in held versions. All
// clients may come back at the same time, with a thousand versions each: so nothing is done for
// each version under the lock, and none is looked up where the sum of all is enough.

// distrusted takes the place of a presented version_info that is not to be believed
// (Change.Distrust). No server has it.
const distrusted = "\x00distrusted"

// presentation is what a client says it holds of a type when its stream begins.
type presentation struct {
	typeSub  *typeSub
	subs     *subscribed // the type subscription's
	versions *wire.Versions
	begun    bool // there was no subscription to the type before
	distrust bool // no version is to be believed
}

// take compares the versions. It ignores names that the client does not subscribe to. The caller
// is the client's stream, and holds no lock.
func (p *presentation) take() {
	if p.versions.Len() == 0 {
		return
	}
	w, s := p.typeSub, p.typeSub.place.store
	w.held.at, w.progress.led, w.progress.shown = s.Now(), true, true
	if p.subs.names.len() > 0 {
		own := p.versions.Clone() // its names are looked up as strings
		p.versions = &own
		s.View(p.names)
	}
	if (p.subs.wildcard == nil && len(p.subs.globs.all) == 0) || (!p.distrust && p.level()) {
		return
	}
	held := p.sort()
	if p.distrust {
		for _, c := range held {
			c.doubt()
		}
	}
	s.View(func() {
		for f, c := range held {
			p.hold(f, c)
		}
	})
}

// names compares the versions of names. What is not the same, or not known, is kept until the
// name is answered. Of a name that is presented twice the last version counts.
func (p *presentation) names() {
	for it := p.versions.Walk(); it.Next(); {
		if sub := p.subs.names.one(it.NameString()); sub != nil {
			p.name(sub, it.Version)
		} else {
			p.alias(&it)
		}
	}
	p.typeSub.changed.drain(func(sub *nameSub) bool { return !sub.dirty })
}

// name compares the version of a name: at once, if it has one spelling.
func (p *presentation) name(sub *nameSub, version []byte) {
	w, key := p.typeSub, sub.entry.Key()
	if p.begun && !p.distrust && len(p.subs.names.respelled[key]) == 0 && sub.same(version) {
		w.held.drop(key)
		w.subs.screen.serves(sub.spelling, sub.sentName())
		sub.holds, sub.dirty, sub.pushed, sub.absenceDue = true, false, false, false
		return
	}
	if p.distrust {
		version = nil
	}
	w.held.set(key, string(version))
	p.subs.names.markHeld(key)
	sub.dirty = sub.dirty || (p.begun && sub.entry.State() == cache.Present) // in the queue already, as all names are that begin
}

// alias compares the version of a resource that the client does not name with what its aliases
// stand for.
func (p *presentation) alias(it *wire.VersionWalk) {
	t := p.typeSub.place.store.FindTable(p.typeSub.typeURL, cache.ByName)
	if t == nil {
		return
	}
	for _, e := range t.AliasesOf(it.NameString()) {
		for sub := range p.subs.names.subsOf(e.Key()) {
			p.name(sub, it.Version)
		}
	}
}

// same reports whether a client that presents a version has what the name stands for, and need
// not be told anything of it.
func (n *nameSub) same(version []byte) bool {
	e, w := n.entry, n.typeSub
	return e.State() == cache.Present && !n.denied() && !n.heartbeat &&
		(e.Lifetime() == nil || !w.place.form.TTL) && !e.Marks().ReusedVersion && string(version) == e.Version()
}

// level puts the followers at the end of their collections if the client presents just what
// these have, and reports whether it did: by the sum of the client's versions.
func (p *presentation) level() bool {
	if p.subs.names.len() > 0 {
		return false
	}
	seed, presented := p.typeSub.place.store.Seed(), uint64(0)
	for it := p.versions.Walk(); it.Next(); {
		presented += maphash.Bytes(seed, it.Entry())
	}
	// Under a server that changes something all the time the sum of a large collection is never
	// complete: then its members are compared one by one.
	same, known := false, false
	for range 2 * (1 + p.versions.Len()/cache.MaxLooked) {
		p.typeSub.place.store.View(func() { same, known = p.levelAt(presented) })
		if known {
			return same
		}
	}
	return false
}

// levelAt is level for the sum of the versions. The caller holds the store's lock for reading.
// known is false if the collections are so large that their sum takes several goes.
func (p *presentation) levelAt(presented uint64) (same, known bool) {
	n := p.versions.Len()
	for f := range p.subs.cursors() {
		if !p.comparable(f) {
			return false, true
		}
		n -= f.Collection().Len()
	}
	if n != 0 {
		return false, true
	}
	looked := 0
	for f := range p.subs.cursors() {
		sum, complete := f.Collection().VersionSum(&looked)
		if !complete {
			return false, false
		}
		presented -= sum
	}
	if presented != 0 {
		return false, true
	}
	for f := range p.subs.cursors() {
		p.toEnd(f)
	}
	return true, true
}

// sort sorts the presented versions by the followers that have to compare them. Names are
// compared otherwise.
func (p *presentation) sort() map[*follower]*heldVersions {
	own := p.versions.Clone()
	held := make(map[*follower]*heldVersions)
	n, size := own.Len(), own.Size()
	if len(p.subs.globs.all) > 1 || (p.subs.wildcard != nil && len(p.subs.globs.all) > 0) {
		n, size = 0, 0 // nobody knows how many each has
	}
	for it := own.Walk(); it.Next(); {
		key := it.NameString()
		if p.subs.names.named(key) {
			continue
		}
		f := p.subs.globs.of(key)
		if f == nil {
			f = p.subs.wildcard
		}
		if f == nil {
			continue
		}
		c := held[f]
		if c == nil {
			c = newHeldVersions(p.typeSub.place.store.Seed(), n, size)
			held[f] = c
		}
		c.set(key, it.VersionString())
	}
	for _, c := range held {
		c.fit()
	}
	return held
}

// comparable reports whether only the versions of its members decide what a follower sends:
// nothing was sent or presented before, and the client needs no TTLs (TTL-1).
func (p *presentation) comparable(f *follower) bool {
	return p.subs.screen == nil && f.Sent() == 0 && f.held.none() &&
		(!p.typeSub.place.form.TTL || !f.Collection().Table().HasTTLs())
}

// toEnd records that the client has all members.
func (p *presentation) toEnd(f *follower) {
	c := f.Collection()
	if t := c.Last(); t != nil {
		f.Advance(t)
		f.sentBefore, f.answered = t.Changed(), true
	}
	f.seen, f.since = c.Changes(), 0
}

// hold adds versions that the client said it holds of a collection.
func (p *presentation) hold(f *follower, c *heldVersions) {
	f.answered = true
	if f.held.none() {
		f.held = c
		return
	}
	for key := range c.keys() {
		version, _ := c.get(key)
		f.held.set(key, version)
	}
}
