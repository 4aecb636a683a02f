package cache

import "github.com/xdsrelay/xdsrelay/internal/wire"

// The wildcard and the names of a type have separate streams, since a resource on one stream
// could belong to either (SUB-12). Some types share one stream (Source.Shared), and all types
// if the server refuses a second stream (OneStream). Then a name that is asked for is no member
// of the wildcard, unless it was one before (SUB-14).

// OneStream says whether the server refuses a second stream beside one. Then that stream carries
// names and the wildcard of each type. Neither stream is open now, or the second is not.
func (s Session) OneStream(stream wire.StreamID, one bool) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if s.store.single[stream.TypeURL] == one {
		return
	}
	if s.store.single == nil {
		s.store.single = make(map[string]bool)
	}
	s.store.single[stream.TypeURL] = one
	for _, t := range s.store.tables {
		switch other := t.other(); {
		case !t.upstream.assigned || t.upstream.stream.TypeURL != stream.TypeURL || s.store.source.Shared[t.typeURL]:
		case one && t.upstream.stream.Second:
			t.upstream.stream.Second = false
			t.askAll()
		case one:
		case t.kind == ByName && other != nil && other.upstream.on(t.upstream.stream):
			t.upstream.stream.Second = true
		}
	}
	s.store.demandSignal.send()
}

// askAll has the server asked for all demand that it was not asked for.
func (t *Table) askAll() {
	for i := range t.allDemands() {
		if !i.subscribed {
			i.mark()
		}
	}
}

// tooLate reports whether a wildcard is to be asked for although the server was asked for names:
// only the first request for a type can ask for everything (SUB-14).
func (t *Table) tooLate(c *Collection) bool {
	other := t.other()
	return c.Wildcard() && other != nil && other.upstream.on(t.upstream.stream) && other.upstream.spoken
}
