package cache

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
)

// CollectStates is Collect for a stream of the state-of-the-world form with places
// in any number of stores. A list of a full-state type holds the parts of all of
// them (RES-2): if it is due in one, the others give their part too.
//
// Each store is looked at twice, first to see what is due, then to take it; no two
// locks are held together. What a store learned in between waits for the next call
// where it would otherwise overtake something. With one store both happen under
// one lock: all types are seen at one point of the upstream's sequence (ADS-3).
func CollectStates(clients []*Client, busy func(typeURL string) bool, size, parts int) (batches []*Batch, more bool) {
	if len(clients) == 1 {
		return clients[0].collectState(busy, size, parts)
	}
	var s survey
	seen := make([]uint64, len(clients))
	for i, c := range clients {
		c.store.mu.RLock()
		s, seen[i] = c.survey(s, busy), c.store.seq
		c.store.mu.RUnlock()
	}
	s.hold(busy)
	s.plan(busy)
	for i, c := range clients {
		p := &pass{size: size, left: parts}
		c.store.mu.RLock()
		left := c.take(p, s, seen[i])
		c.rest(busy)
		c.store.mu.RUnlock()
		more = more || left
		batches = append(batches, p.out...)
	}
	slices.SortStableFunc(batches, func(a, b *Batch) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.TypeURL, b.TypeURL))
	})
	return join(batches, s, clients), more
}

// collectState is CollectStates for one store.
func (c *Client) collectState(busy func(typeURL string) bool, size, parts int) ([]*Batch, bool) {
	c.store.mu.RLock()
	defer c.store.mu.RUnlock()
	defer c.rest(busy)
	s := c.survey(make(survey, 0, len(c.watches)), busy)
	s.plan(busy)
	p := &pass{size: size, left: parts}
	left := c.take(p, s, c.store.seq)
	return p.out, left
}

// due is what a stream has to be sent of one type.
type due struct {
	typeURL string
	rank    Rank
	full    bool // a full-state type
	watches int  // stores where it is subscribed to
	adds    bool // there is more than removals
	removes bool
	waits   bool // the list is not complete yet, and the client holds one (RES-2)
	held    bool // what was removed must still be listed, whatever its number
	take    take
}

// take is what a pass does with a type.
type take uint8

const (
	takeNothing take = iota
	takeChanges      // of a type whose responses need not be complete
	takeList         // the whole list
)

// survey is what is due, in the order in which types are sent.
type survey []due

// survey adds what is due in one store. What was removed of a type may go out once
// every later type was sent everything up to then, and acknowledged it: then nothing
// that the client has refers to it any more (ADS-1).
func (c *Client) survey(s survey, busy func(typeURL string) bool) survey {
	bound, next := c.store.seq, c.store.seq // for this rank, and for those before it
	for i, w := range slices.Backward(c.watches) {
		if i+1 == len(c.watches) || c.watches[i+1].rank != w.rank {
			bound = next
		}
		w.forgo()
		w.settle(busy(w.typeURL))
		next = min(next, w.settled)
		w.bound = c.store.seq
		if w.rank.waits() {
			w.bound = bound
		}
		at, found := slices.BinarySearchFunc(s, w, func(d due, w *watch) int {
			return cmp.Or(cmp.Compare(d.rank, w.rank), cmp.Compare(d.typeURL, w.typeURL))
		})
		if !found {
			s = slices.Insert(s, at, due{typeURL: w.typeURL, rank: w.rank, full: w.full})
		}
		d := &s[at]
		d.watches++
		d.adds = d.adds || w.listDue()
		d.removes = d.removes || w.removesUpTo(w.bound)
		d.waits = d.waits || w.incomplete()
	}
	return s
}

// plan decides what is taken now. Types wait for their acknowledgement, unless a
// later one must not overtake their additions (ADS-2). A list that is not complete
// yet holds back all later types: they may need what is in it.
func (s survey) plan(busy func(typeURL string) bool) {
	limit := RankOther
	for _, d := range slices.Backward(s) { // the first one counts
		if d.waits && d.adds {
			limit = d.rank
		}
	}
	last := Rank(-1)
	for _, d := range s {
		if d.rank <= limit && !d.waits && !busy(d.typeURL) && (d.adds || (d.removes && !d.held)) {
			last = d.rank
		}
	}
	for i := range s {
		d := &s[i]
		forced := busy(d.typeURL)
		switch {
		case d.rank > limit, d.waits, forced && d.rank >= last:
		case !d.full && d.adds:
			d.take = takeChanges
		case d.full && (d.adds || (d.removes && !forced && !d.held)):
			d.take = takeList
		}
	}
}

// hold notes which types must go on listing what was removed because of other
// stores: numbers of different stores do not compare, so that all later types must
// have nothing to be sent and owe no acknowledgement (ADS-1).
func (s survey) hold(busy func(typeURL string) bool) {
	for i := range s {
		for _, l := range s[i+1:] {
			if s[i].rank.waits() && l.rank > s[i].rank && (l.adds || (l.removes && !l.rank.waits()) || busy(l.typeURL)) {
				s[i].held = true
			}
		}
	}
}

// settle notes up to which change the client was sent everything, and acknowledged
// it.
func (w *watch) settle(busy bool) {
	if !w.listDue() && !w.removalsDue() {
		w.sent = w.client.store.seq
	}
	if !busy {
		w.settled = w.sent
	}
}

