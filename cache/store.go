package cache

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// tableKey names a table within its store.
type tableKey struct {
	typeURL string
	kind    kind
}

// Store holds everything of one session: one upstream and one scope. Its upstream
// methods (Restart, TakeDemand, Apply, ApplyState, Lost, Settle and so on) may be
// called from any goroutine.
type Store struct {
	// immutable after Open
	cache  *Cache
	source Source

	demand chan struct{} // one slot

	applyMu sync.Mutex    // held over Apply and Settle; guards what follows
	moved   []*collection // changed by the present one
	wakes   []*Client     // whom to wake when mu is released

	mu        sync.RWMutex
	seq       uint64 // number of the last change
	tables    map[tableKey]*table
	clients   map[*Client]struct{}
	unsettled map[*collection]struct{} // all whose quiet time may have to be ended: Settle is called for every response
	waiting   map[*table]struct{}      // all with a clock that runs
	resources int64
	bytes     int64
}

// Source says what fills a store. The zero value is a control plane that speaks the
// incremental protocol on one stream, and no clock runs.
type Source struct {
	// Quiet is the time after a collection's first answer in which members may still
	// be on their way (RES-14).
	Quiet time.Duration
	// FullState are the types of which a state-of-the-world response, received or
	// sent, is always complete (RES-2, RES-8).
	FullState map[string]bool
	// State says that the source speaks the state of the world: it says what there
	// is (ApplyState), and nothing is told of what there is not but by leaving it out.
	State bool
	// PerType says that each type has upstream streams of its own.
	PerType bool
	// Absent is how long a name that is asked for on a live stream may go unanswered;
	// 0: for ever. Then it counts as not existing where the source speaks the state of
	// the world (RES-7); elsewhere it is just not waited for any longer.
	Absent time.Duration
}

// Open returns an empty store.
func (c *Cache) Open(source Source) *Store {
	return &Store{
		cache:   c,
		source:  source,
		demand:  make(chan struct{}, 1),
		tables:  make(map[tableKey]*table),
		clients: make(map[*Client]struct{}),

		unsettled: make(map[*collection]struct{}),
		waiting:   make(map[*table]struct{}),
	}
}

// Close forgets everything. Its clients must be gone, and its session ended.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		for _, c := range t.colls {
			c.interest.drop()
		}
		for _, e := range t.entries {
			if e.interest != nil {
				e.interest.drop()
			}
		}
		s.dropTable(t)
	}
	s.cache.resources.Add(-s.resources)
	s.cache.bytes.Add(-s.bytes)
	s.resources, s.bytes = 0, 0
}

// Clients is the number of streams that have a place in the store.
func (s *Store) Clients() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.clients)
}

// Wanted is the number of names and collections that the server is asked for.
func (s *Store) Wanted() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := 0
	for _, t := range s.tables {
		n += t.interests
	}
	return n
}

// Sequence is the number of the last change that was applied.
func (s *Store) Sequence() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.seq
}

// next numbers a change.
func (s *Store) next() uint64 {
	s.seq++
	return s.seq
}

// table finds or makes a table.
func (s *Store) table(typeURL string, k kind) *table {
	key := tableKey{typeURL, k}
	t := s.tables[key]
	if t == nil {
		t = &table{
			store: s, typeURL: typeURL, kind: k,
			entries: make(map[string]*entry), colls: make(map[string]*collection),
		}
		s.tables[key] = t
	}
	return t
}

// dropTable forgets a table of which nothing is wanted or held.
func (s *Store) dropTable(t *table) {
	delete(s.tables, tableKey{t.typeURL, t.kind})
	delete(s.waiting, t)
}

// inOrder lists the tables in the order in which clients are sent their types: what
// is asked for first is likely to be answered first.
func (s *Store) inOrder() []*table {
	return slices.SortedFunc(maps.Values(s.tables), func(a, b *table) int {
		return cmp.Or(
			cmp.Compare(RankOf(a.typeURL), RankOf(b.typeURL)),
			cmp.Compare(a.typeURL, b.typeURL),
			cmp.Compare(a.kind, b.kind),
		)
	})
}

