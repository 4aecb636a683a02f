package cache

// Follow puts a cursor at the beginning of the collection. bell rings for its changes.
func (c *Collection) Follow(f *Cursor, bell *TypeBell, follower Follower, needs Needs) {
	n := c.table.store.journal.revision
	*f = Cursor{coll: c, bell: bell, follower: follower, needs: needs, pos: len(c.followers), begun: n, removed: n}
	followed := c.followers.anyStream()
	c.followers = append(c.followers, f)
	if needs.Has(NeedsDigests) {
		c.states++
		c.table.digests.use(1, c.table.entries)
	}
	f.Wait()
	if !c.hasWhole() {
		c.table.store.outage.want()
		if len(c.followers) == 1 && c.table.store.outage.Load() != nil { // of others peers are asked, or were
			c.table.store.outage.await(c, func() { c.ringFollowers() })
		}
	}
	c.demand.want()
	c.table.references.followersChanged(c, followed)
}

// ringFollowers has all followers of a collection look.
func (c *Collection) ringFollowers() {
	for _, f := range c.followers {
		c.table.store.journal.ringType(f.bell)
	}
}

// Unfollow ends it.
func (f *Cursor) Unfollow() {
	c := f.coll
	f.leaveWaiters()
	followed, last := c.followers.anyStream(), len(c.followers)-1
	c.followers[f.pos] = c.followers[last]
	c.followers[f.pos].pos = f.pos
	c.followers[last] = nil
	c.followers = c.followers[:last]
	if f.needs.Has(NeedsDigests) {
		c.states--
		c.table.digests.use(-1, c.table.entries)
		c.releasePassed()
		if c.states == 0 {
			c.encoded.lists.drop()
		}
	}
	c.table.references.followersChanged(c, followed)
	if last > 0 {
		return
	}
	delete(c.table.store.outage.late, c)
	c.encoded.chunks.drop()
	c.sweep()
	if !c.pinned {
		c.demand.release()
	}
}

// Restart has everything sent again: the client subscribed again (SUB-6).
func (f *Cursor) Restart() {
	f.sent, f.at = 0, nil
	f.begun = f.coll.table.store.journal.revision
}
