package cache

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
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
	source Source // but for its times and Speaks, which are guarded by mu

	demand chan struct{} // one slot

	// outage is the error of names of which nothing is known, nil while the control plane can
	// be reached. It changes under mu.
	outage atomic.Pointer[wire.ResourceError]

	applyMu sync.Mutex    // held over what changes content, as Apply and Settle; guards what follows
	moved   []*collection // changed by the present one
	renewed []*collection // with heartbeats in the present one
	wakes   []*Client     // whom to wake when mu is released
	brought []*entry      // content that the last response brought to who subscribes; at most maxBrought

	controlPlane atomic.Pointer[string] // what the server calls itself (STR-10)

	mu         sync.RWMutex
	seq        uint64 // number of the last change
	heartbeats uint64 // number of the last heartbeat
	tables     map[tableKey]*table
	clients    map[*Client]struct{}
	readers    int                      // of the clients (Store.Read)
	unsettled  map[*collection]struct{} // all whose quiet time may have to be ended: Settle is called for every response
	waiting    map[*table]struct{}      // all with a clock that runs
	timed      map[*table]struct{}      // all with a TTL that runs
	single     map[string]bool          // by StreamID.TypeURL: there is no second stream (OneStream)
	references referenceNews
	strays     map[*interest]time.Time // names that may be strays, since when
	resources  int64
	bytes      int64
}

// Source says what fills a store. The zero value is a control plane that speaks the
// incremental protocol on one stream, and no clock runs.
type Source struct {
	// Quiet is the time after a response in which members of a collection may still be on
	// their way: when nothing came for so long, and three times as long as between any two
	// responses before, a collection is complete (RES-2).
	Quiet time.Duration
	// ResumeQuiet is the quiet time after which members that the server did not mention on
	// a resumed stream are gone (RES-14). It is Quiet at least.
	ResumeQuiet time.Duration
	// FullState are the types of which a state-of-the-world response, received or
	// sent, is always complete (RES-2, RES-8).
	FullState map[string]bool
	// State says that the source speaks the state of the world: it says what there
	// is (ApplyState), and nothing is told of what there is not but by leaving it out.
	State bool
	// PerType says that each type has upstream streams of its own.
	PerType bool
	// Absent is how long what is asked for on a live stream may go unanswered; 0: for
	// ever. Then a name counts as not existing where the source speaks the state of
	// the world (RES-7); elsewhere it is just not waited for any longer, nor is a
	// collection.
	Absent time.Duration
	// Shared are the types of which the wildcard and the names share a stream (SUB-14).
	Shared map[string]bool
	// Resolved says that it is the relay itself (ApplyResolved): what is asked for are
	// keys, directives included (keyer.ResolvedKey), and it says itself when it is
	// done with a collection.
	Resolved bool
	// Scope is what the contents are of, in all replicas alike: it takes part in digests of
	// several resources, since another scope may have other contents under the same names
	// and versions (ACK-4). "" for what means the same to everybody.
	Scope string
	// Speaks reports whether the server speaks for an authority: whether what it sends for
	// "*" under an xdstp name of the authority is to be believed (LOC-3). Nil says that it
	// speaks for all. It is called under the store's lock.
	Speaks func(authority string) bool
	// Upstream names the server for those who are told of it (Observer).
	Upstream string
	// References says that somebody takes what refers to others (Cache.TakeReferences).
	References bool
}

// longQuiet is how long the server may take to mention what it has.
func (s *Source) longQuiet() time.Duration { return max(s.Quiet, s.ResumeQuiet) }