// carried finds the table of a type that an upstream stream feeds.
func (s *Store) carried(stream wire.StreamID, typeURL string) *table {
	for _, k := range []kind{wholeType, byName} {
		if t := s.tables[tableKey{typeURL, k}]; t != nil && t.on(stream) {
			return t
		}
	}
	return nil
}

// changed notes that the followers of c have something to take. They are looked
// at once per response, however many members it changes.
func (s *Store) changed(c *collection) {
	if !c.moved {
		c.moved = true
		s.moved = append(s.moved, c)
	}
}

// finish discards what tombstones are not needed in the collections that were
// changed, and notes whom to wake. The caller holds applyMu and mu.
func (s *Store) finish() {
	for i, c := range s.moved {
		c.moved = false
		c.sweep()
		for _, f := range c.followers {
			s.wake(f.watch)
		}
		s.moved[i] = nil
	}
	s.moved = s.moved[:0]
}

// wake puts a watch's client on the list of whom to wake, once until it collects.
// A watch that waits for an acknowledgement counts as woken until that has come:
// its stream collects then, and until then updates cost a slow client nothing.
func (s *Store) wake(w *watch) {
	if w.woken {
		return
	}
	w.woken = true
	if c := w.client; !c.woken {
		c.woken = true
		s.wakes = append(s.wakes, c)
	}
}

// flushWakes wakes them. The caller holds applyMu and not mu.
func (s *Store) flushWakes() {
	for i, c := range s.wakes {
		c.notify()
		s.wakes[i] = nil
	}
	s.wakes = s.wakes[:0]
}

func (s *Store) signalDemand() {
	select {
	case s.demand <- struct{}{}:
	default:
	}
}

// DemandChanged receives when there is something for TakeDemand.
func (s *Store) DemandChanged() <-chan struct{} { return s.demand }

// Streams lists the upstream streams on which anything is wanted, in the order in
// which they are best opened. What waits to be unsubscribed counts: it is still to
// be said.
func (s *Store) Streams() []wire.StreamID {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var ids []wire.StreamID
	for _, t := range s.inOrder() {
		if t.interests > 0 && !slices.Contains(ids, t.stream) {
			ids = append(ids, t.stream)
		}
	}
	return ids
}

// StreamWanted reports whether a stream is among Streams.
func (s *Store) StreamWanted(stream wire.StreamID) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, t := range s.tables {
		if t.interests > 0 && t.on(stream) {
			return true
		}
	}
	return false
}

// Restart says that an upstream stream begins anew. It returns what is wanted on
// it, one subscription per type, with the versions of what is held (RES-12), and
// drops what waited to be unsubscribed. Where a type's versions, and the names of
// its collections, which must go into the same request, would take more than
// versionsLimit bytes they are left out; then what the server does not mention is
// stale until Settle (RES-14). The state of the world has no word for versions that
// are held.
func (s *Store) Restart(stream wire.StreamID, versionsLimit int) []wire.Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	var subs []wire.Subscription
	for _, t := range s.inOrder() {
		if !t.on(stream) {
			continue
		}
		if sub := t.restart(versionsLimit); len(sub.Subscribe) > 0 {
			subs = append(subs, sub)
		}
		t.leaveStream()
	}
	return subs
}

// leaveStream takes a table of which nothing is wanted off a stream that begins or
// ends. Types are the clients' choice: they must not pile up.
func (t *table) leaveStream() {
	if t.interests > 0 {
		return
	}
	t.assigned = false
	if len(t.entries) == 0 {
		t.store.dropTable(t)
	}
}

