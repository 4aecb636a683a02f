package cache

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Restart says that an upstream stream begins anew. It returns one subscription per type, with
// the versions of the cached resources (RES-12), and drops what waits for its unsubscribe.
// Versions and names of collections go into one request. If they take more than versionsLimit
// bytes, the versions are left out; then the members that the server does not mention are stale
// until Settle (RES-14). Of what is held back, the version that the server sent last is presented, and
// nothing of what the server removed: a server that has it again sends it (SUR-3). The state of the world cannot present versions. There a subscription
// only says that the relay holds something.
func (s Session) Restart(stream wire.StreamID, versionsLimit int) []wire.Subscription {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.dropStrays(func(i *demand, _ time.Time) bool { return i.table.upstream.on(stream) })
	var subs []wire.Subscription
	for _, t := range s.on(stream) {
		if sub := t.restart(versionsLimit); len(sub.Subscribe) > 0 {
			subs = append(subs, sub)
		}
		t.leaveStream()
	}
	return subs
}

// leaveStream takes a table without demand off a stream that begins or ends. Clients choose the
// types, so empty tables must not stay.
func (t *Table) leaveStream() {
	if t.demands.count > 0 {
		return
	}
	t.upstream.assigned = false
	if len(t.entries) == 0 {
		t.store.dropTable(t)
	}
}

func (t *Table) restart(versionsLimit int) wire.Subscription {
	sub := wire.Subscription{TypeURL: t.typeURL}
	t.keepNamedMembers()
	t.demands.restart()
	t.upstream.spoken = t.demands.count > 0
	t.stopClocks()
	t.forgetExcuses()
	t.demands.clocks.withheld = false
	now := t.store.cache.Now()
	t.upstream.begun, t.upstream.resumed, t.upstream.back = now, t.usage.resources > 0, wentBack{}
	t.upstream.questions = questions{now, now}
	for _, c := range t.colls {
		c.quiet.restart()
	}
	var wanted []*demand
	for i := range t.allDemands() {
		i.pending = 0
		if i.evicting {
			i.drop()
		} else {
			wanted = append(wanted, i)
		}
	}
	for _, i := range t.heldFirst(wanted) {
		sub.Subscribe = append(sub.Subscribe, i.subscribe(now))
		i.opening = i.entry != nil
	}
	// A server of the state of the world sends everything again. A resource stays if a
	// response of a type that is not complete leaves it out (RES-8). So nothing is stale.
	if t.upstream.shown = t.store.source.State; t.upstream.shown {
		sub.Held = t.holdsAny()
	} else if sub.Versions, t.upstream.shown = t.versionsHeld(versionsLimit); !t.upstream.shown {
		t.upstream.held.dropNew(t.shown(), nil) // the server sends it again, if it has it still
	}
	t.upstream.unanswered = make(map[*Collection]struct{}, len(t.colls))
	for _, c := range t.colls {
		t.upstream.unanswered[c] = struct{}{}
		switch {
		case !t.upstream.shown:
			c.quiet.doubtAll(c.log.live.len)
		case t.store.source.State, c.quiet.synced:
			c.quiet.trustAll(c.log.live.head)
		default:
			c.quiet.doubt(c.log.live.head, t.asks)
		}
	}
	return sub
}

// heldFirst orders demands for a server of the state of the world. If a request has no room for all
// names, it leaves out the last ones (RES-17). So names that the relay holds content of come first.
func (t *Table) heldFirst(wanted []*demand) []*demand {
	if !t.store.source.State {
		return wanted
	}
	held := func(i *demand) bool { return i.coll != nil || i.entry.Exists() }
	rest := slices.DeleteFunc(slices.Clone(wanted), held)
	return append(slices.DeleteFunc(wanted, func(i *demand) bool { return !held(i) }), rest...)
}

// holdsAny reports whether a server could remove something by leaving it out.
func (t *Table) holdsAny() bool {
	for _, e := range t.entries {
		if e.Exists() {
			return true
		}
	}
	return false
}

// versionsHeld lists the versions that the table holds, unless they and the collections' names
// take more than limit bytes.
func (t *Table) versionsHeld(limit int) (map[string]string, bool) {
	const overhead = 12 // tags and lengths of a map entry
	size := 0
	for _, c := range t.colls {
		size += len(c.key) + overhead
	}
	held := make(map[string]string)
	for key, f := range t.upstream.held.received() {
		if version, ok := t.receivedVersion(key, f.Resource); ok {
			size += len(f.Resource.Name) + len(version) + overhead
			held[f.Resource.Name] = version
		}
	}
	for _, e := range t.entries {
		if !e.presentable() || t.upstream.held.has(e) {
			continue
		}
		name, version := e.Name(), e.resumeVersion()
		if t.asks(e) {
			version = wire.Asked
		}
		size += len(name) + len(version) + overhead
		if limit > 0 && size > limit {
			return nil, false
		}
		held[name] = version
	}
	if limit > 0 && size > limit && len(held) > 0 {
		return nil, false
	}
	return held, true
}

// receivedVersion is the version to present of content that is held back. ok is false if nothing is to
// be presented.
func (t *Table) receivedVersion(key string, r *wire.Resource) (version string, ok bool) {
	e := t.entries[key]
	switch {
	case e == nil && len(t.aliases.of(key)) > 0:
		return "", false
	case r.Restored() || e != nil && t.asks(e):
		return wire.Asked, true
	case e == nil:
		return r.Shown(), true
	case t.serverVersions.reused(e, r) || e.res != nil && e.res.Version == r.Version:
		return "", true // it stands for other content too (ACK-4)
	}
	return r.Shown(), true
}

// Lost says that an upstream stream broke: nothing is subscribed on it now. Clients notice
// nothing (OPS-1), and no clock runs. Relays are told what they have a part of (breakOff).
func (s Session) Lost(stream wire.StreamID) {
	s.store.change(func() {
		for _, t := range s.on(stream) {
			t.loseStream()
			t.leaveStream()
		}
	})
}

// loseStream ends what a table had of the stream that broke.
func (t *Table) loseStream() {
	t.stopClocks()
	t.forgetExcuses()
	t.upstream.spoken = false
	for _, c := range t.colls {
		c.breakOff()
		c.demand.subscribed, c.demand.again, c.quiet.overdue = false, false, false
		c.quiet.restart()
	}
	for _, e := range t.entries {
		e.marks.Overdue = false
		if e.extra.demand != nil {
			e.extra.demand.subscribed, e.extra.demand.again = false, false
			e.extra.demand.leaveOut(false)
		}
	}
	for i := range t.allDemands() {
		if i.evicting && i.passing() { // nobody may have that later (TTL-5)
			i.keepNamedMembers()
			i.drop()
		}
	}
}

// forgetExcuses forgets the errors of the stream before.
func (t *Table) forgetExcuses() {
	t.excuses.entries = nil
	for _, c := range t.colls {
		if c.errors != nil {
			c.errors.open = false
		}
	}
}

// Close forgets everything. The store's clients and its session must have ended.
func (s *Store) Close() {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	for len(s.changes.past.bursts) > 0 {
		s.cache.past.bytes.Add(-s.changes.past.forget())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		for i := range t.allDemands() {
			i.drop()
		}
		s.dropTable(t)
	}
	s.cache.stores.Add(-1)
	s.cache.resources.Add(-s.usage.resources)
	s.cache.bytes.Add(-s.usage.bytes)
	s.usage = weight{}
}
