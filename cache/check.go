package cache

import (
	"errors"
	"fmt"

	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Check walks the whole store and reports every inconsistency that it finds. It
// locks the store for as long as it walks: for tests and for the admin port.
func (s *Store) Check() error {
	s.mu.Lock() // for writing, since it looks at what clients change under the read lock
	defer s.mu.Unlock()
	var errs []error
	var resources, bytes int64
	for key, t := range s.tables {
		r, b, err := t.check()
		if err != nil {
			errs = append(errs, fmt.Errorf("table %s (%s): %w", key.typeURL, key.kind, err))
		}
		resources += r
		bytes += b
	}
	if resources != s.resources || bytes != s.bytes {
		errs = append(errs, fmt.Errorf("counted %d resources of %d bytes, found %d of %d", s.resources, s.bytes, resources, bytes))
	}
	if err := s.checkStrays(); err != nil {
		errs = append(errs, err)
	}
	readers := 0
	for c := range s.clients {
		if c.reads() {
			readers++
		}
		for _, w := range c.watches {
			if err := w.check(); err != nil {
				errs = append(errs, fmt.Errorf("watch of %s: %w", w.typeURL, err))
			}
		}
	}
	if readers != s.readers {
		errs = append(errs, fmt.Errorf("%d readers counted as %d", readers, s.readers))
	}
	return errors.Join(errs...)
}

// check verifies one table and returns its resources and bytes.
func (t *table) check() (resources, bytes int64, err error) {
	c := &checker{}
	interests, watchers := 0, int64(0)
	c.that(nothing.empty(), "what entries share that have nothing aside is not empty")
	pending := make(map[*interest]bool)
	for at, i := range t.pending {
		c.that(!pending[i], "%q is pending twice", i.name())
		c.that(int(i.pending) == at+1, "%q is pending at %d, but says %d", i.name(), at+1, i.pending)
		pending[i] = true
	}
	for key, coll := range t.colls {
		interests++
		coll.check(c, key)
		coll.interest.check(c, pending)
	}
	for key, e := range t.entries {
		c.that(e.key == key, "entry %q stands under %q", e.key, key)
		c.that((e.state == present) == (e.res != nil), "%q is %s, resource held: %t", key, e.state, e.res != nil)
		e.checkErrors(c)
		e.life.checkTransient(c, e)
		c.that(e.wanted() || e.interest != nil || e.coll != nil, "nothing refers to entry %q", key)
		c.that(e.coll == nil || t.colls[e.coll.key] == e.coll, "%q belongs to a collection that is gone", key)
		c.that(e.changed <= t.store.seq, "%q was changed in the future", key)
		watchers += int64(len(e.subs))
		for pos, sub := range e.subs {
			c.that(sub.pos == pos && sub.entry == e && !sub.ended, "%q has a broken watcher", key)
		}
		if e.wanted() && e.interest == nil {
			c.that(e.member(), "%q is watched, and nobody is asked", key)
		}
		c.that(e.aside == nothing || !e.empty(), "%q has nothing aside, in memory of its own", key)
		c.that(key == "" || sameMemory(e.key, key), "%q has a key of its own, and the table another", key)
		c.that(key == "" || e.res == nil || e.lent == sameMemory(e.key, e.res.Name), "%q: key lent %t", key, e.lent)
		c.that(!e.lent || (e.res != nil && !e.named()), "%q: the key lies in what is not kept, or may go", key)
		c.that(key == "" || e.spelled != key, "%q keeps its key twice", key)
		c.that(e.retained == nil || e.dead, "%q keeps what it was and is no tombstone", key)
		t.unglobbed.check(c, e)
		if e.interest != nil {
			interests++
			e.interest.check(c, pending)
		}
		if e.res != nil {
			resources++
			bytes += e.size()
		}
	}
	t.aliases.check(c, t.entries)
	c.that(resources == t.resources && bytes == t.bytes && watchers == t.watchers,
		"counted %d resources of %d bytes and %d watchers, found %d of %d and %d",
		t.resources, t.bytes, t.watchers, resources, bytes, watchers)
	t.digests.check(c, t.entries, t.colls)
	t.lifetimes.check(c, t.entries, t.store.heartbeats)
	t.checkTimed(c)
	t.absences.check(c, t.entries)
	c.that(interests == t.interests, "counted %d interests, found %d", t.interests, interests)
	c.that(interests == 0 || t.assigned, "wanted, but on no stream")
	t.checkClocks(c)
	t.serverVersions.check(c, t.entries)
	t.checkErrors(c)
	t.checkPins(c)
	t.references.check(c, t.entries)
	checkVariants(c, t)
	return resources, bytes, errors.Join(c.errs...)
}

func (i *interest) check(c *checker, pending map[*interest]bool) {
	name := i.name()
	c.that((i.pending > 0) == pending[i], "%q: pending at %d, listed %t", name, i.pending, pending[i])
	// The other way around it may just have been taken out, to be evicted.
	c.that(i.parked || !i.table.store.cache.waits(i), "%q is in the LRU, but not parked", name)
	c.that(!i.leaving || !i.watched(), "%q is watched and leaving", name)
	c.that(!(i.parked && i.watched()), "%q is watched and parked", name)
	c.that(i.watched() || i.parked || i.leaving, "%q is neither watched, parked nor leaving", name)
	c.that(!i.leaving || i.pending > 0, "%q is leaving, but nobody will say so", name)
}

func (coll *collection) check(c *checker, key string) {
	c.that(coll.key == key, "collection %q stands under %q", coll.key, key)
	var bytes int64
	stale := 0
	for _, l := range []struct {
		list *list
		dead bool
	}{{&coll.live, false}, {&coll.tombs, true}} {
		n, last := 0, uint64(0)
		var prev *entry
		for e := l.list.head; e != nil; prev, e = e, e.next {
			n++
			c.that(e.prev == prev, "%q: list broken before %q", key, e.key)
			c.that(e.coll == coll && e.dead == l.dead, "%q: %q is in the wrong list", key, e.key)
			c.that(e.changed > last, "%q: %q is out of order", key, e.key)
			c.that(e.there() != l.dead, "%q: %q is %s", key, e.key, e.state)
			c.that(coll.table.entries[e.key] == e, "%q: %q is not in the table", key, e.key)
			last = e.changed
			if !l.dead {
				bytes += e.size()
				if coll.quiet.isStale(e) {
					stale++
				}
			}
		}
		c.that(l.list.tail == prev && l.list.len == n, "%q: list of %d counted as %d", key, n, l.list.len)
	}
	coll.heartbeats.check(c, key, followersWith(coll, func(f Form) bool { return f.TTL }), func(e *entry) bool { return e.coll == coll })
	coll.checkTransient(c)
	c.that(bytes == coll.bytes, "%q: %d bytes counted as %d", key, bytes, coll.bytes)
	c.that(stale == coll.quiet.stale, "%q: %d stale members counted as %d", key, stale, coll.quiet.stale)
	c.that(coll.tombs.len <= max(minTombstones, coll.live.len), "%q: %d tombstones", key, coll.tombs.len)
	_, unsettled := coll.table.store.unsettled[coll]
	source := &coll.table.store.source
	c.that(unsettled || coll.quiet.end(coll.synced, source.Quiet, source.longQuiet()).IsZero(), "%q has a quiet time that nobody will end", key)
	for pos, f := range coll.followers {
		c.that(f.pos == pos && f.coll == coll, "%q has a broken follower", key)
	}
	coll.rested.check(c, coll)
	coll.checkStates(c)
}

// followersWith counts the followers of a collection with a form of some kind.
func followersWith(coll *collection, is func(Form) bool) (n int) {
	for _, f := range coll.followers {
		if is(f.client.form) {
			n++
		}
	}
	return n
}

// checkStates verifies what is kept up for state-of-the-world clients.
func (coll *collection) checkStates(c *checker) {
	states := followersWith(coll, func(f Form) bool { return f.State })
	listed := 0
	var total digest.Sum
	for e := coll.live.head; e != nil; e = e.next {
		total = total.Plus(e.sum)
		c.that(e.retained == nil, "%q: %q is there and keeps what it was", coll.key, e.key)
		if e.listed() != nil {
			listed++
		}
	}
	c.that(states == coll.states, "%q: %d state-of-the-world followers counted as %d", coll.key, states, coll.states)
	coll.retained.check(c, coll.key, coll.tombs.head)
	c.that(!coll.table.digests.kept || total == coll.sum, "%q: sum %s, found %s", coll.key, coll.sum, total)
	coll.checkRuns(c)
	coll.checkVersions(c)
	for _, body := range []*wire.Body{coll.bodies.bare, coll.bodies.wrapped} {
		c.that(body == nil || (states > 0 && body.Resources() == listed), "%q: a list that nobody needs, or of other members", coll.key)
	}
}

// checkRuns verifies that what was gathered for those who begin is what members hold.
func (coll *collection) checkRuns(c *checker) {
	members := 0
	for e, r := range coll.runs.by {
		members += r.body.Resources()
		now := coll.gather(e, r.last.changed, r.body.Size(), r.body.Resources())
		c.that(e.coll == coll && !e.dead && now.last == r.last && now.body.Shares(r.body), "%q: a run from %q is of something else", coll.key, e.key)
	}
	c.that(members == coll.runs.members, "%q: %d members in runs counted as %d", coll.key, members, coll.runs.members)
	c.that(members == 0 || len(coll.followers) > 0, "%q: runs that nobody needs", coll.key)
}

func (w *watch) check() error {
	c := &checker{}
	dirty := make(map[*nameSub]bool)
	ended, respelled := 0, 0
	for _, sub := range w.dirty {
		c.that(!dirty[sub], "%q is dirty twice", sub.spelling)
		dirty[sub] = true
		if sub.ended {
			ended++
		}
	}
	c.that(ended == w.ended, "%d dirty subscriptions ended, counted as %d", ended, w.ended)
	var total digest.Sum
	w.names.check(c)
	for sub := range w.names.all() {
		name := sub.spelling
		total = total.Plus(sub.entry.sum)
		c.that(sub.retained == nil || w.full, "%q keeps what it was", name)
		c.that(sub.watch == w && !sub.ended, "subscription to %q is broken", name)
		c.that(sub.dirty == dirty[sub], "%q: dirty %t, listed %t", name, sub.dirty, dirty[sub])
		c.that(!sub.heartbeat || (sub.dirty && sub.entry.there() && sub.entry.life != nil), "%q is to be told of a heartbeat that did not come", name)
		if name != sub.entry.key {
			respelled++
		}
	}
	for key, subs := range w.respelledNames {
		respelled -= len(subs)
		for _, sub := range subs {
			c.that(w.names.get(sub.spelling) == sub && sub.entry.key == key, "respelled %q of %q is broken", sub.spelling, key)
		}
	}
	for sub := range w.handedOver {
		c.that(!sub.ended && (sub.dirty || sub.entry.state == transient), "what waits for %q is not released", sub.spelling)
	}
	for sub := range w.errors.names {
		c.that(!sub.ended && sub.entry.err != nil && sub.entry.there(), "%q: an error is to be told that is no more", sub.spelling)
	}
	if w.wildcard != nil {
		for key, v := range w.held { // some of which what "*" has stands in for
			e := w.wildcard.coll.table.entries[key]
			c.that(e == nil || e.res == nil || v == "" || !sameMemory(v, e.res.Shown()), "%q: the version that the client holds lies in what may go", key)
		}
	}
	for f := range w.cursors() {
		for e := range f.handedOver {
			owed := e.member() || (e.dead && e.changed > f.removed)
			c.that(f.behind() || (e.coll == f.coll && owed), "%q: what waits of %q is not released", f.name, e.key)
		}
	}
	c.that(!w.client.form.State || total == w.sum, "sum of the names %s, found %s", w.sum, total)
	c.that(respelled == 0, "%d respelled names are not listed", respelled)
	w.checkVariants(c)
	return errors.Join(c.errs...)
}
