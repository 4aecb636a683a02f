package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// TakeDemand returns what the server is to be told about a stream since the last Restart or
// TakeDemand, in the order of writing. It drops what it unsubscribes: the relay does not wait for
// the server's word about that any more, and later demand subscribes anew, behind the unsubscribe.
//
// ok is false if the stream has to begin anew (Lost, then Restart) for something that is not taken. This is
// so if a collection is wanted again of which all, or a name, was just unsubscribed. What the
// server sent before it read the unsubscribe looks like the answer to the new subscription, and the
// server would never mention a member that it removed in between. Names are answered one by one and
// do not need this.
// Everything else is taken: no client waits for what another one does (LIM-2).
func (s Session) TakeDemand(stream wire.StreamID) (subs []wire.Subscription, ok bool) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	now := s.store.cache.Now()
	ok = true
	for _, t := range s.on(stream) {
		if len(t.demands.pending) == 0 {
			continue
		}
		wait := t.waitForAnew(now)
		subs, ok = t.takeDemand(subs, now), ok && len(wait) == 0
		for _, i := range wait {
			i.waits = true
			t.demands.add(i)
		}
	}
	return subs, ok
}

// Shared reports whether others use the store beside one client. If not, it is that client alone whose
// stream begins anew for its sake. A place of the relay's own stands for any number of clients.
func (s Session) Shared() bool {
	s.store.mu.RLock()
	defer s.store.mu.RUnlock()
	return s.store.readers > 0 || len(s.store.places) > 1
}

// Unasked lists the types, in no order, with names or collections that TakeDemand would subscribe
// to on a stream. The session tells the server of the first ones at once (UPS-3). Collections
// for which the stream has to begin anew, as TakeDemand has said, do not count: no request has them until then.
func (s Session) Unasked(stream wire.StreamID) (types []string) {
	s.store.mu.RLock()
	defer s.store.mu.RUnlock()
	for _, t := range s.on(stream) {
		if t.demands.asksNow() {
			types = append(types, t.typeURL)
		}
	}
	return types
}

// noteUnsubscribed records that the server is told that a collection is not wanted any more,
// or one name that would belong to it.
func (t *Table) noteUnsubscribed(i *demand, now time.Time) {
	switch key := keyer.GlobOf(i.name()); {
	case i.coll != nil:
		t.demands.unsubscribe(i.coll.key, now)
	case key != "":
		t.demands.unsubscribe(key, now)
	case t.sharesStream():
		t.demands.unsubscribe(i.entry.key, now) // see awaits
	}
}

// waitForAnew takes the collections out of the list that wait for the stream to begin anew.
func (t *Table) waitForAnew(now time.Time) (wait []*demand) {
	for _, i := range t.demands.pending {
		if t.wantsAnew(i, now) {
			wait = append(wait, i)
		}
	}
	for _, i := range wait {
		t.demands.remove(i)
	}
	return wait
}

// wantsAnew reports whether the stream must begin anew for a collection: responses to a former
// subscription may still be on their way. The state of the world asks for
// "*" by an empty list of names in its older form. It can do so once on a stream only (SUB-2).
func (t *Table) wantsAnew(i *demand, now time.Time) bool {
	switch {
	case i.coll == nil || i.evicting || t.store.source.Resolved: // the relay itself mixes nothing up
		return false
	case i.subscribed:
		return i.again
	case t.tooLate(i.coll):
		return true
	}
	unsubscribed, lately := t.demands.lately(i.coll.key, t.store.source.longQuiet(), now)
	return lately || (unsubscribed && (i.coll.leftover() || i.coll.Wildcard()))
}

// leftover reports whether a collection that the server was not asked for yet has members without
// a demand of their own: they came after its unsubscribe.
func (c *Collection) leftover() bool {
	for e := c.log.live.head; e != nil; e = e.next {
		if e.extra.demand == nil {
			return true
		}
	}
	return false
}

func (t *Table) takeDemand(subs []wire.Subscription, now time.Time) []wire.Subscription {
	first := wire.Subscription{TypeURL: t.typeURL}
	then := wire.Subscription{TypeURL: t.typeURL}
	t.keepNamedMembers()
	t.demands.tidy(t.store.source.longQuiet(), now)
	pending := t.demands.pending
	t.demands.pending, t.upstream.spoken = nil, true
	anew := wire.Subscription{TypeURL: t.typeURL} // behind the unsubscribe of the same names
	globGone := false
	for _, i := range pending {
		i.pending = 0
		switch {
		case i.evicting:
			if i.subscribed {
				then.Unsubscribe = append(then.Unsubscribe, i.name())
				globGone = globGone || i.coll != nil
				t.noteUnsubscribed(i, now)
			}
			i.drop()
		case i.again && i.repeats:
			first.Subscribe = append(first.Subscribe, i.subscribe(now))
		case i.again && t.store.source.Resolved:
			first.Unsubscribe = append(first.Unsubscribe, i.name())
			anew.Subscribe = append(anew.Subscribe, i.subscribe(now))
		case !i.subscribed:
			first.Subscribe = append(first.Subscribe, i.subscribe(now))
			if i.coll != nil {
				t.upstream.unanswered = with(t.upstream.unanswered, i.coll)
				i.coll.quiet.behind = t.upstream.questions.open(now, t.store.source.longQuiet())
			}
		}
	}
	if len(first.Subscribe)+len(anew.Subscribe) > 0 {
		t.upstream.questions.ask(now, t.store.source.longQuiet())
	}
	// Named members of a glob are subscribed to before the glob is unsubscribed, in a request of
	// their own: within one request the server chooses the order (GLOB-6).
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

// keepNamedMembers gives members of globs that are evicted a demand of their own, if clients name
// them.
func (t *Table) keepNamedMembers() {
	for _, i := range t.demands.pending {
		if i.evicting {
			i.keepNamedMembers()
		}
	}
}

// keepNamedMembers does so for what one demand brought.
func (d *demand) keepNamedMembers() {
	if d.coll == nil || d.table.kind != ByName {
		return
	}
	for e := d.coll.log.live.head; e != nil; e = e.next {
		if e.wanted() && e.extra.demand == nil {
			e.setDemand(d.table.newDemand(e, nil))
		}
	}
}

// Shed evicts idle names of a type on a stream, until the unsubscribes of the next TakeDemand make
// a request smaller by a number of bytes. It reports whether there were any. A server of the state
// of the world is told all names in one request, which must not grow without limit (RES-17).
func (s Session) Shed(stream wire.StreamID, typeURL string, bytes int) bool {
	const overhead = 2 // tag and length
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	found := false
	for _, t := range s.carried(stream, typeURL, nil) {
		for i := range t.demands.idle {
			if bytes <= 0 {
				break
			}
			if i.subscribed {
				bytes -= len(i.name()) + overhead
				i.evict(ReasonLimit)
				found = true
			}
		}
	}
	return found
}
