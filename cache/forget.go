package cache

import "time"

// forgetUnused drops an entry without subscriptions, pins, demand and collection.
func (t *Table) forgetUnused(e *Entry) {
	if e.wanted() || e.extra.demand != nil || e.coll != nil {
		return
	}
	if e.Exists() && t.upstream.held.has(e) {
		t.store.journal.nextRevision() // a disk is not to keep what the server has not
	}
	t.upstream.held.dropUnused(e, t.collectionOf(e.key, e) != nil)
	t.unglobbed.remove(e)
	t.aliases.drop(e)
	t.absences.end(e)
	t.lifetimes.end(e)
	t.rejections.clear(e)
	t.excuses.drop(e)
	t.become(e, content{state: Unknown}, forgotten, time.Time{}) // its last two users may both come here
	delete(t.entries, e.key)
}

func (t *Table) account(resources, bytes int64) {
	t.store.cache.resources.Add(resources)
	t.store.cache.bytes.Add(bytes)
	t.store.usage.add(resources, bytes)
	t.usage.add(resources, bytes)
}

// sweep discards the tombstones that every cursor has passed, and the oldest beyond max(1024,
// members). A client that had not passed those comes back with its versions. An eighth goes at
// once: otherwise, while one client does not move, each removal would look at all cursors.
func (c *Collection) sweep() {
	if len(c.followers) == 0 {
		// A later follower skips tombstones older than itself.
		for c.log.tombstones.head != nil {
			c.discard(c.log.tombstones.head)
		}
		return
	}
	c.releasePassed()
	limit := max(minTombstones, c.log.live.len)
	if c.log.tombstones.len <= max(minSweep, min(c.log.sweepAt, limit)) {
		return
	}
	passed := c.followers[0].removed
	for _, f := range c.followers {
		passed = min(passed, f.removed)
	}
	for c.log.tombstones.head != nil && c.log.tombstones.head.changed <= passed {
		c.discard(c.log.tombstones.head)
	}
	if c.log.tombstones.len > limit {
		limit -= limit / 8
	}
	for c.log.tombstones.len > limit {
		c.log.floor = c.log.tombstones.head.changed
		c.discard(c.log.tombstones.head)
	}
	c.log.sweepAt = 2 * c.log.tombstones.len
}

// releasePassed drops the retained bytes of tombstones that every client has passed.
func (c *Collection) releasePassed() {
	if c.retained.tombstones == 0 {
		return
	}
	passed := c.table.store.journal.revision
	for _, f := range c.followers {
		if f.needs.Has(NeedsDigests) {
			passed = min(passed, f.removed)
		}
	}
	c.retained.releaseUpTo(c.log.tombstones.head, passed)
}

// disown discards a tombstone whose name an alias has now. An alias is no member (RES-10).
// Cursors that have not passed the tombstone cannot be told any more.
func (c *Collection) disown(e *Entry) {
	c.log.floor = max(c.log.floor, e.changed)
	c.discard(e)
}

func (c *Collection) discard(e *Entry) {
	c.log.tombstones.remove(e)
	c.retained.release(e)
	e.coll, e.marks.Tombstone = nil, false
	c.table.lifetimes.end(e)
	c.table.forgetUnused(e)
}

// dropCollection forgets c after its unsubscribe was taken. Members that clients name stay.
func (t *Table) dropCollection(c *Collection) {
	delete(t.colls, c.key)
	delete(t.upstream.unanswered, c)
	c.dropError(c.key)
	delete(t.store.due.unsettled, c)
	for _, l := range []*list{&c.log.live, &c.log.tombstones} {
		for l.head != nil {
			e := l.head
			l.remove(e)
			c.heartbeats.drop(e.extra.life)
			c.retained.release(e)
			e.coll, e.marks.Tombstone = nil, false
			if e.res != nil {
				t.unglobbed.add(e)
			}
			if !e.Exists() {
				t.lifetimes.end(e) // of what expired
			}
			t.forgetUnused(e)
		}
	}
	t.upstream.held.leave(c, t.entries)
}

// release is called when the last subscription ends. The demand becomes idle, or is evicted if it
// may not stay.
func (d *demand) release() {
	switch {
	case !d.kept():
		d.evict(ReasonAbsent)
		return
	case d.entry != nil && d.table.demands.leftOut > 0:
		d.evict(ReasonLimit) // others wait for its room (RES-17)
		return
	}
	d.idle = true
	d.table.store.cache.addIdle(d)
	d.table.demands.addIdle(d)
	d.strays()
	d.table.store.trimVacant()
}

// trimVacant evicts the vacant demand that is idle for longest, while there is too much.
func (s *Store) trimVacant() {
	for i, is := s.vacant.beyond(); is; i, is = s.vacant.beyond() {
		i.evict(ReasonUnanswered)
	}
}

// evict marks a demand to be unsubscribed and dropped. An unsent demand without content is
// dropped at once. Otherwise clients add names without limit while the upstream is down. So is one
// with content that is not to be cached: nobody may have that later (TTL-5).
func (d *demand) evict(reason Reason) {
	if d.evicting {
		return
	}
	s := d.table.store
	d.leaveIdle()
	s.cache.observer.Evicted(d.table.typeURL, reason)
	if !d.subscribed && (d.empty() || d.passing()) {
		d.keepNamedMembers()
		d.drop()
		return
	}
	d.evicting = true
	d.weight = d.weigh()
	s.cache.countEvicting(d.weight)
	d.mark()
}

// drop ends it after its unsubscribe was taken, and forgets what only it kept.
func (d *demand) drop() {
	t := d.table
	t.demands.remove(d)
	d.leaveIdle()
	d.stay()
	d.subscribed = false
	d.leaveOut(false)
	t.demands.count--
	if d.entry != nil {
		d.entry.setDemand(nil)
		t.forgetUnused(d.entry)
		return
	}
	t.dropCollection(d.coll)
}

// evictIdle evicts a demand that Cache took out of the LRU. Meanwhile a client may have subscribed:
// then the demand stays, also if it is idle again.
func (d *demand) evictIdle(reason Reason) {
	s := d.table.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if !d.subscribedTo() && !d.evicting && d.alive() && !s.cache.isIdle(d) && !d.keepFrozen() {
		d.evict(reason)
	}
}
