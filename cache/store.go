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
// methods (Restart, TakeDemand, Apply, Lost, Settle) may be called from any
// goroutine.
type Store struct {
	// immutable after Open
	cache  *Cache
	source Source

	demand chan struct{} // one slot

	applyMu sync.Mutex    // held over Apply and Settle; guards what follows
	moved   []*collection // changed by the present one
	beaten  []*collection // with heartbeats in the present one
	wakes   []*Client     // whom to wake when mu is released

	mu        sync.RWMutex
	seq       uint64 // number of the last change
	beats     uint64 // number of the last heartbeat
	expiry    expiry
	tables    map[tableKey]*table
	clients   map[*Client]struct{}
	unsettled map[*collection]struct{} // all whose quiet time may have to be ended: Settle is called for every response
	resources int64
	bytes     int64
}

// Source says what fills a store.
type Source struct {
	// Quiet is the time after a collection's first answer in which members may still
	// be on their way (RES-14).
	Quiet time.Duration
	// FullState are the types of which a state-of-the-world response, received or
	// sent, is always complete (RES-2, RES-8).
	FullState map[string]bool
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
	}
}

// Close forgets everything. Its clients must be gone, and its session ended.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, t := range s.tables {
		for _, c := range t.colls {
			c.interest.drop()
		}
		for _, e := range t.entries {
			if e.interest != nil {
				e.interest.drop()
			}
		}
		delete(s.tables, key)
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
			store: s, typeURL: typeURL, kind: k, stream: -1,
			entries: make(map[string]*entry), colls: make(map[string]*collection),
		}
		s.tables[key] = t
	}
	return t
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
func (s *Store) carried(stream int, typeURL string) *table {
	for _, k := range []kind{wholeType, byName} {
		if t := s.tables[tableKey{typeURL, k}]; t != nil && t.stream == stream {
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
	s.wakeBeaten()
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

// StreamWanted reports whether anything is wanted on an upstream stream: 0, or 1,
// which exists only where one type is wanted both as a whole and by name (SUB-12).
// What waits to be unsubscribed counts: it is still to be said.
func (s *Store) StreamWanted(stream int) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, t := range s.tables {
		if t.stream == stream && t.interests > 0 {
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
// stale until Settle (RES-14).
func (s *Store) Restart(stream int, versionsLimit int) []wire.Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	var subs []wire.Subscription
	for _, t := range s.inOrder() {
		if t.stream != stream {
			continue
		}
		if sub := t.restart(versionsLimit); len(sub.Subscribe) > 0 {
			subs = append(subs, sub)
		}
		if t.interests == 0 {
			t.stream = -1
			if len(t.entries) == 0 {
				delete(s.tables, tableKey{t.typeURL, t.kind}) // types are the clients' choice: they must not pile up
			}
		}
	}
	return subs
}

func (t *table) restart(versionsLimit int) wire.Subscription {
	sub := wire.Subscription{TypeURL: t.typeURL}
	t.keepNamedMembers()
	t.pending, t.farewells = nil, nil
	visit := func(i *interest) {
		i.pending = 0
		if i.leaving {
			i.drop()
			return
		}
		sub.Subscribe = append(sub.Subscribe, i.subscribe())
	}
	for _, c := range t.colls {
		visit(c.interest)
	}
	for _, e := range t.entries {
		if e.interest != nil {
			visit(e.interest)
		}
	}
	var resumed bool
	sub.Versions, resumed = t.versions(versionsLimit)
	t.unanswered = make(map[*collection]struct{}, len(t.colls))
	for _, c := range t.colls {
		c.answered, c.progress = time.Time{}, time.Time{}
		t.unanswered[c] = struct{}{}
		if resumed {
			c.confirmAll()
			c.doubt()
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
// Everything stays as it is for the clients (OPS-1).
func (s *Store) Lost(stream int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		if t.stream != stream {
			continue
		}
		for _, c := range t.colls {
			c.interest.subscribed, c.interest.again = false, false
			c.answered, c.progress = time.Time{}, time.Time{}
		}
		for _, e := range t.entries {
			if e.interest != nil {
				e.interest.subscribed, e.interest.again = false, false
			}
		}
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
// answered. It also has to begin anew for a later follower of a collection of which
// something is not kept (TTL-5).
func (s *Store) TakeDemand(stream int) (subs []wire.Subscription, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, t := range s.tables {
		if t.stream == stream && t.wantsAgain(now) {
			return nil, false
		}
	}
	for _, t := range s.inOrder() {
		if t.stream == stream && len(t.pending) > 0 {
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
// something was let go so lately that responses for it may still be on their way,
// or something was not kept.
func (t *table) wantsAgain(now time.Time) bool {
	return slices.ContainsFunc(t.pending, func(i *interest) bool {
		switch {
		case i.coll == nil || i.leaving:
			return false
		case i.subscribed:
			return i.again
		}
		at, ok := t.farewells[i.coll.key]
		return ok && now.Sub(at) <= t.store.source.Quiet
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
	anew := wire.Subscription{TypeURL: t.typeURL} // behind the unsubscribe of the same names
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
		case i.again && i.coll == nil:
			then.Unsubscribe = append(then.Unsubscribe, i.as)
			anew.Subscribe = append(anew.Subscribe, i.subscribe())
		case !i.subscribed:
			first.Subscribe = append(first.Subscribe, i.subscribe())
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
	for _, sub := range []wire.Subscription{first, then, anew} {
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
