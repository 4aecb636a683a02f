package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"google.golang.org/grpc/codes"
)

// The guard looks at what a response takes away before it is applied (SUR-3). Losses are counted
// for a table, in one response and in a short time, and for each glob in one response. What the
// response brings instead counts against them. While a loss is held, further losses of the same
// table or glob belong to it.

// assigns reports whether resources of a type are assignments of endpoints.
func assigns(typeURL string) bool {
	known := xds.Find(typeURL)
	return known != nil && known.URL == xds.EndpointType
}

// guard is the guard of a table, nil if its losses pass. Behind a relay they do: that one has held
// them.
func (t *Table) guard() *hold.Guard {
	g := &t.store.source.Guard
	if !g.On() || t.typeURL == xds.LbEndpointType || (g.Passes != nil && g.Passes(t.typeURL)) {
		return nil
	}
	if !g.BehindRelays && t.behindRelay() {
		return nil
	}
	return g
}

// loss is what a response takes from a table and what it brings.
type loss struct {
	lost, gained int
	of           map[*Collection]int // what it takes from each glob; nil for nothing
}

// add counts a resource that is taken.
func (l *loss) add(t *Table, e *Entry) {
	l.lost++
	if t.kind == ByName && e.Member() {
		if l.of == nil {
			l.of = make(map[*Collection]int)
		}
		l.of[e.coll]++
	}
}

// addKey counts what a name stands for that the server removes: a resource, or all members of a glob.
func (l *loss) addKey(t *Table, key string) {
	if c := t.colls[key]; c != nil && !c.Wildcard() {
		for e := c.log.live.head; e != nil; e = e.next {
			l.add(t, e)
		}
	} else if e := t.entries[key]; e != nil && e.Exists() {
		l.add(t, e)
	} else if len(t.aliases.of(key)) > 0 {
		l.lost++
	}
}

// judge has the guard look at a response.
func (u *update) judge(t *Table) {
	if u.resolved || u.restored || !t.store.source.Guard.On() {
		return
	}
	t.guardLoss(u.loss(t), u.received)
}

// loss is what a response takes and brings. What it brings counts only while something is lost.
func (u *update) loss(t *Table) (l loss) {
	if !u.response.State {
		for _, key := range u.removed {
			l.addKey(t, key)
		}
	} else if u.lists(t) && u.concludes() && !u.failing[Wildcard] {
		u.countMissing(t, &l)
	}
	for i, key := range u.failed {
		if u.response.Errors[i].Code == codes.NotFound {
			l.addKey(t, key)
		}
	}
	if assigns(t.typeURL) {
		u.countEmptied(t, &l)
	}
	if l.lost > 0 && !u.response.State || t.upstream.held != nil && t.upstream.held.window.Open(u.received) {
		u.countNew(t, &l)
	}
	return l
}

// countMissing counts how much shorter or longer a list of all members of "*" is than the one before.
func (u *update) countMissing(t *Table, l *loss) {
	c := t.colls[Wildcard]
	if c == nil {
		return
	}
	if n := c.log.live.len - len(t.excuses.entries) - (len(u.keys) - u.foreign); n > 0 {
		l.lost = n
	} else {
		l.gained = -n
	}
}

// countEmptied counts the assignments that lose their last endpoints.
func (u *update) countEmptied(t *Table, l *loss) {
	for i, r := range u.response.Resources {
		if u.keys[i] == badKey || !r.HasPayload() || r.HasEndpoints() {
			continue
		}
		if e := t.entries[u.keys[i]]; e != nil && t.empties(e, r) {
			l.add(t, e)
		}
	}
}

// countNew counts the resources that there were not before. Of a list of all members countMissing
// has counted them.
func (u *update) countNew(t *Table, l *loss) {
	if u.response.State && t.kind == WholeType && u.lists(t) {
		return
	}
	for i, key := range u.keys {
		if key == badKey || !u.response.Resources[i].HasPayload() {
			continue
		}
		e := t.entries[key]
		if (e == nil && t.collectionOf(key, nil) != nil) || (e != nil && !e.Exists()) {
			l.gained++
		}
	}
}

// guardLoss has a loss held that is about to be applied, if it is large enough: of the table, or of
// one of its globs.
func (t *Table) guardLoss(l loss, now time.Time) {
	h, s := t.upstream.held, t.store
	if h.frozen() || l.lost == 0 && (h == nil || !h.window.Open(now)) {
		return
	}
	g := t.guard()
	if g == nil {
		return
	}
	if h == nil {
		h = new(heldBack)
		t.upstream.held = h
	}
	of := t.released()
	lost, before := h.window.Add(l.lost, l.gained, of, now, t.upstream.begun.Add(s.source.longQuiet()))
	trips, span := false, g.Hold
	switch at := l.lost - l.gained; {
	case h.all:
	case g.Trips(at, of):
		h.all, h.of, trips = true, of, true
	case s.due.held.clock.Lately(now) && g.Most(at, of):
		h.all, h.of, trips, span = true, of, true, s.due.held.clock.For()
	case g.Trips(lost, before):
		h.all, h.of, trips = true, before, true
	case g.Small > 0 && t.leads() && s.emptied(now).both():
		h.all, h.of, trips, span = true, before, true, g.Small
	default:
		for c, n := range l.of {
			if _, held := h.colls[c]; !held && g.Trips(n, c.log.live.len) {
				h.colls, h.of, trips = with(h.colls, c), c.log.live.len, true
			}
		}
	}
	switch {
	case trips:
		s.due.held.tables = with(s.due.held.tables, t)
		s.due.held.clock.Hold(now, span)
	case t.awaitsOthers(g, l.lost-l.gained, of, now):
		h.all, h.of = true, of
		s.due.held.tables = with(s.due.held.tables, t)
		s.due.held.clock.Wait(now, notify.Later(now.Add(s.source.Quiet), t.upstream.othersCome(&s.source)))
	case l.lost > 0 && !h.active() && before >= fewest && h.emptied(now) > 0 && t.leads():
		s.changes.held = append(s.changes.held, Held{Upstream: s.source.Upstream, TypeURL: t.typeURL, Lost: before, Of: before, Ended: EndedAlone})
	}
}

