package cache

// Watch adds a subscription to a name. join puts it into the name's audience, which is nil for
// the first. The server is asked for the name.
func (t *Table) Watch(e *Entry, needs Needs, join func(Audience) Audience) {
	own := e.extra.own()
	own.audience = join(own.audience)
	t.shareKey(e)
	t.references.usersChanged(e)
	t.usage.watchers++
	if needs.Has(NeedsDigests) {
		t.digests.use(1, t.entries)
	}
	t.want(e)
	t.unreached(e)
}

// Unwatch takes a subscription away. leave takes it out of the name's audience, and returns
// nil if that is empty then.
func (t *Table) Unwatch(e *Entry, needs Needs, leave func(Audience) Audience) {
	t.usage.watchers--
	if needs.Has(NeedsDigests) {
		t.digests.use(-1, t.entries)
	}
	e.extra.own().audience = leave(e.extra.audience)
	t.references.usersChanged(e)
	if e.extra.audience != nil {
		return
	}
	delete(t.store.outage.late, e)
	e.extra.tidy()
	if e.marks.pinned {
		return
	}
	if e.extra.demand != nil {
		e.extra.demand.release()
	}
	t.forgetUnused(e)
}

// want makes sure that the server is asked for a name. A member of a synced glob needs no
// subscription of its own (GLOB-6).
func (t *Table) want(e *Entry) {
	if e.res == nil && e.Open() {
		t.store.outage.want()
	}
	switch {
	case e.extra.demand != nil:
		e.extra.demand.want()
	case e.Member() && e.coll.quiet.synced && !e.coll.demand.evicting:
	default:
		e.setDemand(t.newDemand(e, nil))
	}
}

// unreached gives a name without any answer the error of the outage, if there is one, when a
// client subscribes to it.
func (t *Table) unreached(e *Entry) {
	if err := t.store.outage.Load(); err != nil && e.state == Unknown && !t.store.outage.await(e, func() { t.outOfReach(e) }) {
		e.changed, e.received = t.store.journal.nextRevision(), t.store.cache.Now().UnixNano()
		t.become(e, content{state: Failed, err: err}, unsaid, t.store.cache.Now())
	}
}

// Entry finds or makes the entry with a canonical key.
func (t *Table) Entry(key string) *Entry {
	e := t.entries[key]
	if e == nil {
		e = newEntry(key)
		t.entries[key] = e
	}
	return e
}
