package cache

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// HeldBy says who holds something back.
type HeldBy string

// Those who hold.
const (
	HeldByGuard    HeldBy = "guard"    // losses (SUR-3)
	HeldByOperator HeldBy = "operator" // everything (GATE-4)
)

// HeldType is what a store holds back of one type, for operators.
type HeldType struct {
	TypeURL string
	Kind    string
	Why     HeldBy
	Since   time.Time
	Until   time.Time // when it is released; zero: when an operator says so
	Lost    int       // names that clients would lose
	Changed int       // and those that would change, or come
	Names   []Difference
}

// Difference is a name of which clients have something else than the server said last.
type Difference struct {
	Name     string
	Released *wire.Resource // nil: there is none
	Received *wire.Resource // nil: there is none any more
	Err      *wire.ResourceError
}

// Held lists what the store holds back, by type, and with names what differs. A frozen type is listed
// also while nothing differs.
func (o Operator) Held(names bool) (all []HeldType) {
	s := o.store
	s.mu.RLock()
	defer s.mu.RUnlock()
	tables := slices.AppendSeq(slices.Collect(maps.Keys(s.due.held.frozen)), maps.Keys(s.due.held.tables))
	slices.SortFunc(tables, inOrder)
	for _, t := range tables {
		h := t.upstream.held
		x := HeldType{TypeURL: t.typeURL, Kind: t.kind.String(), Lost: h.names.Losses(), Changed: h.names.Len() - h.names.Losses()}
		switch {
		case h.frozen():
			x.Why, x.Since, x.Until = HeldByOperator, h.freeze.Since, h.freeze.Until
		case h.shown():
			x.Why, x.Since, x.Until = HeldByGuard, s.due.held.clock.Since(), s.due.held.clock.Until()
		default:
			continue
		}
		if names {
			x.Names = t.differences(h)
		}
		all = append(all, x)
	}
	return all
}

func (t *Table) differences(h *heldBack) []Difference {
	all := make([]Difference, 0, h.names.Len())
	for key, f := range h.names.All() {
		all = append(all, t.difference(key, &f))
	}
	slices.SortFunc(all, func(a, b Difference) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func (t *Table) difference(key string, f *hold.Fate) Difference {
	d := Difference{Name: key, Received: f.Resource, Err: f.Err}
	if e := t.entries[key]; e != nil {
		d.Name, d.Released = e.Name(), e.res
	} else if served := t.aliases.of(key); len(served) > 0 {
		d.Released = served[0].res
	}
	return d
}
