package delivery

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// survey adds what is due in one store. It records for each type up to which change all later
// types of this store were sent and acknowledged (progress.later).
func (s *schedule) survey(c *Place) {
	later, below := c.store.Revision(), c.store.Revision() // of later ranks than this one, and of this one too
	for i, w := range slices.Backward(c.types) {
		if i+1 == len(c.types) || c.types[i+1].rank != w.rank {
			later = below
		}
		acks := s.Acks(w.typeURL)
		w.beginPass()
		c.format.skip(w)
		if w.again != nil {
			w.again.offerAll(s.now())
		}
		renew := s.renewDue(w)
		adds, removes := w.additionsDue(), w.removalsDue()
		w.found.removing, w.found.changed = removes, adds || removes
		w.found.news = w.list.full && (w.list.relist || adds || removes)
		w.list.relist = w.list.relist || (renew && w.list.full && acks != Awaited)
		adds = adds || w.list.relist
		w.found.pending = adds || removes || renew
		if !adds && (w.rank.Waits() || !removes) {
			w.progress.sent = c.store.Revision()
		}
		if acks == Acknowledged {
			w.progress.settled = w.progress.sent
		}
		below = min(below, w.progress.settled)
		w.progress.later = later
		d := s.entry(w)
		d.places++
		d.acks = max(d.acks, acks)
		d.adds = d.adds || adds
		d.heartbeats = d.heartbeats || (renew && !w.list.full)
		d.again = d.again || w.again.due()
		d.known = d.known || !w.lacksAll()
		incomplete := s.incomplete(w)
		if incomplete {
			d.incomplete, d.settles = true, d.settles || w.subs.settles()
		}
		unknown := w.rank == xds.RankCluster && w.progress.shown && s.WarmWait > 0 && !w.subs.anyKnown()
		d.unknown = d.unknown || unknown
		if incomplete || unknown {
			d.since = notify.Earlier(d.since, w.list.begun)
		}
		d.removes = d.removes || (removes && !w.removalsWait)
		d.gated = d.gated || removes && w.removalsWait && !w.rank.Waits()
	}
}

// beginPass records what the client was sent before this Collect.
func (w *typeSub) beginPass() {
	w.progress.before = w.progress.responses
	for f := range w.subs.each() {
		f.sentBefore = max(f.sentBefore, f.Sent())
	}
}

// arm records that the client has collected. The next change rings for it, except for types
// with something left that wait for an acknowledgement.
func (s *schedule) arm(c *Place) {
	c.bell.Arm()
	c.held = false
	for _, w := range c.types {
		left := w.list.relist || w.again.due() || ((w.found.pending || !s.atOnce) && (w.additionsDue() || w.removalsDue() || w.heartbeatsDue()))
		w.bell.Arm(left && s.Acks(w.typeURL) == Awaited)
		c.held = c.held || left
		s.offerLater(w.again)
		if !w.bell.Rung() {
			w.subs.wait()
		}
	}
}

// offerLater records when something is offered again.
func (s *schedule) offerLater(a *rejections) {
	if a == nil {
		return
	}
	for _, r := range a.waiting {
		if r.due && !r.out {
			s.later(r.next)
		}
	}
	if a.list != nil && a.list.due && !a.list.out {
		s.later(a.list.next)
	}
}

// Held reports whether the last Collect left something that waits for an acknowledgement or for
// its time.
func (c *Place) Held() bool { return c.held }

func (w *typeSub) additionsDue() bool {
	return w.changed.errors.any() ||
		w.changed.has(func(n *nameSub) bool { return !n.heartbeat && !n.takesAway() }) ||
		w.subs.hasFollower((*follower).addsDue) || w.answers.due(&w.subs, false)
}

func (w *typeSub) removalsDue() bool {
	return w.answers.due(&w.subs, true) || w.changed.has((*nameSub).takesAway) ||
		w.subs.hasFollower(func(f *follower) bool { return f.removalsDue() || f.errorDue(anyNumber) })
}
