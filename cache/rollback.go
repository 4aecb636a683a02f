package cache

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// ErrNoGeneration is that a state is not remembered.
var ErrNoGeneration = errors.New("the relay does not remember such a state: xdsrelay rollback lists those that it does")

// Rollback gives clients what they had in the state of a number (Generations), of the types that match,
// and freezes: f says anew which types are frozen, these among them. What the server said last is
// held. All of it is one change. It returns how many names changed. The error is ErrNoGeneration.
func (o Operator) Rollback(number uint64, f Freezing, match func(typeURL string) bool) (changed int, err error) {
	s := o.store
	s.change(func() {
		p, now := &s.changes.past, s.cache.Now()
		names, ok := p.before(number)
		if !ok {
			err = ErrNoGeneration
			return
		}
		by := make(map[*Table]map[string]*wire.Resource)
		for name, r := range names {
			if t := s.tables[name.table]; t != nil && match(t.typeURL) {
				if by[t] == nil {
					by[t] = make(map[string]*wire.Resource)
				}
				by[t][name.key] = r
			}
		}
		p.closed, p.rollsBack = true, true
		defer func() { p.closed, p.rollsBack = true, false }()
		s.due.held.freeze = f
		s.freezeAll(now)
		for _, t := range slices.SortedFunc(maps.Keys(by), inOrder) {
			changed += t.rollBack(by[t], now)
		}
	})
	s.demandSignal.send() // the session asks when to Settle
	return changed, err
}

// rollBack gives clients what they had of the names of a frozen table: contents first, then removals.
func (t *Table) rollBack(names map[string]*wire.Resource, now time.Time) (changed int) {
	h := t.upstream.held
	if !h.frozen() {
		return 0
	}
	was := *h
	*h = heldBack{} // nothing of this is held
	fates := make(map[string]undone)
	u := &update{response: &wire.Response{TypeURL: t.typeURL}, received: now}
	keys := slices.Sorted(maps.Keys(names))
	for _, removals := range []bool{false, true} {
		for _, key := range keys {
			r, stale := names[key], t.entries[key].unconfirmed()
			if (r == nil) != removals {
				continue
			}
			if f, ok := u.rollBackName(t, key, r); ok {
				fates[key] = undone{f, stale}
			}
		}
	}
	*h = was
	for key, last := range fates {
		f := last.Fate
		if word, held := h.names.Get(key); held {
			f = word // the server's last word
		}
		h.names.Drop(key)
		e := t.entries[key]
		if e == nil && t.collectionOf(key, nil) == nil {
			continue
		}
		exists := e != nil && e.Exists()
		if last.stale && !exists {
			continue // the server sends it again, if it has it still (RES-14)
		}
		if last.stale {
			e.coll.quiet.distrust(e)
		}
		f.Loss = exists && f.Removes()
		if (f.Removes() && exists) || (!f.Removes() && (!exists || !u.same(e.res, f.Resource))) {
			h.names.Put(key, f)
		}
	}
	return len(fates)
}

// undone is what the server said last of a name that was rolled back. It is stale if the server has not
// said it on the present stream.
type undone struct {
	hold.Fate

	stale bool
}

// rollBackName gives clients what they had of one name. It returns what they have now, as the
// server's word. ok is false if nothing is to change, or can.
func (u *update) rollBackName(t *Table, key string, r *wire.Resource) (f hold.Fate, ok bool) {
	e := t.entries[key]
	exists := e != nil && e.Exists()
	switch {
	case exists && (e.res.DoNotCache || e.marks.Alias):
		return f, false
	case e != nil && e.state == Failed && e.extra.err.Code == codes.PermissionDenied:
		return f, false // access was withdrawn
	case r == nil && !exists, r != nil && exists && u.same(e.res, r):
		return f, false
	}
	if f.Name = key; exists {
		f.Name, f.Resource = e.Name(), e.res
	}
	if r == nil {
		t.dropAliases(key, u.received)
		t.become(e, content{state: Absent}, said, u.received)
		return f, true
	}
	if e == nil && t.collectionOf(key, nil) == nil {
		return f, false // nobody wants it
	}
	u.resource(t, key, r.Confirmed())
	return f, true
}
