package relay

import (
	"slices"
	"sync"

	"github.com/xdsrelay/xdsrelay/internal/smallmap"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
	"github.com/xdsrelay/xdsrelay/relay/sharing"
)

// member is one stream among those that the rules have put somewhere.
type member struct {
	id string // of its node

	mu     sync.Mutex
	places smallmap.Map[*session, []place] // guarded by mu
}

// place is what a stream is served of a session, and who says so.
type place struct {
	typeURL, rule string
	failed        error // why the rule could not be evaluated, or nil
}

// add notes what a session serves. As many places are kept as decisions have results: to
// be told the same of another name costs nothing. It reports whether the session is new.
func (m *member) add(s *session, p place) (isNew bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	places, known := m.places.Lookup(s)
	if !slices.ContainsFunc(places, func(q place) bool { return q.typeURL == p.typeURL && q.rule == p.rule }) {
		m.places.Set(s, append(places, p))
	}
	return !known
}

// placements gives what a survey counts.
func (m *member) placements() []sharing.Placement {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]sharing.Placement, 0, m.places.Len())
	for s, places := range m.places.All() {
		for _, p := range places {
			list = append(list, sharing.Placement{TypeURL: p.typeURL, Upstream: s.key.plane, Decision: rules.Decision{
				Rule: p.rule, Scope: s.key.scope, Basis: s.key.basis, Failed: p.failed,
			}})
		}
	}
	return list
}

// roster has the routes of all streams and polls that are served. The zero roster is empty.
type roster struct {
	mu  sync.Mutex
	all map[*routes]struct{} // guarded by mu
}

func (r *roster) add(m *routes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = make(map[*routes]struct{})
	}
	r.all[m] = struct{}{}
}

func (r *roster) remove(m *routes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, m)
}

func (r *roster) list() []*routes {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*routes, 0, len(r.all))
	for m := range r.all {
		list = append(list, m)
	}
	return list
}
