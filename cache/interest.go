package cache

import "time"

// interest is something the relay asks its server for: one name, a glob or "*".
// It exists from the first watcher until its unsubscribe is taken to be written.
// Guarded by Store.mu.
type interest struct {
	table *table
	entry *entry      // a name; or
	coll  *collection // a glob or "*"

	weight     weight // counted in Cache.leaving while leaving
	asked      uint32 // which of table.clocks is its own
	pending    int32  // place in table.pending from 1: the server is to be told something
	subscribed bool   // on the stream as it is now
	parked     bool   // nobody watches it: in the LRU
	again      bool   // to be asked for anew, though it is subscribed to (TTL-5)
	repeats    bool   // again, by subscribing once more and no unsubscribing (RES-16)
	leaving    bool   // evicted: to be dropped when its unsubscribe is taken
}

// name is what goes upstream: the canonical spelling, which serves all (NAME-3).
func (i *interest) name() string {
	if i.coll != nil {
		return i.coll.key
	}
	return i.entry.key
}

// watched reports whether a client wants it, or it is pinned.
func (i *interest) watched() bool {
	if i.coll != nil {
		return len(i.coll.followers) > 0 || i.coll.pinned
	}
	return i.entry.wanted()
}

// kept reports whether what it stands for is worth keeping without a watcher: names that
// are known not to exist, and those that nothing is kept of, are not. What the server does
// not answer is: who comes back with it need not wait again (ABS-3).
func (i *interest) kept() bool {
	return i.coll != nil || i.entry.state == present || i.entry.open()
}

// subscribe notes that it goes upstream now, and says under which name.
func (i *interest) subscribe(now time.Time) string {
	i.subscribed, i.again, i.repeats = true, false, false
	i.startClock(now)
	return i.name()
}

// empty reports whether nothing is held because of it.
func (i *interest) empty() bool {
	if i.coll != nil {
		return i.coll.live.len == 0
	}
	return i.entry.res == nil
}

// want makes sure that the server is asked and that nothing evicts it. It
// cancels an eviction whose unsubscribe was not taken yet.
func (i *interest) want() {
	i.unpark()
	i.stay()
	if !i.subscribed {
		i.mark()
	}
}

// unpark takes it out of the LRU, if it is there.
func (i *interest) unpark() {
	if i.parked {
		i.parked = false
		i.table.store.cache.unpark(i)
	}
}

// stay takes back that it is leaving, if it is.
func (i *interest) stay() {
	if i.leaving {
		i.leaving = false
		i.table.store.cache.leave(weight{-i.weight.resources, -i.weight.bytes})
		i.weight = weight{}
	}
}

// release is called when its last watcher is gone: it is parked, or let go of at
// once where nothing is worth keeping.
func (i *interest) release() {
	if !i.kept() {
		i.evict(ReasonAbsent)
		return
	}
	i.parked = true
	i.table.store.cache.park(i)
	i.strays()
}

// evict marks it to be unsubscribed and dropped. What the server was not asked
// for and nothing is held of is dropped at once, or an upstream that is down
// would let clients pile up names without end.
func (i *interest) evict(reason Reason) {
	if i.leaving {
		return
	}
	s := i.table.store
	i.unpark()
	s.cache.observer.Evicted(i.table.typeURL, reason)
	if !i.subscribed && i.empty() {
		i.drop()
		return
	}
	i.leaving = true
	i.weight = i.weigh()
	s.cache.leave(i.weight)
	i.mark()
}

// weigh estimates what dropping it will free.
func (i *interest) weigh() weight {
	if i.entry != nil {
		if i.entry.state != present || i.entry.member() {
			return weight{}
		}
		return weight{1, i.entry.size()}
	}
	return weight{int64(i.coll.live.len), i.coll.bytes}
}

// mark puts it on the list of what the server is to be told.
func (i *interest) mark() {
	if i.pending == 0 {
		i.table.pending = append(i.table.pending, i)
		i.pending = int32(len(i.table.pending))
	}
	i.table.store.signalDemand()
}

// unmark takes it off that list.
func (i *interest) unmark() {
	if i.pending == 0 {
		return
	}
	list := i.table.pending
	last := len(list) - 1
	list[i.pending-1] = list[last]
	list[i.pending-1].pending = i.pending
	list[last] = nil
	i.table.pending = list[:last]
	i.pending = 0
}

// drop ends it after its unsubscribe was taken: what only it kept is forgotten.
func (i *interest) drop() {
	t := i.table
	i.unmark()
	i.unpark()
	i.stay()
	i.subscribed = false
	t.interests--
	if i.entry != nil {
		i.entry.setInterest(nil)
		t.forgetUnused(i.entry)
		return
	}
	t.dropCollection(i.coll)
}

// evict is Cache's way to let go of i; interest that came back since i was
// chosen wins, also where it went again: then i waits anew.
func (s *Store) evict(i *interest, reason Reason) {
	s.mu.Lock()
	if !i.watched() && !i.leaving && i.alive() && !s.cache.waits(i) {
		i.evict(reason)
	}
	s.mu.Unlock()
}

// alive reports whether it was not dropped since.
func (i *interest) alive() bool {
	if i.coll != nil {
		return i.table.colls[i.coll.key] == i.coll
	}
	return i.entry.interest == i
}

// newInterest makes the server be asked for a name or a collection.
func (t *table) newInterest(e *entry, c *collection) *interest {
	t.assignStream()
	i := &interest{table: t, entry: e, coll: c}
	t.interests++
	i.mark()
	return i
}
