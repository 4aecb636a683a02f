package cache

import (
	"slices"
	"time"
)

// survey adds what is due in one store. It notes for each watch up to which change all
// later types of this store were sent and acknowledged (watch.later).
func (c *Client) survey(s schedule, q *question) schedule {
	later, below := c.store.seq, c.store.seq // of later ranks than this one, and of this one too
	for i, w := range slices.Backward(c.watches) {
		if i+1 == len(c.watches) || c.watches[i+1].rank != w.rank {
			later = below
		}
		acks := q.Acks(w.typeURL)
		w.beginPass()
		if q.state {
			w.skipUntold()
		} else {
			w.skipUnknown()
		}
		renew := w.renewDue(q)
		adds, removes := w.additionsDue(), w.removalsDue()
		w.removing = removes
		w.news = w.full && (w.relist || adds || removes)
		w.relist = w.relist || (renew && w.full && acks != Awaited)
		adds = adds || w.relist
		w.pending = adds || removes || renew
		if !adds && (w.rank.waits() || !removes) {
			w.sent = c.store.seq
		}
		if acks == Acknowledged {
			w.settled = w.sent
		}
		below = min(below, w.settled)
		w.later = later
		var d *typeDue
		s, d = s.entry(w)
		d.places++
		d.acks = max(d.acks, acks)
		d.adds = d.adds || adds
		d.heartbeats = d.heartbeats || (renew && !w.full)
		d.again = d.again || w.againDue()
		d.known = d.known || !w.lacksAll()
		if w.incomplete(q) {
			d.incomplete = true
			if d.since.IsZero() || w.begun.Before(d.since) {
				d.since = w.begun
			}
		}
		d.removes = d.removes || (removes && !w.rank.waits())
	}
	return s
}

// beginPass notes what the client was sent before the pass.
func (w *watch) beginPass() {
	w.before = w.responses
	for f := range w.each() {
		f.reached = max(f.reached, f.sent)
	}
}

// skipUnknown advances past removals of members that the client never had: there is nothing
// to tell, and nothing to wait for.
func (w *watch) skipUnknown() {
	for f := range w.each() {
		f.skipUnknown()
	}
}

func (f *cursor) skipUnknown() {
	for e := f.coll.tombs.after(f.removed, f.tomb, f.coll); e != nil; e = e.next {
		if _, owed := f.watch.answers[e.key]; owed || f.mayHave(e) || f.versions.has(e.key) {
			return
		}
		f.handedOver.drop(e)
		f.removed, f.tomb = e.changed, e
	}
}

// incomplete reports whether a list would take from a client what it holds and the relay
// does not know yet (lacksHeld). That ends when the client has waited for so long that its
// control plane must be out of reach (ABS-3).
func (w *watch) incomplete(q *question) bool {
	if !w.lacksHeld() {
		return false
	}
	end := w.begun.Add(q.ListHold)
	if !q.now().Before(end) {
		return false
	}
	q.later(end)
	return true
}

// lacksHeld reports whether the client's first list would lack what it may hold: it showed a
// version when its stream began (RES-2).
func (w *watch) lacksHeld() bool {
	return w.awaitsList() && w.presented != "" && !(w.known() && w.allListed())
}

// lacksAll reports whether nothing is known of what the client's first list is to have: it
// would delete everything (ABS-3).
func (w *watch) lacksAll() bool { return w.awaitsList() && !w.anyKnown() }

// awaitsList reports whether the client is sent whole lists, and has had none.
func (w *watch) awaitsList() bool { return w.full && !w.listed }

// anyKnown reports whether anything is known of what the client subscribes to: a resource,
// or that there is none.
func (w *watch) anyKnown() bool {
	for f := range w.cursors() {
		if f.coll.synced || f.coll.live.len > 0 || f.coll.knownEmpty() {
			return true
		}
	}
	for sub := range w.names.all() {
		if !sub.entry.open() {
			return true
		}
	}
	return w.names.len() == 0 && w.wildcard == nil && len(w.globs) == 0
}

