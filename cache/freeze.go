package cache

import (
	"maps"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/notify"
)

// An operator may freeze tables (GATE-4): what the server says of them from then on is held back, and
// clients that come get what is released. These pass: a ttl that runs out, an error other than
// NOT_FOUND, content that is not to be cached, and the first answer to a question, since clients have nothing
// of it. Frozen content is not evicted: it could not be had again.

// Operator is a store as an operator sees it. Any goroutine may call its methods.
type Operator struct{ store *Store }

// Operator returns the operator's side of a store.
func (s *Store) Operator() Operator { return Operator{s} }

// Freeze says anew which types are frozen. What is held of types that were frozen and are not any
// longer is released. So is what the guard holds of the types that release names; nil: of none. All
// of it is one change, so clients are told in make-before-break order (ADS-1).
func (o Operator) Freeze(f Freezing, release func(typeURL string) bool) {
	s := o.store
	s.change(func() {
		s.due.held.freeze = f
		now := s.cache.Now()
		s.freezeAll(now)
		if release != nil {
			for _, t := range slices.SortedFunc(maps.Keys(s.due.held.tables), inOrder) {
				if release(t.typeURL) {
					t.release(now, EndedByCommand)
				}
			}
		}
	})
	s.demandSignal.send() // the session asks when to Settle
}

// Frozen reports whether a table is frozen.
func (o Operator) Frozen() bool {
	o.store.mu.RLock()
	defer o.store.mu.RUnlock()
	return len(o.store.due.held.frozen) > 0
}

// freezeAll freezes the tables that are to be frozen, and releases those that are not.
func (s *Store) freezeAll(now time.Time) {
	for _, t := range slices.SortedFunc(maps.Values(s.tables), inOrder) {
		t.freeze(now)
	}
}

// freeze freezes a table, or releases it.
func (t *Table) freeze(now time.Time) {
	due, h := &t.store.due.held, t.upstream.held
	f := due.freezeOf(t, now)
	switch frozen := !f.Since.IsZero(); {
	case frozen && h != nil && h.told:
		t.store.changes.held = append(t.store.changes.held, t.held(EndedByCommand))
		due.enter(t, f)
	case frozen:
		due.enter(t, f)
	case h.frozen():
		t.release(now, EndedByCommand)
	}
}

// thaw releases the tables whose freeze has ended. It returns when to call it again, zero if none ends
// by time.
func (s *Store) thaw(now time.Time) (next time.Time) {
	if len(s.due.held.frozen) == 0 {
		return next
	}
	ended := false
	for t := range s.due.held.frozen {
		ended = ended || !t.upstream.held.freeze.On(now)
	}
	if ended {
		s.freezeAll(now)
	}
	for t := range s.due.held.frozen {
		next = notify.Earlier(next, t.upstream.held.freeze.Until)
	}
	return next
}

// keepFrozen keeps a demand of a frozen table that is to be evicted, and reports whether it does.
func (d *demand) keepFrozen() bool {
	h := d.table.upstream.held
	if !h.frozen() || d.empty() {
		return false
	}
	h.kept = with(h.kept, d)
	return true
}

// releaseKept lets demands be evicted again that a freeze kept.
func (t *Table) releaseKept(kept map[*demand]struct{}) {
	for i := range kept {
		if i.alive() && i.idle && !i.evicting && !t.store.cache.isIdle(i) {
			t.store.cache.addIdle(i)
			i.review() // it may have lost its content since
		}
	}
}
