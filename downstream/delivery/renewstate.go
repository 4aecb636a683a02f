package delivery

import (
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// A state-of-the-world client takes a response with nothing but heartbeats for an empty list:
// Envoy then removes every cluster. So the relay renews such a client with whole resources:
// with a list where responses hold everything, else with the resources that were renewed
// (TTL-1). It does so at most once per third of the shortest TTL. Otherwise a server that
// renews often would have everything sent each time.

// renewalsPerTTL is how often a client is renewed at most while the shortest TTL runs.
const renewalsPerTTL = 3

// runsOut reports whether a resource that was renewed runs out before a time, as the client
// knows it.
func (w *typeSub) runsOut(before time.Time) bool {
	if w.changed.has(func(sub *nameSub) bool { return sub.heartbeat && sub.entry.Lifetime().RunsOut(before) }) {
		return true
	}
	for f := range w.subs.cursors() {
		for l := f.Collection().Heartbeats().After(f.ttl.heartbeat); l != nil; l = l.Next() {
			if w.toldOf(f, l.Entry()) && l.RunsOut(before) {
				return true
			}
		}
	}
	return false
}

// renewer sends what was renewed of a type whose responses need not hold everything.
type renewer struct{ writer *writer }

// all sends everything that was renewed, as far as there is room.
func (r renewer) all(w *typeSub) {
	wr := r.writer
	wr.renewing = true
	if wr.turn(w, cache.ByName) {
		w.changed.drain(func(n *nameSub) bool { return r.name(w, n) })
		for _, g := range w.subs.globs.all {
			r.members(g)
		}
	}
	if wr.turn(w, cache.WholeType) {
		r.members(w.subs.wildcard)
	}
	wr.renewing, wr.typeSub, wr.cur = false, nil, nil
	if !wr.full {
		wr.renewed(w)
	}
}

// name sends the content of a name, if that was renewed.
func (r renewer) name(w *typeSub, n *nameSub) (done bool) {
	e, name := n.entry, n.spelling
	if e.Marks().Alias {
		name = e.ServedName()
	}
	if !n.heartbeat || (!w.again.lacks(e, e.Changed()) && !r.add(e, name)) {
		return false
	}
	n.dirty, n.heartbeat = false, false
	return true
}

// members sends the members of a collection that were renewed.
func (r renewer) members(f *follower) {
	w := f.typeSub
	for l := f.Collection().Heartbeats().After(f.ttl.heartbeat); l != nil; l = l.Next() {
		e := l.Entry()
		if w.toldOf(f, e) && !r.add(e, f.name.of(e)) {
			return
		}
		f.ttl.heartbeat = l.Number()
	}
}

// add sends a resource; false if there is no room. A resource whose TTL was removed goes with
// the additions.
func (r renewer) add(e *cache.Entry, name string) bool {
	return r.writer.remaining(e) == 0 || r.writer.add(e, e.Resource(), name, false)
}

// ttls brings a follower level with what happened to the TTLs of its collection, as far as that
// goes out with contents.
func (p *delivery) ttls(f *follower) bool {
	if f.typeSub.place.form.renewsWhole() {
		return p.removedTTLs(f)
	}
	return p.memberHeartbeats(f)
}

// removedTTLs sends the content of the members whose TTL was removed.
func (p *delivery) removedTTLs(f *follower) bool {
	if !f.ttl.liftDue(f.Collection()) {
		return true
	}
	for l := f.Collection().Heartbeats().After(f.ttl.removed); l != nil; l = l.Next() {
		e := l.Entry()
		if l.TTL() == 0 && f.typeSub.toldOf(f, e) && !p.writer.add(e, e.Resource(), f.name.of(e), false) {
			return false
		}
		f.ttl.removed = l.Number()
	}
	f.ttl.removed = max(f.ttl.removed, f.Collection().Heartbeats().LastLifted())
	return true
}

// renewed records that the client was renewed in this delivery, and when that may be done
// again.
func (wr *writer) renewed(w *typeSub) {
	if shortest := w.subs.shortestTTL(w.list.full); shortest > 0 {
		w.renewals.next = wr.time(w).Add(shortest / renewalsPerTTL)
	}
}

// shortestTTL is the shortest TTL of the resources that the client subscribes to and that the
// server renews, or that lists tell the client if it is sent lists; zero if there is none.
func (s *subscribed) shortestTTL(listed bool) (least time.Duration) {
	look := func(e *cache.Entry) {
		if e.Lifetime().HasTTL() && (least == 0 || e.Lifetime().TTL() < least) {
			least = e.Lifetime().TTL()
		}
	}
	for sub := range s.names.all() {
		look(sub.entry)
	}
	for f := range s.cursors() {
		for l := f.Collection().Heartbeats().First(); l != nil; l = l.Next() {
			look(l.Entry())
		}
		if listed && f.Collection().Table().HasTTLs() {
			for e := f.Collection().First(); e != nil; e = e.Next() {
				if !f.hides(e) {
					look(e)
				}
			}
		}
	}
	return least
}