// Open returns an empty store.
func (c *Cache) Open(source Source) *Store {
	s := &Store{
		cache:   c,
		source:  source,
		demand:  make(chan struct{}, 1),
		tables:  make(map[tableKey]*table),
		clients: make(map[*Client]struct{}),

		unsettled: make(map[*collection]struct{}),
		waiting:   make(map[*table]struct{}),
		timed:     make(map[*table]struct{}),
	}
	if source.References {
		s.references.arrived = func() { c.referring(s) }
	}
	return s
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
	return len(s.clients) - s.readers
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

// nextHeartbeat numbers a heartbeat.
func (s *Store) nextHeartbeat() uint64 {
	s.heartbeats++
	return s.heartbeats
}

// table finds or makes a table.
func (s *Store) table(typeURL string, k kind) *table {
	key := tableKey{typeURL, k}
	t := s.tables[key]
	if t == nil {
		t = &table{
			store: s, typeURL: typeURL, kind: k,
			entries: make(map[string]*entry), colls: make(map[string]*collection), pins: make(map[string]int),
			serverVersions: newServerVersions(s.cache.seed, s.source.State),
			references:     references{table: key, news: &s.references},
			variants:       variants{state: s.source.State},
			unglobbed:      globIndex{names: k == byName},
		}
		s.tables[key] = t
	}
	return t
}

// dropTable forgets a table of which nothing is wanted or held.
func (s *Store) dropTable(t *table) {
	delete(s.tables, tableKey{t.typeURL, t.kind})
	delete(s.waiting, t)
	delete(s.timed, t)
}

// inOrder compares tables by the order in which clients are sent their types: what is
// asked for first is likely to be answered first.
func inOrder(a, b *table) int {
	return cmp.Or(
		cmp.Compare(RankOf(a.typeURL), RankOf(b.typeURL)),
		cmp.Compare(a.typeURL, b.typeURL),
		cmp.Compare(a.kind, b.kind),
	)
}

// on lists the tables that an upstream stream carries, in order. Where each has streams
// of its own it is one, and it is not looked for among all: types are the clients' choice,
// and so are the streams then.
func (s *Store) on(stream wire.StreamID) []*table {
	if s.source.PerType {
		return s.carried(stream, stream.TypeURL, nil)
	}
	var tables []*table
	for _, t := range s.tables {
		if t.on(stream) {
			tables = append(tables, t)
		}
	}
	slices.SortFunc(tables, inOrder)
	return tables
}

// carried finds the tables of a type that an upstream stream feeds: one, or both where
// they share it, the wildcard's first. They are put into room.
func (s *Store) carried(stream wire.StreamID, typeURL string, room []*table) []*table {
	tables := room[:0]
	for _, k := range []kind{wholeType, byName} {
		if t := s.tables[tableKey{typeURL, k}]; t != nil && t.on(stream) {
			tables = append(tables, t)
		}
	}
	return tables
}

// changed notes that the followers of c have something to take. They are looked
// at once per response, however many members it changes.
func (s *Store) changed(c *collection) {
	if !c.moved {
		c.moved = true
		s.moved = append(s.moved, c)
	}
}

// noteHeartbeat lists the heartbeat of a member. Its clients are woken once per response.
func (s *Store) noteHeartbeat(c *collection, l *lifetime) {
	c.heartbeats.add(l)
	if c.heartbeats.clients > 0 && !c.heartbeats.noted {
		c.heartbeats.noted = true
		s.renewed = append(s.renewed, c)
	}
}

// finish discards what tombstones are not needed in the collections that were
// changed, and notes whom to wake. The caller holds applyMu and mu.
func (s *Store) finish() {
	for i, c := range s.moved {
		c.moved = false
		c.sweep()
		s.rouse(&c.rested.plain)
		s.rouse(&c.rested.timed)
		s.moved[i] = nil
	}
	s.moved = s.moved[:0]
	s.wakeRenewed()
}

// wakeRenewed wakes the clients that can do TTL and follow a collection with new heartbeats.
func (s *Store) wakeRenewed() {
	for i, c := range s.renewed {
		c.heartbeats.noted = false
		s.rouse(&c.rested.timed)
		s.renewed[i] = nil
	}
	s.renewed = s.renewed[:0]
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
		c.wake()
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
	listed := make(map[wire.StreamID]struct{})
	for _, t := range slices.SortedFunc(maps.Values(s.tables), inOrder) {
		if _, twice := listed[t.stream]; t.interests > 0 && !twice {
			listed[t.stream] = struct{}{}
			ids = append(ids, t.stream)
		}
	}
	return ids
}

// StreamWanted reports whether a stream is among Streams.
func (s *Store) StreamWanted(stream wire.StreamID) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.ContainsFunc(s.on(stream), func(t *table) bool { return t.interests > 0 })
}

// Awaited reports whether there is a client, one of the relay's own included, or something
// is pinned, which clients lead to. Otherwise the store only keeps what it has (UPS-2).
func (s *Store) Awaited() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.clients) > 0 {
		return true
	}
	for _, t := range s.tables {
		if len(t.pins) > 0 {
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
// are held: there a subscription says only that something is.
func (s *Store) Restart(stream wire.StreamID, versionsLimit int) []wire.Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropStrays(func(i *interest, _ time.Time) bool { return i.table.on(stream) })
	var subs []wire.Subscription
	for _, t := range s.on(stream) {
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
	t.spoken = t.interests > 0
	t.stopClocks()
	t.forgetExcuses()
	t.withheld = false
	now := t.store.cache.now()
	visit := func(i *interest) {
		i.pending = 0
		if i.leaving {
			i.drop()
			return
		}
		sub.Subscribe = append(sub.Subscribe, i.subscribe(now))
	}
	for _, c := range t.colls {
		c.quiet.restart()
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
	if resumed {
		sub.Held = t.holdsAny()
	} else {
		sub.Versions, resumed = t.versions(versionsLimit)
	}
	t.variants.doubt()
	t.unanswered = make(map[*collection]struct{}, len(t.colls))
	for _, c := range t.colls {
		t.unanswered[c] = struct{}{}
		if resumed {
			c.quiet.trustAll(c.live.head)
			c.doubt()
		} else {
			c.quiet.doubtAll(c.live.len)
		}
	}
	return sub
}

// holdsAny reports whether there is anything that a server could take away by leaving
// it out. What is not kept counts: clients have it (TTL-5).
func (t *table) holdsAny() bool {
	for _, e := range t.entries {
		if e.there() {
			return true
		}
	}
	return false
}

// versions lists what the table holds, unless that and the collections' names would
// pass limit bytes.
func (t *table) versions(limit int) (map[string]string, bool) {
	const overhead = 12 // tags and lengths of a map entry
	size := 0
	for _, c := range t.colls {
		size += len(c.key) + overhead
	}
	held := make(map[string]string)
	for _, e := range t.entries {
		if !e.presentable() {
			continue
		}
		version := e.resumeVersion()
		name := e.name()
		size += len(name) + len(version) + overhead
		if limit > 0 && size > limit {
			return nil, false
		}
		held[name] = version
	}
	return held, true
}

// Lost says that an upstream stream broke: nothing is subscribed on it now.
// Everything stays as it is for the clients (OPS-1), and no clock runs.
func (s *Store) Lost(stream wire.StreamID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.on(stream) {
		t.stopClocks()
		t.forgetExcuses()
		t.spoken = false
		for _, c := range t.colls {
			c.interest.subscribed, c.interest.again, c.overdue = false, false, false
			c.quiet.restart()
		}
		for _, e := range t.entries {
			e.overdue = false
			if e.interest != nil {
				e.interest.subscribed, e.interest.again = false, false
			}
		}
		t.leaveStream()
	}
}
