package cache

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// Generation is a state that clients had, or have.
type Generation struct {
	Number  uint64        `json:"number"`
	Since   time.Time     `json:"since"`
	Until   time.Time     `json:"until,omitzero"` // when the changes began that ended it; zero for the present one
	Changes []TypeChanges `json:"changes,omitempty"`
}

// TypeChanges are the changes of one type that ended a state.
type TypeChanges struct {
	TypeURL string `json:"type_url"`
	New     int    `json:"new"`     // names that there were not
	Changed int    `json:"changed"` // others: changed or removed
}

// Generations lists the states, the present one first.
func (o Operator) Generations() []Generation {
	s := o.store
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	p := &s.changes.past
	all := []Generation{{Number: p.number, Since: p.since}}
	for _, b := range slices.Backward(p.bursts) {
		all = append(all, Generation{Number: b.number, Since: b.since, Until: b.began, Changes: b.changes()})
	}
	return all
}

func (b *burst) changes() (all []TypeChanges) {
	for name, r := range b.before {
		i, found := slices.BinarySearchFunc(all, name.table.typeURL, func(x TypeChanges, typeURL string) int {
			return xds.CompareTypes(x.TypeURL, typeURL)
		})
		if !found {
			all = slices.Insert(all, i, TypeChanges{TypeURL: name.table.typeURL})
		}
		if r == nil {
			all[i].New++
		} else {
			all[i].Changed++
		}
	}
	return all
}

// GenerationAt is the number of the state that clients had at a time. While a burst goes on that is the
// state before it. ok is false if that is not remembered.
func (o Operator) GenerationAt(at time.Time) (number uint64, ok bool) {
	s := o.store
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	p := &s.changes.past
	for _, b := range p.bursts {
		if at.Before(b.ended) {
			return b.number, !at.Before(b.since)
		}
	}
	return p.number, !at.Before(p.since)
}