// removesUpTo reports whether something is due that was removed up to a number.
func (w *watch) removesUpTo(bound uint64) bool {
	if !w.removalsDue() {
		return false
	}
	for _, sub := range w.dirty {
		if !sub.ended && sub.takesAway() && sub.entry.changed <= bound {
			return true
		}
	}
	for f := range w.cursors() {
		// What the client never held was passed over (forgo).
		if e := f.coll.tombs.after(f.removed, f.tomb, f.coll); (e != nil && e.changed <= bound) ||
			(f.behind() && f.coll.floor <= bound) || f.leftoverDue() {
			return true
		}
	}
	for _, n := range w.answers {
		if e, known := w.lookup(n); known && e == nil {
			return true
		}
	}
	return false
}

// of finds a type.
func (s survey) of(typeURL string) *due {
	for i := range s {
		if s[i].typeURL == typeURL {
			return &s[i]
		}
	}
	return nil
}

// take carries out the plan in one store, which was looked at when its last change
// had the number seen. It reports whether something is left that could be sent.
func (c *Client) take(p *pass, s survey, seen uint64) (more bool) {
	for _, w := range c.watches {
		d := s.of(w.typeURL)
		switch d.take {
		case takeNothing:
			if !d.adds && w.listDue() {
				return true // new since the survey: no later type may overtake it
			}
		case takeChanges:
			p.additions(w)
		case takeList:
			p.list(w, d, w.upTo(d, seen))
		}
		if p.full {
			return true
		}
		if d.take != takeNothing {
			w.sent = c.store.seq
		}
	}
	return false
}

// upTo is up to which change a list leaves out what was removed. What was removed
// after the survey stays: what refers to it may not have been seen either.
func (w *watch) upTo(d *due, seen uint64) uint64 {
	if d.held {
		return 0
	}
	return min(seen, w.bound)
}

// join makes one list of the parts of several stores. Where a part is missing,
// since its store has come by something that must go first, all are taken again.
func join(batches []*Batch, s survey, clients []*Client) []*Batch {
	var all []*Batch
	for len(batches) > 0 {
		b := batches[0]
		d := s.of(b.TypeURL)
		if !d.full || d.watches == 1 {
			all, batches = append(all, b), batches[1:]
			continue
		}
		n := 1
		for n < len(batches) && batches[n].TypeURL == b.TypeURL {
			n++
		}
		if n == d.watches {
			all = append(all, joined(batches[:n]))
		} else {
			relist(clients, b.TypeURL)
		}
		batches = batches[n:]
	}
	return all
}

func joined(parts []*Batch) *Batch {
	b := parts[0]
	versions := []string{b.SystemVersion}
	for _, o := range parts[1:] {
		b.Body.Join(&o.Body)
		b.Merged += o.Merged
		if b.Last == 0 {
			b.Store, b.Last = o.Store, o.Last
		}
		versions = append(versions, o.SystemVersion)
		if b.Received.IsZero() || (!o.Received.IsZero() && o.Received.Before(b.Received)) {
			b.Received = o.Received
		}
	}
	b.SystemVersion = joinVersions(versions)
	return b
}

// relist has a list sent again.
func relist(clients []*Client, typeURL string) {
	for _, c := range clients {
		if w := c.find(typeURL); w != nil {
			c.store.mu.RLock()
			w.relist, w.sent = true, 0
			c.store.mu.RUnlock()
		}
	}
}

// cursors are all of a watch.
func (w *watch) cursors() iter.Seq[*cursor] {
	return func(yield func(*cursor) bool) {
		if len(w.globs) > 0 {
			for _, spelling := range slices.Sorted(maps.Keys(w.globs)) {
				if !yield(w.globs[spelling]) {
					return
				}
			}
		}
		if w.wildcard != nil {
			yield(w.wildcard)
		}
	}
}

// listDue reports whether there is something to be sent beside removals.
func (w *watch) listDue() bool { return w.relist || w.additionsDue() }

// incomplete reports whether a list would take from a client what it holds and
// nobody knows of yet: it showed a version when its stream began (RES-2).
func (w *watch) incomplete() bool {
	if !w.full || w.presented == "" || w.listed {
		return false
	}
	for f := range w.cursors() {
		if !f.coll.synced {
			return true
		}
	}
	for _, sub := range w.names {
		if sub.entry.unanswered() {
			return true
		}
	}
	return false
}

// unanswered reports whether nobody knows yet what became of a name. An error that
// does not mean that there is no such resource leaves that open (ERR-1).
func (e *entry) unanswered() bool {
	return e.state == unknown ||
		(e.state == failed && e.err.Code != codes.NotFound && e.err.Code != codes.PermissionDenied)
}

// forgo passes over what a state-of-the-world client is not told. Where responses
// need not be complete there is no word for a removal (RES-3), nor for a name or a
// glob that holds nothing; else it is what came and went between two lists.
func (w *watch) forgo() {
	for f := range w.cursors() {
		f.forgo(w)
	}
	if w.full {
		return
	}
	w.dirty = slices.DeleteFunc(w.dirty, func(sub *nameSub) bool {
		if !sub.ended && sub.entry.state == present {
			return false
		}
		sub.dirty, sub.pushed, sub.holds = false, false, false
		return true
	})
	w.ended = 0
	for key, n := range w.answers {
		if e, known := w.lookup(n); known && e == nil {
			w.answered(key)
		}
	}
}

func (f *cursor) forgo(w *watch) {
	c := f.coll
	for e := c.tombs.after(f.removed, f.tomb, c); e != nil; e = e.next {
		if w.full && f.mayHave(e) && !w.named(e.key) {
			break
		}
		f.since++
		f.removed, f.tomb = e.changed, e
	}
	if w.full {
		return
	}
	f.removed, f.versions = max(f.removed, c.floor), nil
	if !c.wildcard() && c.knownEmpty() {
		f.told = true
	}
}
