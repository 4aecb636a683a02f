package cache

import (
	"errors"
	"fmt"

	"github.com/xdsrelay/xdsrelay/cache/digest"
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
	if (s.usage != weight{resources, bytes}) {
		errs = append(errs, fmt.Errorf("counted %d resources of %d bytes, found %d of %d", s.usage.resources, s.usage.bytes, resources, bytes))
	}
	if err := s.checkStrays(); err != nil {
		errs = append(errs, err)
	}
	c := &Checker{}
	s.vacant.check(c, s.vacantOf(c))
	errs = append(errs, c.Err())
	readers := 0
	for p, own := range s.places {
		if own {
			readers++
		}
		if err := p.Check(); err != nil {
			errs = append(errs, err)
		}
	}
	if readers != s.readers {
		errs = append(errs, fmt.Errorf("%d readers counted as %d", readers, s.readers))
	}
	return errors.Join(errs...)
}

// vacantOf finds the vacant demand, with the bytes of the names.
func (s *Store) vacantOf(c *Checker) map[*demand]int {
	found := make(map[*demand]int)
	for _, t := range s.tables {
		for i := range t.allDemands() {
			if i.vacant() {
				found[i] = len(i.name())
				c.That(i.entry == nil || i.entry.Open(), "%q is idle, and the server said that there is nothing", i.name())
			}
		}
	}
	return found
}

// check verifies one table and returns its resources and bytes.
func (t *Table) check() (resources, bytes int64, err error) {
	c := &Checker{}
	demands, watchers, restored, settled := 0, int64(0), 0, 0
	c.That(noExtra.empty(), "the extra fields that entries share are not empty")
	pending := t.demands.check(c, t)
	for key, coll := range t.colls {
		demands++
		coll.check(key, c)
		coll.demand.check(c, pending)
	}
	for key, e := range t.entries {
		c.That(e.key == key, "entry %q stands under %q", e.key, key)
		c.That((e.state == Present) == (e.res != nil), "%q is %s, resource held: %t", key, e.state, e.res != nil)
		e.checkErrors(c)
		c.That(e.wanted() || e.extra.demand != nil || e.coll != nil, "nothing refers to entry %q", key)
		c.That(e.coll == nil || t.colls[e.coll.key] == e.coll, "%q belongs to a collection that is gone", key)
		c.That(e.changed <= t.store.journal.revision, "%q was changed in the future", key)
		watchers += int64(e.extra.watchers())
		c.That(e.extra.audience == nil || e.extra.watchers() > 0, "%q has an empty audience", key)
		if e.wanted() && e.extra.demand == nil {
			c.That(e.Member(), "%q has subscribers, and the server is not asked", key)
		}
		c.That(e.extra.extra == noExtra || !e.extra.empty(), "%q has empty extra fields of its own", key)
		c.That(key == "" || SameMemory(e.key, key), "%q has a key of its own, and the table another", key)
		c.That(key == "" || e.res == nil || e.marks.sharesKey == SameMemory(e.key, e.res.Name), "%q: key shared %t", key, e.marks.sharesKey)
		c.That(!e.marks.sharesKey || (e.res != nil && !e.extra.named()), "%q: the key lies in what is not kept, or may go", key)
		c.That(key == "" || e.extra.spelled != key, "%q keeps its key twice", key)
		c.That(e.extra.retained == nil || e.marks.Tombstone, "%q keeps what it was and is no tombstone", key)
		t.unglobbed.check(c, e)
		if e.extra.demand != nil {
			demands++
			e.extra.demand.check(c, pending)
		}
		if e.Restored() {
			restored++
		}
		if e.res != nil {
			resources++
			bytes += e.Size()
		}
		if e.state.settled() {
			settled++
		}
	}
	c.That(settled == t.usage.settled, "counted %d names of which the server said whether they exist, found %d", t.usage.settled, settled)
	t.aliases.check(c, t.entries)
	c.That(t.usage.weight == weight{resources, bytes} && watchers == t.usage.watchers,
		"counted %d resources of %d bytes and %d watchers, found %d of %d and %d",
		t.usage.resources, t.usage.bytes, t.usage.watchers, resources, bytes, watchers)
	t.digests.check(c, t.entries, t.colls)
	t.lifetimes.check(c, t.entries, t.store.journal.heartbeats)
	_, timed := t.store.due.ttls[t]
	c.That(timed || len(t.lifetimes.deadlines) == 0, "a TTL runs, and nobody will end it")
	t.absences.check(c, t.entries)
	c.That(restored == t.upstream.restored, "%d restored resources counted as %d", restored, t.upstream.restored)
	c.That(demands == t.demands.count, "counted %d demands, found %d", t.demands.count, demands)
	c.That(demands == 0 || t.upstream.assigned, "wanted, but on no stream")
	t.checkClocks(c)
	t.serverVersions.check(c, t.entries)
	t.checkErrors(c)
	t.checkPins(c)
	t.references.check(c, t.entries)
	t.checkHeld(c)
	return resources, bytes, c.Err()
}