func (t *table) restart(versionsLimit int) wire.Subscription {
	sub := wire.Subscription{TypeURL: t.typeURL}
	t.keepNamedMembers()
	t.pending, t.farewells = nil, nil
	t.stopClocks()
	now := time.Now()
	visit := func(i *interest) {
		i.pending = 0
		if i.leaving {
			i.drop()
			return
		}
		sub.Subscribe = append(sub.Subscribe, i.subscribe(now))
	}
	for _, c := range t.colls {
		visit(c.interest)
	}
	for _, e := range t.entries {
		if e.interest != nil {
			visit(e.interest)
		}
	}
	// The state of the world is told anew, and what it leaves out of a type that
	// is not complete stays (RES-8): nothing gets stale.
	resumed := t.store.source.State
	if !resumed {
		sub.Versions, resumed = t.versions(versionsLimit)
	}
	t.unanswered = make(map[*collection]struct{}, len(t.colls))
	for _, c := range t.colls {
		c.answered, c.progress = time.Time{}, time.Time{}
		t.unanswered[c] = struct{}{}
		if resumed {
			c.confirmAll()
		} else {
			c.epoch++
			c.stale = c.live.len
		}
	}
	return sub
}

// versions lists what the table holds, unless that and the collections' names would
// pass limit bytes.
func (t *table) versions(limit int) (map[string]string, bool) {
	const overhead = 12 // tags and lengths of a map entry
	size := 0
	for _, c := range t.colls {
		size += len(c.name) + overhead
	}
	held := make(map[string]string)
	for _, e := range t.entries {
		if e.res == nil || e.alias {
			continue
		}
		version := e.resumeVersion()
		size += len(e.name) + len(version) + overhead
		if limit > 0 && size > limit {
			return nil, false
		}
		held[e.name] = version
	}
	return held, true
}

// Lost says that an upstream stream broke: nothing is subscribed on it now.
// Everything stays as it is for the clients (OPS-1), and no clock runs.
func (s *Store) Lost(stream wire.StreamID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		if !t.on(stream) {
			continue
		}
		t.stopClocks()
		for _, c := range t.colls {
			c.interest.subscribed = false
			c.answered, c.progress = time.Time{}, time.Time{}
		}
		for _, e := range t.entries {
			e.overdue = false
			if e.interest != nil {
				e.interest.subscribed = false
			}
		}
		t.leaveStream()
	}
}

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
// answered.
func (s *Store) TakeDemand(stream wire.StreamID) (subs []wire.Subscription, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, t := range s.tables {
		if t.on(stream) && t.wantsAgain(now) {
			return nil, false
		}
	}
	for _, t := range s.inOrder() {
		if t.on(stream) && len(t.pending) > 0 {
			subs = t.takeDemand(subs, now)
		}
	}
	return subs, true
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
		return
	}
	if t.farewells == nil {
		t.farewells = make(map[string]time.Time)
	}
	t.farewells[key] = now
}

// wantsAgain reports whether a collection is to be subscribed to of which
// something was let go so lately that responses for it may still be on their way. The
// wildcard of the state of the world in its older form, an empty list of names, can be
// wanted once on a stream only (SUB-2).
func (t *table) wantsAgain(now time.Time) bool {
	if len(t.farewells) == 0 {
		return false
	}
	return slices.ContainsFunc(t.pending, func(i *interest) bool {
		if i.coll == nil || i.subscribed || i.leaving {
			return false
		}
		at, ok := t.farewells[i.coll.key]
		return ok && (now.Sub(at) <= t.store.source.Quiet || (t.store.source.State && i.coll.wildcard()))
	})
}

func (t *table) takeDemand(subs []wire.Subscription, now time.Time) []wire.Subscription {
	first := wire.Subscription{TypeURL: t.typeURL}
	then := wire.Subscription{TypeURL: t.typeURL}
	t.keepNamedMembers()
	if len(t.farewells) >= maxFarewells {
		maps.DeleteFunc(t.farewells, func(_ string, at time.Time) bool { return now.Sub(at) > t.store.source.Quiet })
	}
	pending := t.pending
	t.pending = nil
	globGone := false
	for _, i := range pending {
		i.pending = 0
		switch {
		case i.leaving:
			if i.subscribed {
				then.Unsubscribe = append(then.Unsubscribe, i.as)
				globGone = globGone || i.coll != nil
				t.farewell(i, now)
			}
			i.drop()
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
		first.Unsubscribe = then.Unsubscribe
		then.Unsubscribe = nil
	}
	for _, sub := range []wire.Subscription{first, then} {
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
			if len(e.subs) > 0 && e.interest == nil {
				e.interest = t.newInterest(e, nil)
			}
		}
	}
}
