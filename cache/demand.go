package cache

import (
	"maps"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// TakeDemand returns what the server is to be told about a stream since the last
// Restart or TakeDemand, in the order in which it is to be written. What it
// unsubscribes is dropped here: from now on the server's word about it is not
// awaited any more, and interest that comes later subscribes anew, behind it.
//
// ok is false, and nothing is taken, where the stream has to begin anew (Lost,
// then Restart): a collection is wanted of which all, or a name, was let go on it
// a moment ago. What the server had sent before it read the unsubscribe could not
// be told from the answer to the new subscription, and a member that it removed in
// between would never be mentioned again. Names need no such care, since each is
// answered. It also has to begin anew for a later follower of a collection of which
// something is not kept (TTL-5).
func (s *Store) TakeDemand(stream wire.StreamID) (subs []wire.Subscription, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cache.now()
	tables := s.on(stream)
	if slices.ContainsFunc(tables, func(t *table) bool { return t.wantsAgain(now) }) {
		return nil, false
	}
	for _, t := range tables {
		if len(t.pending) > 0 {
			subs = t.takeDemand(subs, now)
		}
	}
	return subs, true
}

// Unasked lists the types, in no order, of which TakeDemand has names or collections to
// subscribe to on a stream: the server is told of the first ones at once (UPS-3).
func (s *Store) Unasked(stream wire.StreamID) (types []string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, t := range s.on(stream) {
		if slices.ContainsFunc(t.pending, func(i *interest) bool { return !i.leaving }) {
			types = append(types, t.typeURL)
		}
	}
	return types
}

// maxFarewells is how many farewells are kept before expired ones are cleared out.
const maxFarewells = 1024

// farewell notes that the server is told that something of a collection is not
// wanted any more: all of it, or one name that would belong to it.
func (t *table) farewell(i *interest, now time.Time) {
	var key string
	if i.coll != nil {
		key = i.coll.key
	} else if key = keyer.GlobOf(i.entry.key); key == "" {
		if !t.shares() {
			return
		}
		key = i.entry.key // see names
	}
	if t.farewells == nil {
		t.farewells = make(map[string]time.Time)
	}
	t.farewells[key] = now
}

// wantsAgain reports whether a collection is to be subscribed to of which
// something was let go so lately that responses for it may still be on their way, or
// something was not kept. The wildcard of the state of the world in its older form, an
// empty list of names, can be wanted once on a stream only (SUB-2).
func (t *table) wantsAgain(now time.Time) bool {
	return slices.ContainsFunc(t.pending, func(i *interest) bool {
		switch {
		case i.coll == nil || i.leaving || t.store.source.Resolved: // the relay itself mixes nothing up
			return false
		case i.subscribed:
			return i.again
		case t.tooLate(i.coll):
			return true
		}
		at, ok := t.farewells[i.coll.key]
		return ok && (now.Sub(at) <= t.store.source.longQuiet() || i.coll.leftover() || i.coll.wildcard())
	})
}

// leftover reports whether a collection that the server was not asked for yet has members
// that nobody else is asked for: they came after its farewell, however long ago that was.
func (c *collection) leftover() bool {
	for e := c.live.head; e != nil; e = e.next {
		if e.interest == nil {
			return true
		}
	}
	return false
}

func (t *table) takeDemand(subs []wire.Subscription, now time.Time) []wire.Subscription {
	first := wire.Subscription{TypeURL: t.typeURL}
	then := wire.Subscription{TypeURL: t.typeURL}
	t.keepNamedMembers()
	if len(t.farewells) >= maxFarewells {
		maps.DeleteFunc(t.farewells, func(_ string, at time.Time) bool { return now.Sub(at) > t.store.source.longQuiet() })
	}
	pending := t.pending
	t.pending, t.spoken = nil, true
	anew := wire.Subscription{TypeURL: t.typeURL} // behind the unsubscribe of the same names
	globGone := false
	for _, i := range pending {
		i.pending = 0
		switch {
		case i.leaving:
			if i.subscribed {
				then.Unsubscribe = append(then.Unsubscribe, i.name())
				globGone = globGone || i.coll != nil
				t.farewell(i, now)
			}
			i.drop()
		case i.again && i.repeats:
			first.Subscribe = append(first.Subscribe, i.subscribe(now))
		case i.again && (i.coll == nil || t.store.source.Resolved):
			first.Unsubscribe = append(first.Unsubscribe, i.name())
			anew.Subscribe = append(anew.Subscribe, i.subscribe(now))
		case !i.subscribed:
			first.Subscribe = append(first.Subscribe, i.subscribe(now))
			if i.coll != nil {
				if t.unanswered == nil {
					t.unanswered = make(map[*collection]struct{})
				}
				t.unanswered[i.coll] = struct{}{}
			}
		}
	}
	// Names that a glob had brought are subscribed to before the glob is let go,
	// in a request of their own: within one request the order is the server's
	// choice (GLOB-6).
	if !globGone {
		first.Unsubscribe = append(first.Unsubscribe, then.Unsubscribe...)
		then.Unsubscribe = nil
	}
	for _, sub := range []wire.Subscription{first, anew, then} {
		if len(sub.Subscribe)+len(sub.Unsubscribe) > 0 {
			subs = append(subs, sub)
		}
	}
	return subs
}

// keepNamedMembers gives members of globs on their way out that somebody names a
// subscription of their own.
func (t *table) keepNamedMembers() {
	for _, i := range t.pending {
		if !i.leaving || i.coll == nil || t.kind != byName {
			continue
		}
		for e := i.coll.live.head; e != nil; e = e.next {
			if e.wanted() && e.interest == nil {
				e.setInterest(t.newInterest(e, nil))
			}
		}
	}
}

// Shed lets go of names of a type on a stream that nobody watches, until those that
// go with the next TakeDemand take the given number of bytes in a request, and reports
// whether there were any: a server that speaks the state of the world is told all
// names in one request, which must not grow beyond all bounds (RES-17).
func (s *Store) Shed(stream wire.StreamID, typeURL string, bytes int) bool {
	const overhead = 2 // tag and length
	s.mu.Lock()
	defer s.mu.Unlock()
	found := false
	for _, t := range s.carried(stream, typeURL, nil) {
		for _, e := range t.entries {
			if bytes <= 0 {
				break
			}
			if i := e.interest; i != nil && i.parked && i.subscribed {
				bytes -= len(i.name()) + overhead
				i.evict(ReasonLimit)
				found = true
			}
		}
	}
	return found
}
