package cache

import (
	"cmp"
	"iter"
	"maps"
	"slices"
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
	keys, out := make(map[string]map[string]bool), make([][]*Batch, len(clients))
	for _, i := range wildcardsLast(clients) {
		c := clients[i]
		p := &pass{size: size, left: parts, keys: keys}
		c.store.mu.RLock()
		left := c.take(p, s, seen[i])
		c.rest(busy)
		c.store.mu.RUnlock()
		c.regain()
		more = more || left
		out[i] = p.out
	}
	batches = slices.Concat(out...)
	slices.SortStableFunc(batches, func(a, b *Batch) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.TypeURL, b.TypeURL))
	})
	return join(batches, s, clients), more
}

// wildcardsLast orders the places in stores: one that follows "*" comes after those with
// names, since it lists what they do not (watch.elsewhere).
func wildcardsLast(clients []*Client) []int {
	var order, last []int
	for i, c := range clients {
		if slices.ContainsFunc(c.watches, func(w *watch) bool { return w.wildcard != nil }) {
			last = append(last, i)
		} else {
			order = append(order, i)
		}
	}
	return append(order, last...)
}

// collectState is CollectStates for one store.
func (c *Client) collectState(busy func(typeURL string) bool, size, parts int) ([]*Batch, bool) {
	defer c.regain()
	c.store.mu.RLock()
	defer c.store.mu.RUnlock()
	defer c.rest(busy)
	s := c.survey(make(survey, 0, len(c.watches)), busy)
	s.plan(busy)
	p := &pass{size: size, left: parts}
	left := c.take(p, s, c.store.seq)
	return p.out, left
}

// take carries out the plan in one store, which was looked at when its last change
// had the number seen. It reports whether something is left that could be sent.
func (c *Client) take(p *pass, s survey, seen uint64) (more bool) {
	for _, w := range c.watches {
		d := s.of(w.typeURL)
		if w.stays() {
			continue
		}
		switch d.take {
		case takeNothing:
			if !d.adds && w.listDue() {
				return true // new since the survey: no later type may overtake it
			}
			if d.beats {
				p.heartbeats(w)
			}
		case takeChanges:
			w.forgo() // what became due since the survey
			if d.beats {
				p.heartbeats(w)
			}
			p.additions(w)
			p.stateFailures(w, w.upTo(d, seen))
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

// forgo passes over what a state-of-the-world client is not told. Where responses
// need not be complete there is no word for a removal (RES-3) but an error, nor for a name
// or a glob that holds nothing; else it is what came and went between two lists.
func (w *watch) forgo() {
	for f := range w.cursors() {
		f.forgo(w)
	}
	if w.full {
		return
	}
	w.dirty = slices.DeleteFunc(w.dirty, func(sub *nameSub) bool {
		if !sub.ended && (sub.entry.there() || sub.entry.state == failed) {
			return false
		}
		if !sub.ended && sub.holds && sub.was == nil {
			sub.was = forgone
		}
		sub.dirty, sub.pushed, sub.holds, sub.denied = false, false, false, false
		w.taken(sub)
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
	f.passFailures()
	if w.full && w.client.form.TTL {
		f.judge()
	}
	for e := c.tombs.after(f.removed, f.tomb, c); e != nil; e = e.next {
		if w.full && f.mayHave(e) && !f.byName(e.key) && !f.drops(e) { // TTL-2
			break
		}
		f.lost = f.lost || (!w.full && f.mayHave(e))
		f.since++
		f.removed, f.tomb = e.changed, e
		f.taken(e)
	}
	if w.full {
		return
	}
	if f.behind() {
		f.takenGone()
	}
	f.removed, f.versions = max(f.removed, c.floor), nil
	if !c.wildcard() && c.knownEmpty() {
		f.told = true
	}
}
