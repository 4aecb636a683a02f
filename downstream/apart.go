package downstream

import (
	"cmp"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// A glob and "*" of one store tell both what they have. Where a move parts them the client
// holds what came last, or nothing if that was a removal: which it was nobody knows. The
// glob is therefore begun again where it will be (SUB-6), and takes back what "*" brought
// and is not there: "*" says nothing of it from then on (LOC-3).

// apart finds the globs that are in one store with "*" before the move and not after it,
// and gives what is to be changed, in each store where some will be, when all are there.
func (st *stream) apart(m *move) map[*cache.Store]*cache.Change {
	t := m.typeState
	if t.wildcard == nil {
		return nil
	}
	to := m.fromStar()
	if len(to) == 0 {
		return nil
	}
	apart := make(map[*cache.Store]*cache.Change)
	for n := range t.wildcard.Names(t.url) {
		if !keyer.IsGlob(n.Key) || to[n.Spelling] == to[cache.Wildcard] {
			continue
		}
		store := cmp.Or(to[n.Spelling], t.wildcard.Store())
		if apart[store] == nil {
			apart[store] = &cache.Change{TypeURL: t.url}
		}
		apart[store].Subscribe = append(apart[store].Subscribe, n)
	}
	for _, ch := range apart {
		ch.Answer = t.wildcard.Brought(t.url, ch.Subscribe)
	}
	return apart
}

// fromStar gives where "*" goes, and the globs of its store, by spelling: nil for what stays.
// What is refused goes with "*", as it were, since it is begun nowhere.
func (m *move) fromStar() map[string]*cache.Store {
	to := make(map[string]*cache.Store)
	for _, g := range m.groups {
		if g.from != m.typeState.wildcard {
			continue
		}
		for _, n := range g.names {
			if n.Key == cache.Wildcard || keyer.IsGlob(n.Key) {
				to[n.Spelling] = g.to
			}
		}
	}
	for _, r := range m.refused {
		to[r.name.Spelling] = to[cache.Wildcard]
	}
	return to
}
