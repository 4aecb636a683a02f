package delivery

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// acceptWait bounds how long a removal waits for the acknowledgements of what came with it
// (ADS-4).
const acceptWait = 5 * time.Second

// openGates lets the removals of one store go whose time has come, once all stores are surveyed.
func (s *schedule) openGates(c *Place) {
	for _, w := range c.types {
		if !w.removalsWait {
			continue
		}
		if !w.found.removing {
			w.progress.gate = nil
			continue
		}
		if w.progress.gate == nil {
			w.progress.gate = new(gate)
		}
		if c.reads() {
			*w.progress.gate = gate{passed: anyNumber, held: true}
		} else {
			s.openGate(w)
		}
		if w.progress.gate.lets(w) {
			s.of(w.typeURL).removes = true
		}
	}
}

func (s *schedule) openGate(w *typeSub) {
	g := w.progress.gate
	if g.heldSince.IsZero() && w.subs.heldDue() {
		g.heldSince = s.now()
	}
	if !g.shut {
		s.ripen(w)
	}
	if !g.shut {
		return
	}
	if end := g.since.Add(acceptWait); (w.awaited() < g.mark || !s.othersQuiet(w)) && s.now().Before(end) {
		s.later(end)
		return
	}
	g.passed, g.shut = g.upTo, false
	g.held = g.held || (!g.heldSince.IsZero() && !s.now().Before(g.heldSince.Add(s.RemovalWait)))
}

// ripen finds the removals that have waited for their time.
func (s *schedule) ripen(w *typeSub) {
	g := w.progress.gate
	upTo := g.upTo
	for _, sub := range w.changed.names {
		if e := sub.entry; !sub.ended && sub.takesAway() && !sub.goesAtOnce() && e.Changed() > g.upTo && s.ripe(e.ReceivedAt()) {
			upTo = max(upTo, e.Changed())
		}
	}
	for f := range w.subs.cursors() {
		if f.Behind() {
			upTo = max(upTo, f.Collection().Floor())
		}
		for e := f.Collection().RemovedAfter(max(f.Removed(), g.upTo)); e != nil && s.ripe(e.ReceivedAt()); e = e.Next() {
			upTo = max(upTo, e.Changed())
		}
	}
	claims := !g.held && !g.heldSince.IsZero() && s.ripe(g.heldSince)
	if upTo > g.upTo || claims {
		g.upTo, g.shut, g.mark, g.since = upTo, true, w.place.store.Revision(), s.now()
	}
}

// ripe reports whether what became due to be removed at a time has waited for its own time.
func (s *schedule) ripe(at time.Time) bool {
	end := at.Add(s.RemovalWait)
	if s.Apart != nil {
		end = notify.Later(end, s.Apart.Removals)
	}
	if s.RemovalWait > 0 && s.now().Before(end) {
		s.later(end)
		return false
	}
	return true
}

// waitsFor reports whether removals of the type wait until the client has what is new of types of a rank: those
// of clusters and endpoints wait for all that comes later, and those of other types that resources refer to for all
// that comes earlier and may refer to them.
func (w *typeSub) waitsFor(r xds.Rank) bool {
	if w.rank.Waits() {
		return r > w.rank
	}
	return r < w.rank && r != xds.RankEndpoint
}

// awaited is up to which change the client was sent everything of the types of this store that removals wait for, and
// acknowledged it.
func (w *typeSub) awaited() uint64 {
	if w.rank.Waits() {
		return w.progress.later
	}
	all := uint64(anyNumber)
	for _, o := range w.place.types {
		if w.waitsFor(o.rank) {
			all = min(all, o.progress.settled)
		}
	}
	return all
}

// othersQuiet reports whether the client has everything of the types that removals wait for in other stores, and
// acknowledged it: numbers of different stores do not compare.
func (s *schedule) othersQuiet(w *typeSub) bool {
	types := s.types()
	for i := range types {
		d := &types[i]
		if !w.waitsFor(d.rank) || d.quiet() {
			continue
		}
		here := int16(0)
		if w.place.find(d.typeURL) != nil {
			here = 1
		}
		if d.places > here {
			return false
		}
	}
	return true
}

// lets reports whether a removal is due that may go.
func (g *gate) lets(w *typeSub) bool {
	return w.answers.due(&w.subs, true) || w.subs.collectionErrorDue(g.passed) ||
		w.changed.has(func(n *nameSub) bool { return n.takesAway() && (n.entry.Changed() <= g.passed || n.goesAtOnce()) }) ||
		w.subs.hasFollower(func(f *follower) bool {
			e := f.NextRemoval()
			return (e != nil && e.Changed() <= g.passed) || (f.Behind() && f.Collection().Floor() <= g.passed) ||
				(g.held && f.heldDue())
		})
}

// removable returns the number up to which removals of the type may go.
func (p *progress) removable(waits bool) uint64 {
	switch {
	case !waits:
		return anyNumber
	case p.gate == nil:
		return 0
	}
	return p.gate.passed
}

// heldMayGo reports whether the client may be told now that what it said it holds does not
// exist.
func (p *progress) heldMayGo(waits bool) bool { return !waits || (p.gate != nil && p.gate.held) }
