package cache

import (
	"cmp"
	"slices"
)

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
	moves   bool // no list of a new scope was sent: types that stay wait for it, and no others
	stays   bool // its list is that of another scope, and waits for an earlier type
	take    take
	beats   bool // heartbeats may go out
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
	c.conclude()
	bound, next := c.store.seq, c.store.seq // for this rank, and for those before it
	for i, w := range slices.Backward(c.watches) {
		if i+1 == len(c.watches) || c.watches[i+1].rank != w.rank {
			bound = next
		}
		w.forgo()
		if !busy(w.typeURL) {
			w.tooLate()
		}
		w.settle(busy(w.typeURL))
		next = min(next, w.settled)
		w.bound = c.store.seq
		switch {
		case !w.buries():
			w.bound = 0 // what is of another scope may refer to anything
		case w.rank.waits():
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
		d.waits = d.waits || w.incomplete()
		d.moves = d.moves || w.moving
		if w.stays() {
			d.stays = d.stays || w.full
			continue
		}
		d.adds = d.adds || w.listDue()
		d.removes = d.removes || w.removesUpTo(w.bound)
	}
	return s
}

// plan decides what is taken now. Types wait for their acknowledgement, unless a
// later one must not overtake their additions (ADS-2). A list that is not complete
// yet holds back all later types: they may need what is in it.
func (s survey) plan(busy func(typeURL string) bool) {
	limit := RankOther
	for _, d := range slices.Backward(s) { // the first one counts
		if d.waits && d.adds && !d.moves {
			limit = d.rank
		}
	}
	last := Rank(-1)
	for _, d := range s {
		if d.rank <= limit && !d.waits && !d.stays && !busy(d.typeURL) && (d.adds || (d.removes && !d.held)) {
			last = d.rank
		}
	}
	for i := range s {
		d := &s[i]
		forced := busy(d.typeURL)
		switch {
		case d.rank > limit, d.waits, d.stays, forced && d.rank >= last:
		case !d.full && d.adds:
			d.take = takeChanges
		case d.full && (d.adds || (d.removes && !forced && !d.held)):
			d.take = takeList
		case !d.full && d.removes && !forced && !d.held: // with an error, the one word there is (ERR-1)
			d.take = takeChanges
		}
		d.beats = !forced
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
		if !sub.ended && sub.takesAway() && !sub.gated() && sub.entry.changed <= bound {
			return true
		}
	}
	if w.failuresDue(bound) {
		return true
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

// listDue reports whether there is something to be sent beside removals.
func (w *watch) listDue() bool { return w.relist || w.additionsDue() }

// incomplete reports whether a list would take from a client what it holds and
// nobody knows of yet: it showed a version when its stream began (RES-2).
func (w *watch) incomplete() bool {
	return w.full && w.presented != "" && !w.listed && !(w.known() && w.allListed())
}

// known reports whether every name is answered and every collection synced, or was given
// its time. Of a client that is moved no silence takes the list that it has.
func (w *watch) known() bool {
	for f := range w.cursors() {
		if f.coll.awaited() || (w.moving && !f.coll.synced) {
			return false
		}
	}
	for sub := range w.names.all() {
		if sub.entry.unanswered() {
			return false
		}
	}
	return true
}

// allListed reports whether a list would lack nothing because it was not kept (TTL-5).
func (w *watch) allListed() bool {
	for f := range w.cursors() {
		if f.coll.unlisted() {
			return false
		}
	}
	for sub := range w.names.all() {
		if e := sub.entry; e.state == relayed && e.listed() == nil {
			return false
		}
	}
	return true
}

// unanswered reports whether word of what became of a name may still come soon. An
// error that leaves it open is waited out like silence: no longer than the clock runs
// (RES-7, ERR-1).
func (e *entry) unanswered() bool { return e.open() && !e.overdue }
