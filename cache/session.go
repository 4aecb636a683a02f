package cache

import (
	"cmp"
	"maps"
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// Session is a store as the upstream session sees it, or the resolver. It fills the store, and
// asks what to subscribe to. Any goroutine may call its methods.
type Session struct{ store *Store }

// Session returns the session's side of the store.
func (s *Store) Session() Session { return Session{s} }

// Wanted is the number of names and collections that the server is asked for.
func (s Session) Wanted() int {
	s.store.mu.RLock()
	defer s.store.mu.RUnlock()
	n := 0
	for _, t := range s.store.tables {
		n += t.demands.count
	}
	return n
}

// Learned reports whether something of what is cached came from a server or a snapshot, if only that a
// collection is empty.
func (s Session) Learned() bool {
	s.store.mu.RLock()
	defer s.store.mu.RUnlock()
	if s.store.journal.revision > 0 {
		return true
	}
	for _, t := range s.store.tables {
		for _, c := range t.colls {
			if c.Answered() {
				return true
			}
		}
	}
	return false
}

// Sequence is the number of the last change that was applied.
func (s Session) Sequence() uint64 {
	s.store.mu.RLock()
	defer s.store.mu.RUnlock()
	return s.store.journal.revision
}

// inOrder compares tables by the order in which clients are sent their types: a server mostly
// answers in the order of the requests.
func inOrder(a, b *Table) int {
	return cmp.Or(xds.CompareTypes(a.typeURL, b.typeURL), cmp.Compare(a.kind, b.kind))
}

// on lists the tables that an upstream stream carries, in order. If each type has its own
// streams, it does not look through all tables: clients choose the types, so there may be many.
func (s Session) on(stream wire.StreamID) []*Table {
	if s.store.source.PerType {
		return s.carried(stream, stream.TypeURL, nil)
	}
	var tables []*Table
	for _, t := range s.store.tables {
		if t.upstream.on(stream) {
			tables = append(tables, t)
		}
	}
	slices.SortFunc(tables, inOrder)
	return tables
}

// carried finds the tables of a type that an upstream stream feeds: one, or both if they share
// it, the wildcard's first. They are put into room.
func (s Session) carried(stream wire.StreamID, typeURL string, room []*Table) []*Table {
	tables := room[:0]
	for _, k := range []Kind{WholeType, ByName} {
		if t := s.store.tables[tableKey{typeURL, k}]; t != nil && t.upstream.on(stream) {
			tables = append(tables, t)
		}
	}
	return tables
}

// DemandChanged receives when there is something for TakeDemand.
func (s Session) DemandChanged() <-chan struct{} { return s.store.demandSignal }

// Streams lists the upstream streams with demand, in the order in which they are best opened. A
// demand that waits for its unsubscribe counts.
func (s Session) Streams() []wire.StreamID {
	s.store.mu.RLock()
	defer s.store.mu.RUnlock()
	var ids []wire.StreamID
	listed := make(map[wire.StreamID]struct{})
	for _, t := range slices.SortedFunc(maps.Values(s.store.tables), inOrder) {
		if _, twice := listed[t.upstream.stream]; t.demands.count > 0 && !twice {
			listed[t.upstream.stream] = struct{}{}
			ids = append(ids, t.upstream.stream)
		}
	}
	return ids
}

// StreamWanted reports whether a stream is among Streams.
func (s Session) StreamWanted(stream wire.StreamID) bool {
	s.store.mu.RLock()
	defer s.store.mu.RUnlock()
	return slices.ContainsFunc(s.on(stream), func(t *Table) bool { return t.demands.count > 0 })
}

// Awaited reports whether there is a client, or a reader of the relay's own, or a pin. Otherwise
// the store only keeps its content (UPS-2).
func (s Session) Awaited() bool {
	s.store.mu.RLock()
	defer s.store.mu.RUnlock()
	if len(s.store.places) > 0 {
		return true
	}
	for _, t := range s.store.tables {
		if len(t.demands.pins) > 0 {
			return true
		}
	}
	return false
}
