package cache

// A server can forbid to cache a resource (cache_control.do_not_cache, TTL-5). Its bytes are on the
// entry while a client subscribes, and go to those that join meanwhile. With the last client the relay
// drops them and unsubscribes. A pin is no client. They never go to a disk or to a peer.

// passing reports whether there is content because of the demand that is not to be cached.
func (d *demand) passing() bool {
	switch {
	case d.passes:
		return true
	case d.coll != nil:
		return d.coll.passing()
	}
	return d.entry.passing()
}

func (e *Entry) passing() bool { return e.res != nil && e.res.DoNotCache }

// passing reports whether what the table holds under a key is not to be cached.
func (t *Table) passing(key string) bool {
	if i := t.demandFor(key); i != nil {
		return i.passing()
	}
	e := t.entries[key]
	return e != nil && e.passing()
}

// passing reports whether a member is not to be cached.
func (c *Collection) passing() bool {
	if !c.passes {
		return false // as of nearly all collections
	}
	for e := c.log.live.head; e != nil; e = e.next {
		if e.res.DoNotCache {
			return true
		}
	}
	return false
}

// passOn is called when the server has sent what an entry holds. If that is not to be cached, its
// pins end, and demand without clients is evicted.
func (t *Table) passOn(e *Entry) {
	if !e.passing() {
		return
	}
	t.dropPins(e.key)
	if e.Member() {
		e.coll.demand.passOn()
	}
	if e.extra.demand != nil {
		e.extra.demand.passOn()
	}
}

// passOn ends the pins of a demand, and evicts it if no client waits for it.
func (d *demand) passOn() {
	d.table.dropPins(d.name())
	if !d.subscribedTo() {
		d.evict(ReasonAbsent)
	}
}