func (d *demand) check(c *Checker, pending map[*demand]bool) {
	name := d.name()
	c.That((d.pending > 0) == pending[d], "%q: pending at %d, listed %t", name, d.pending, pending[d])
	// The other way around it may just have been taken out, to be evicted.
	listed, vacant := d.table.store.cache.lists(d)
	c.That(d.idle || !listed, "%q is in the LRU, but not idle", name)
	c.That(vacant == (listed && d.table.store.vacant.has(d)), "%q is in the LRU: %t, as vacant: %t", name, listed, vacant)
	c.That(!d.evicting || !d.subscribedTo(), "%q has subscribers and is evicted", name)
	c.That(!(d.idle && d.subscribedTo()), "%q has subscribers and is idle", name)
	c.That(d.subscribedTo() || d.idle || d.evicting, "%q has no subscribers, and is neither idle nor evicted", name)
	c.That(!d.evicting || d.pending > 0, "%q is evicted, but the server is not told", name)
}

func (coll *Collection) check(key string, c *Checker) {
	c.That(coll.key == key, "collection %q stands under %q", coll.key, key)
	var bytes int64
	stale := 0
	for _, l := range []struct {
		list       *list
		tombstones bool
	}{{&coll.log.live, false}, {&coll.log.tombstones, true}} {
		n, last := 0, uint64(0)
		var prev *Entry
		for e := l.list.head; e != nil; prev, e = e, e.next {
			n++
			c.That(e.prev == prev, "%q: list broken before %q", key, e.key)
			c.That(e.coll == coll && e.marks.Tombstone == l.tombstones, "%q: %q is in the wrong list", key, e.key)
			c.That(e.changed > last, "%q: %q is out of order", key, e.key)
			c.That(e.Exists() != l.tombstones, "%q: %q is %s", key, e.key, e.state)
			c.That(coll.table.entries[e.key] == e, "%q: %q is not in the table", key, e.key)
			last = e.changed
			if !l.tombstones {
				bytes += e.Size()
				if coll.quiet.isStale(e) {
					stale++
				}
			}
		}
		c.That(l.list.tail == prev && l.list.len == n, "%q: list of %d counted as %d", key, n, l.list.len)
	}
	coll.heartbeats.check(c, key, func(e *Entry) bool { return e.coll == coll })
	c.That(bytes == coll.bytes, "%q: %d bytes counted as %d", key, bytes, coll.bytes)
	c.That(stale == coll.quiet.stale, "%q: %d stale members counted as %d", key, stale, coll.quiet.stale)
	c.That(coll.log.tombstones.len <= max(minTombstones, coll.log.live.len), "%q: %d tombstones", key, coll.log.tombstones.len)
	_, unsettled := coll.table.store.due.unsettled[coll]
	c.That(unsettled || coll.settlesAt().IsZero(), "%q has a quiet time that nobody will end", key)
	for pos, f := range coll.followers {
		c.That(f.pos == pos && f.coll == coll, "%q has a broken follower", key)
	}
	coll.waiters.check(c, coll)
	coll.checkStates(c)
}

// checkStates verifies sums, lists and chunks.
func (coll *Collection) checkStates(c *Checker) {
	states := coll.followers.count(NeedsDigests)
	var total digest.Sum
	for e := coll.log.live.head; e != nil; e = e.next {
		total = total.Plus(e.extra.sum)
		c.That(e.extra.retained == nil, "%q: %q is there and keeps what it was", coll.key, e.key)
	}
	c.That(states == coll.states, "%q: %d state-of-the-world followers counted as %d", coll.key, states, coll.states)
	coll.retained.check(c, coll.key, coll.log.tombstones.head)
	c.That(!coll.table.digests.kept || total == coll.sum, "%q: sum %s, found %s", coll.key, coll.sum, total)
	coll.encoded.chunks.check(c, coll)
	coll.encoded.lists.check(c, coll, states)
}
