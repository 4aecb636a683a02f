package cache

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// PastChange is a name that changed, as clients were told.
type PastChange struct {
	At            time.Time // when the burst began that it belongs to
	TypeURL, Name string
	Before, After *wire.Resource // nil: there was, or is, none
}

// Changes lists what changed since a time, the last first: what states before the present one are remembered
// for says it, so endpoints and first answers are left out. from is when the list begins to be complete; zero
// if it goes back as far as was asked for.
func (o Operator) Changes(since time.Time) (all []PastChange, from time.Time) {
	s := o.store
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	p := &s.changes.past
	if s.cache.past.generations.Load() == 0 {
		return nil, s.cache.Now()
	}
	after := make(map[pastName]*wire.Resource)
	for _, b := range slices.Backward(p.bursts) {
		if b.ended.Before(since) {
			return all, time.Time{}
		}
		first := len(all)
		for name, before := range b.before {
			now, known := after[name]
			if !known {
				now = s.present(name)
			}
			after[name] = before
			if before == nil && now == nil || before != nil && now != nil && before.SameContent(now) {
				continue // it came and went, or went and came back
			}
			all = append(all, PastChange{b.began, name.table.typeURL, strings.Clone(name.key), before, now})
		}
		slices.SortFunc(all[first:], func(a, b PastChange) int {
			return cmp.Or(xds.CompareTypes(a.TypeURL, b.TypeURL), strings.Compare(a.Name, b.Name))
		})
	}
	if len(p.bursts) > 0 && p.bursts[0].number > 0 && p.bursts[0].since.After(since) {
		from = p.bursts[0].since
	}
	return all, from
}

// present is what clients have now of a name; nil: nothing.
func (s *Store) present(name pastName) *wire.Resource {
	t := s.tables[name.table]
	if t == nil {
		return nil
	}
	if e := t.entries[name.key]; e != nil && e.Exists() {
		return e.res
	}
	return nil
}
