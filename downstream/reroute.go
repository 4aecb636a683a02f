package downstream

import (
	"cmp"
	"maps"
	"slices"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// When the plan changes of where names live, every stream looks again, when it is
// its turn. What lives elsewhere now is moved: taken out of the one store and subscribed
// to in the other, for a client that holds what the first one sent it. So it is sent the
// difference, and nothing that both have is ever missing.

// move is what becomes of the subscriptions to one type.
type move struct {
	typeState *typeState
	groups    []*moveGroup
	refused   []refusedName
	admitted  []string // that were refused before
}

// moveGroup goes from one store to another.
type moveGroup struct {
	from     *cache.Client
	to       *cache.Store
	names    []cache.Name
	departed *cache.Departed
}

// refusedName is one that the relay does not serve any more.
type refusedName struct {
	from *cache.Client
	name cache.Name
	why  *refusedError
}

// reroute looks again where the stream's names live, if there is another plan. The error
// is that of a new stream that names the same.
func (st *stream) reroute() error {
	plan := st.server.plans.Load()
	if plan == st.plan {
		return nil
	}
	st.plan, st.calm = plan, false
	if st.routes == nil || !st.routes.Reroute() {
		return nil
	}
	moves, err := st.relocate()
	if err != nil {
		st.server.observer.MoveEnded(moveEnd(err))
		return err
	}
	for _, m := range moves {
		if err := st.carryOut(m); err != nil {
			return err
		}
	}
	st.leaveUnused()
	if len(moves) > 0 {
		st.moved()
	}
	return nil
}

// moveEnd is why a stream ends that cannot be moved.
func moveEnd(err error) MoveEnd {
	if status.Code(err) == codes.PermissionDenied {
		return EndRefused
	}
	return EndFailed
}

// relocate finds what is to be moved, in the order in which types are sent. Nothing is
// changed by then: a stream that may not go on ends as it is.
func (st *stream) relocate() ([]*move, error) {
	var moves []*move
	for _, t := range slices.SortedFunc(slices.Values(st.types), func(a, b *typeState) int {
		return cmp.Or(cmp.Compare(cache.RankOf(a.url), cache.RankOf(b.url)), cmp.Compare(a.url, b.url))
	}) {
		m := &move{typeState: t}
		for _, c := range st.order {
			if err := st.relocateFrom(c, m); err != nil {
				return nil, err
			}
		}
		if err := st.readmit(m); err != nil {
			return nil, err
		}
		if len(m.groups)+len(m.refused)+len(m.admitted) > 0 {
			moves = append(moves, m)
		}
	}
	return moves, nil
}

// relocateFrom looks at what is subscribed to in one store.
func (st *stream) relocateFrom(c *cache.Client, m *move) error {
	t := m.typeState
	groups := make(map[*cache.Store]*moveGroup)
	names := slices.Collect(c.Names(t.url))
	if c.Follows(t.url) {
		names = append(names, cache.Name{Spelling: cache.Wildcard, Key: cache.Wildcard})
	}
	for _, n := range names {
		store, _, err := locate(st.routes, t.url, n.Spelling)
		switch r := refusal(err); {
		case r != nil:
			m.refused = append(m.refused, refusedName{c, n, r})
		case err != nil:
			return err
		case store != c.Store():
			if groups[store] == nil {
				groups[store] = &moveGroup{from: c, to: store}
				m.groups = append(m.groups, groups[store])
			}
			groups[store].names = append(groups[store].names, n)
		}
	}
	return nil
}

// readmit finds what was refused and is served now.
func (st *stream) readmit(m *move) error {
	t := m.typeState
	for _, spelling := range slices.Concat(slices.Sorted(maps.Keys(t.listed.denied)), slices.Sorted(maps.Keys(t.unserved))) {
		if t.listed.denied[spelling] == codes.ResourceExhausted {
			continue
		}
		switch _, _, err := locate(st.routes, t.url, spelling); {
		case refusal(err) != nil:
		case err != nil:
			return err
		default:
			m.admitted = append(m.admitted, spelling)
		}
	}
	return nil
}

// carryOut moves the subscriptions to one type.
func (st *stream) carryOut(m *move) error {
	t := m.typeState
	was := st.watches(t)
	if t.listed.presented != "" {
		t.listed.presented = otherScope // it was shown for what is another scope's
	}
	t.avoids = t.holds
	apart := st.apart(m)
	st.depart(m)
	arrived, wildcard := st.arrive(m)
	for store, ch := range apart {
		st.client(store).Update(*ch)
	}
	switch {
	case t.wildcard == nil:
	case wildcard:
		st.tellElsewhere(t)
	case len(arrived) > 0:
		t.wildcard.Update(cache.Change{TypeURL: t.url, Elsewhere: arrived})
	}
	st.counted(t, st.watches(t)-was)
	if t.listed.missing {
		ch := &change{changes: make(map[*cache.Store]*cache.Change)}
		ch.relist(st, t)
		st.update(t, ch)
	}
	if len(m.admitted) == 0 {
		return nil
	}
	return st.subscribe(t, m.admitted, nil, wire.Versions{})
}

// otherScope is what a client counts as having shown whose version is another scope's.
const otherScope = "\x00another scope"

// watches is the number of subscriptions to a type in all stores.
func (st *stream) watches(t *typeState) int {
	n := 0
	for _, c := range st.order {
		n += c.Watches(t.url)
	}
	return n
}

// depart takes out what is to go, and refuses what is not served any more. "*" does not
// wait for other stores to serve what has left them.
func (st *stream) depart(m *move) {
	t := m.typeState
	var left, answer []cache.Name
	for _, g := range m.groups {
		g.departed = g.from.Depart(t.url, g.names)
		if g.from != t.wildcard {
			left = append(left, g.names...)
		}
	}
	for _, r := range m.refused {
		d := r.from.Depart(t.url, []cache.Name{r.name})
		if r.from != t.wildcard {
			answer = append(answer, r.name)
		}
		if st.form.State && !st.server.config.FullState[t.url] && d.Holds(r.name.Spelling) {
			t.strand(r.name.Spelling)
		}
		st.refuse(t, r.name.Spelling, r.why)
	}
	if t.wildcard != nil && !t.wildcard.Follows(t.url) {
		t.wildcard = nil
	}
	if t.wildcard != nil && len(left)+len(answer) > 0 {
		t.wildcard.Update(cache.Change{TypeURL: t.url, Kept: left, Answer: answer})
	}
}

// arrive puts in what was taken out. It returns what is in other stores than "*" now, and
// whether that has moved itself.
func (st *stream) arrive(m *move) (arrived []cache.Name, wildcard bool) {
	t := m.typeState
	for _, g := range m.groups {
		c, names := st.client(g.to), g.departed.Names()
		c.Update(cache.Change{TypeURL: t.url, Moved: []*cache.Departed{g.departed}})
		if c.Follows(t.url) && t.wildcard != c {
			t.wildcard, wildcard = c, true
		}
		if c != t.wildcard {
			arrived = append(arrived, names...)
		}
	}
	return arrived, wildcard
}

// counted notes how many subscriptions there are more.
func (st *stream) counted(t *typeState, delta int) {
	t.subscriptions += delta
	st.mu.Lock()
	t.status.Subscriptions = t.subscriptions
	st.status.scope = st.routes.Scope()
	st.mu.Unlock()
	st.server.observer.Subscribed(t.url, delta)
}

// leaveUnused gives places back in stores where nothing is subscribed to any more. What
// came from them and is not acknowledged is nobody's then.
func (st *stream) leaveUnused() {
	st.order = slices.DeleteFunc(st.order, func(c *cache.Client) bool {
		for _, t := range st.types {
			if c.Watches(t.url) > 0 {
				return false
			}
		}
		c.Leave()
		return true
	})
	used := func(s *cache.Store) bool { return st.place(s) != nil }
	for _, t := range st.types {
		t.origins = slices.DeleteFunc(t.origins, func(o origin) bool { return !used(o.store) })
	}
	st.routes.Settle(used)
}
