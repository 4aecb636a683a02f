package cache

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/cache/hold"
)

// Store holds everything of one session: one upstream and one scope.
type Store struct {
	// immutable after Open
	cache  *Cache
	source Source // except its times and Speaks, which mu guards

	demandSignal signal

	outage outageState

	applyMu sync.Mutex // held over each change of content, such as Apply and Settle
	changes changes    // guarded by applyMu

	controlPlane atomic.Pointer[string] // what the server calls itself (STR-10)

	mu         sync.RWMutex
	journal    journal
	tables     map[tableKey]*Table
	places     map[Place]bool // whether it is the relay's own
	readers    int            // of the places, those of the relay's own
	due        due
	single     map[string]bool // by StreamID.TypeURL: there is no second stream (OneStream)
	references referenceNews
	restored   restoredStore
	vacant     vacant[*demand]
	usage      weight
}

// due are the parts of a store that Settle looks at. Settle is called for every response.
// Guarded by Store.mu.
type due struct {
	unsettled map[*Collection]struct{} // their quiet time may have to be ended
	clocks    map[*Table]struct{}      // a clock runs
	ttls      map[*Table]struct{}      // a TTL runs
	held      heldTables               // something is held back
	strays    map[*demand]time.Time    // names that may be strays, since when
}

// Freezing says whether the tables of a type are frozen at a time. It is called under the store's
// lock.
type Freezing func(typeURL string, now time.Time) hold.Freeze

// heldTables are the tables of a store that hold something back. Guarded by Store.mu.
type heldTables struct {
	clock  hold.Clock          // of tables
	tables map[*Table]struct{} // whose losses are held
	frozen map[*Table]struct{} // of which an operator holds everything
	freeze Freezing            // what an operator holds; nil for nothing
}

// leave takes a table off, and ends the clock with the last one whose losses are held.
func (h *heldTables) leave(t *Table) {
	delete(h.frozen, t)
	if delete(h.tables, t); len(h.tables) == 0 {
		h.tables, h.clock = nil, hold.Clock{}
	}
}

// freezeOf is how a table is frozen at a time; the zero value if it is not.
func (h *heldTables) freezeOf(t *Table, now time.Time) hold.Freeze {
	if h.freeze != nil {
		if f := h.freeze(t.typeURL, now); f.On(now) {
			return f
		}
	}
	return hold.Freeze{}
}

// enter has a table frozen.
func (h *heldTables) enter(t *Table, f hold.Freeze) {
	h.leave(t)
	h.frozen = with(h.frozen, t)
	if t.upstream.held == nil {
		t.upstream.held = new(heldBack)
	}
	t.upstream.held.begin(f)
}

// Open returns an empty store.
func (c *Cache) Open(source Source) *Store {
	c.stores.Add(1)
	s := &Store{
		cache:        c,
		source:       source,
		demandSignal: newSignal(),
		tables:       make(map[tableKey]*Table),
		places:       make(map[Place]bool),
		due: due{
			unsettled: make(map[*Collection]struct{}),
			clocks:    make(map[*Table]struct{}),
			ttls:      make(map[*Table]struct{}),
		},
	}
	s.changes.journal = &s.journal
	s.changes.past.since = c.Now()
	s.outage.peers = source.Peers
	if source.References {
		s.references.arrived = func() { c.referring(s) }
	}
	return s
}

// Clients is the number of streams that have a place in the store.
func (s *Store) Clients() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.places) - s.readers
}

// Table finds or makes a table.
func (s *Store) Table(typeURL string, k Kind) *Table {
	key := tableKey{typeURL, k}
	t := s.tables[key]
	if t == nil {
		if len(s.tables) >= maxTables {
			s.dropUnheard(s.cache.Now())
		}
		t = &Table{
			store: s, typeURL: typeURL, kind: k,
			entries: make(map[string]*Entry), colls: make(map[string]*Collection),
			demands:        demandQueue{pins: make(map[string]int)},
			serverVersions: newServerVersions(s.cache.seed, s.source.State),
			references:     references{table: key, news: &s.references},
			unglobbed:      globIndex{names: k == ByName},
		}
		s.tables[key] = t
		if f := s.due.held.freezeOf(t, s.cache.Now()); !f.Since.IsZero() {
			s.due.held.enter(t, f)
		}
	}
	return t
}

// maxTables is how many tables a store may have before those are dropped that clients may have invented.
const maxTables = 64

// dropUnheard drops the tables of types that nobody wants and the server has never answered, while their stream goes on
// or the server is away (LIM-3). It keeps those of which a collection was unsubscribed lately: see TakeDemand.
func (s *Store) dropUnheard(now time.Time) {
	for _, t := range s.tables {
		if t.demands.count > 0 || len(t.entries) > 0 || !t.unheard() {
			continue
		}
		t.demands.forgetUnsubscribed(s.source.longQuiet(), now)
		if len(t.demands.unsubscribed) == 0 {
			s.dropTable(t)
		}
	}
}

// dropTable forgets a table without demand and entries.
func (s *Store) dropTable(t *Table) {
	delete(s.tables, tableKey{t.typeURL, t.kind})
	delete(s.due.clocks, t)
	delete(s.due.ttls, t)
	delete(s.restored.tables, t)
	s.due.held.leave(t)
}

// HasRoomFor reports whether clients may subscribe to a type. They may not if the type has no known
// discovery service, and the server is asked already for as many such types as it may be, and has
// answered none of them. Such a type is let go with its last client.
func (s *Store) HasRoomFor(typeURL string, most int) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	others := make(map[string]struct{})
	for _, t := range s.tables {
		switch {
		case t.typeURL == typeURL && (t.demands.count > 0 || !t.unheard()):
			return true
		case t.demands.count > 0 && t.unheard():
			others[t.typeURL] = struct{}{}
		}
	}
	return len(others) < most
}