// known reports whether every name is answered and every collection synced, or was given
// its time.
func (w *watch) known() bool {
	for f := range w.cursors() {
		if f.coll.awaited() {
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
		if f.coll.lacksInLists() {
			return false
		}
	}
	for sub := range w.names.all() {
		if e := sub.entry; e.state == transient && e.listed() == nil {
			return false
		}
	}
	return true
}

// unanswered reports whether word of what became of a name may still come soon. An
// error that leaves it open is waited out like silence: no longer than the clock runs
// (RES-7, ERR-1).
func (e *entry) unanswered() bool { return e.open() && !e.overdue }

// removesUpTo reports whether something is due that was removed up to a number, of a watch of
// which removals are due.
func (w *watch) removesUpTo(bound uint64) bool {
	for _, n := range w.answers {
		if e, known := w.lookup(n); known && e == nil {
			return true
		}
	}
	for _, sub := range w.dirty {
		if !sub.ended && sub.takesAway() && sub.entry.changed <= bound {
			return true
		}
	}
	if w.collectionErrorDue(bound) {
		return true
	}
	for f := range w.cursors() {
		if e := f.coll.tombs.after(f.removed, f.tomb, f.coll); (e != nil && e.changed <= bound) ||
			(f.behind() && f.coll.floor <= bound) || (f.claimsDue() && w.claimsGo()) {
			return true
		}
	}
	return false
}

// claimsGo reports whether the client may be told now what it said it holds and does not
// exist.
func (w *watch) claimsGo() bool { return !w.rank.waits() || (w.gate != nil && w.gate.claims) }

// A gate keeps removals of clusters and endpoints back, so that what came with them goes
// first (ADS-1, ADS-4): until their time is over, and then until everything of later types
// that had come by that time was sent and acknowledged.
type gate struct {
	upTo   uint64 // removals up to this number have waited for their time
	passed uint64 // removals up to this number may go
	// claims: what the client said it holds and does not exist may go. claimed is since when
	// that is known; it waits for its time as a removal does.
	claims  bool
	claimed time.Time

	shut  bool      // some have waited for their time, and wait for later types
	mark  uint64    // the last change when they had
	since time.Time // when that was
}

// openGates lets removals go whose time has come, and notes in the schedule which do.
func (c *Client) openGates(s schedule, q *question) {
	for _, w := range c.watches {
		if !w.rank.waits() {
			continue
		}
		if !w.removing {
			w.gate = nil
			continue
		}
		if w.gate == nil {
			w.gate = new(gate)
		}
		if c.reads() {
			*w.gate = gate{passed: anyNumber, claims: true}
		} else {
			w.openGate(s, q)
		}
		if w.removesUpTo(w.gate.passed) {
			s.of(w.typeURL).removes = true
		}
	}
}

func (w *watch) openGate(s schedule, q *question) {
	g := w.gate
	if g.claimed.IsZero() && w.claimsDue() {
		g.claimed = q.now()
	}
	if !g.shut {
		w.ripen(q)
	}
	if !g.shut {
		return
	}
	if end := g.since.Add(acceptWait); (w.later < g.mark || !w.othersQuiet(s)) && q.now().Before(end) {
		q.later(end)
		return
	}
	g.passed, g.shut = g.upTo, false
	g.claims = g.claims || (!g.claimed.IsZero() && !q.now().Before(g.claimed.Add(q.RemovalWait)))
}

// ripen looks which removals have waited for their time.
func (w *watch) ripen(q *question) {
	g := w.gate
	ripe := func(at time.Time) bool {
		end := at.Add(q.RemovalWait)
		if q.RemovalWait > 0 && q.now().Before(end) {
			q.later(end)
			return false
		}
		return true
	}
	upTo := g.upTo
	for _, sub := range w.dirty {
		if e := sub.entry; !sub.ended && sub.takesAway() && e.changed > g.upTo && ripe(time.Unix(0, e.received)) {
			upTo = max(upTo, e.changed)
		}
	}
	for f := range w.cursors() {
		if f.behind() {
			upTo = max(upTo, f.coll.floor)
		}
		for e := f.coll.tombs.after(max(f.removed, g.upTo), nil, f.coll); e != nil && ripe(time.Unix(0, e.received)); e = e.next {
			upTo = max(upTo, e.changed)
		}
	}
	claims := !g.claims && !g.claimed.IsZero() && ripe(g.claimed)
	if upTo > g.upTo || claims {
		g.upTo, g.shut, g.mark, g.since = upTo, true, w.client.store.seq, q.now()
	}
}

// claimsDue reports whether the client holds something that is known not to exist.
func (w *watch) claimsDue() bool {
	for f := range w.cursors() {
		if f.claimsDue() {
			return true
		}
	}
	return false
}

// othersQuiet reports whether the client has everything of later types in other stores, and
// acknowledged it: numbers of different stores do not compare.
func (w *watch) othersQuiet(s schedule) bool {
	for i := range s {
		d := &s[i]
		if d.rank <= w.rank || d.quiet() {
			continue
		}
		here := int16(0)
		if w.client.find(d.typeURL) != nil {
			here = 1
		}
		if d.places > here {
			return false
		}
	}
	return true
}

// removable is the number up to which removals of the type may go.
func (w *watch) removable() uint64 {
	switch {
	case !w.rank.waits():
		return anyNumber
	case w.gate == nil:
		return 0
	}
	return w.gate.passed
}