// awaitsOthers reports whether a loss waits for those of other types, of which there is one that could
// be held. A control plane that is empty says so of one type after the other, on several streams in any
// order, and clients that lose their one Listener lose everything. One assignment of endpoints waits beside these, and
// where a stream begins anew, only: by itself it is a service that is scaled to zero, or deleted.
func (t *Table) awaitsOthers(g *hold.Guard, lost, of int, now time.Time) bool {
	clock := &t.store.due.held.clock
	if t.upstream.held.active() || !g.Waits(lost, of) || clock.Runs() && !clock.Waits() {
		return false
	}
	if lost == 1 && assigns(t.typeURL) && !clock.Waits() && !now.Before(t.upstream.othersCome(&t.store.source)) {
		return false
	}
	for _, other := range t.store.tables {
		if other != t && other.released() >= g.AtLeast && other.guard() != nil {
			return true
		}
	}
	if g.Small == 0 {
		return false
	}
	switch e := t.store.emptied(now); {
	case t.leads():
		return t.upstream.held.emptied(now) > 0 && e.may()
	case clock.Waits():
		return e.may()
	default: // each type may have a stream of its own, and come first
		return now.Before(t.upstream.othersCome(&t.store.source)) && e.whole()
	}
}

// othersCome is until when the other types come that a stream was lost with; zero if none was.
func (e *exchange) othersCome(s *Source) time.Time {
	if !e.resumed {
		return time.Time{}
	}
	return e.begun.Add(s.longQuiet())
}

// emptied is how far the Listeners and the Clusters of a store are gone together: nothing where these are few.
type emptied struct{ listeners, clusters leading }

// leading is how many resources of such a type were lost within a short time, and how many there are.
type leading struct{ lost, left int }

func (l leading) gone() bool { return l.lost > 0 && l.left == 0 }

// fewest is the number of Listeners and Clusters whose loss is worth holding: below it the
// loss is more likely meant.
const fewest = 3

// both reports whether all are gone, of both types.
func (e emptied) both() bool { return e.listeners.gone() && e.clusters.gone() }

// may reports whether all of one type are gone, and those of the other are there.
func (e emptied) may() bool {
	return e.listeners.gone() && e.clusters.left > 0 || e.clusters.gone() && e.listeners.left > 0
}

// whole reports whether there are, or were, resources of both types.
func (e emptied) whole() bool {
	return e.listeners.lost+e.listeners.left > 0 && e.clusters.lost+e.clusters.left > 0
}

// emptied counts the Listeners and Clusters that are gone within a short time.
func (s *Store) emptied(now time.Time) (e emptied) {
	all := 0
	for _, t := range s.tables {
		if !t.leads() || t.guard() == nil {
			continue
		}
		of := &e.listeners
		if xds.RankOf(t.typeURL) == xds.RankCluster {
			of = &e.clusters
		}
		if n := t.upstream.held.emptied(now); n > 0 {
			of.lost += n
			all += n
		} else {
			of.left += t.released()
			all += t.released()
		}
	}
	if all < fewest {
		return emptied{}
	}
	return e
}

// leads reports whether the table is of Listeners or Clusters: clients without any of them serve nothing.
func (t *Table) leads() bool {
	r := xds.RankOf(t.typeURL)
	return r == xds.RankListener || r == xds.RankCluster
}

// released is the number of resources that clients may have.
func (t *Table) released() int {
	if c := t.colls[Wildcard]; c != nil {
		return c.log.live.len
	}
	return int(t.usage.resources)
}

// SetGuard replaces Source.Guard. What is held stays held.
func (s Session) SetGuard(g hold.Guard) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.source.Guard = g
}

// empties reports whether new content takes the last endpoints off an assignment.
func (t *Table) empties(e *Entry, r *wire.Resource) bool {
	return assigns(t.typeURL) && e.res != nil && !r.HasEndpoints() && e.res.HasEndpoints()
}

// loseNames is the same of all names that a response left out.
func (t *Table) loseNames(gone []*Entry, now time.Time) {
	var l loss
	for _, e := range gone {
		l.add(t, e)
	}
	t.guardLoss(l, now)
	for _, e := range gone {
		t.lose(e, now)
	}
}
