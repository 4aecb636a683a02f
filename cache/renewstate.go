package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// A state-of-the-world client takes a response with nothing but heartbeats for an empty
// list: Envoy then removes every cluster. So the relay renews such a client with whole
// resources: with a list where responses hold everything, else with the resources that were
// renewed (TTL-1). It does so at most once per third of the shortest TTL. Otherwise a server
// that renews often would have everything sent each time.

// renewalsPerTTL is how often a client is renewed at most while the shortest TTL runs.
const renewalsPerTTL = 3

// renewDue reports whether the client is to be told of heartbeats now. In the state of the
// world it waits for its time, unless a resource would run out before that, as the client
// knows it. A client that rejected its last list gets none (TTL-3).
func (w *watch) renewDue(q *question) bool {
	if !w.client.form.State {
		return w.heartbeatsDue()
	}
	if !w.heartbeatsDue() || (w.full && (!w.listed || w.refused)) {
		return false
	}
	if !q.now().Before(w.renewals.next) || w.runsOut(w.renewals.next) {
		return true
	}
	q.later(w.renewals.next)
	return false
}

// runsOut reports whether a resource that was renewed runs out before a time, as the client
// knows it.
func (w *watch) runsOut(before time.Time) bool {
	for _, sub := range w.dirty {
		if !sub.ended && sub.heartbeat && sub.entry.life.runsOut(before) {
			return true
		}
	}
	for f := range w.cursors() {
		for l := f.coll.heartbeats.after(f.ttl.heartbeat); l != nil; l = l.next {
			if f.toldOf(l.entry) && l.runsOut(before) {
				return true
			}
		}
	}
	return false
}

// renewed records that the client was renewed in this pass, and when that may be done again.
func (p *pass) renewed(w *watch) {
	shortest := w.shortestTTL()
	if shortest > 0 {
		w.renewals.next = p.time(w).Add(shortest / renewalsPerTTL)
	}
}

// shortestTTL is the shortest TTL of the resources that the client subscribes to and that
// the server renews, or that lists tell the client; zero if there is none.
func (w *watch) shortestTTL() (least time.Duration) {
	look := func(e *entry) {
		if e.life.hasTTL() && (least == 0 || e.life.ttl < least) {
			least = e.life.ttl
		}
	}
	for sub := range w.names.all() {
		look(sub.entry)
	}
	for f := range w.cursors() {
		for l := f.coll.heartbeats.head; l != nil; l = l.next {
			look(l.entry)
		}
		if w.full && f.coll.table.lifetimes.any() {
			for e := f.coll.live.head; e != nil; e = e.next {
				look(e)
			}
		}
	}
	return least
}

// renewals sends what was renewed of a type whose responses need not hold everything.
func (p *pass) renewals(w *watch) {
	p.renewing = true
	if p.turn(w, byName) {
		p.renewNames(w)
		for _, g := range w.globs {
			p.renewMembers(g)
		}
	}
	if p.turn(w, wholeType) {
		p.renewMembers(w.wildcard)
	}
	p.renewing, p.watch, p.cur = false, nil, nil
	if !p.full {
		p.renewed(w)
	}
}

func (p *pass) renewNames(w *watch) {
	left := w.dirty[:0]
	for _, sub := range w.dirty {
		if sub.ended {
			continue
		}
		name := sub.shown()
		if sub.entry.alias {
			name = sub.entry.servedName()
		}
		e := sub.entry
		if !sub.heartbeat || (!w.lacksChange(e, e.changed) && !w.lapses(lapsed{sub: sub, entry: e}, e.full() == nil) && !p.renewal(e, name)) {
			left = append(left, sub)
			continue
		}
		sub.dirty, sub.heartbeat = false, false
	}
	clear(w.dirty[len(left):])
	w.dirty, w.ended = left, 0
	if len(left) == 0 {
		w.dirty = nil
	}
}

func (p *pass) renewMembers(f *cursor) {
	for l := f.coll.heartbeats.after(f.ttl.heartbeat); l != nil; l = l.next {
		e := l.entry
		if f.toldOf(e) && !f.watch.lapses(lapsed{cursor: f, entry: e}, e.full() == nil) && !p.renewal(e, f.spell(e)) {
			return
		}
		f.ttl.heartbeat = l.heartbeat
	}
}

// renewal adds a resource; false if there is no room. A resource whose TTL was removed goes
// with the additions.
func (p *pass) renewal(e *entry, name string) bool {
	if p.remaining(e) == 0 {
		return true
	}
	return p.add(e, e.full(), name, false)
}

// full is the resource that a client is renewed with; nil if it was not kept (TTL-5).
func (e *entry) full() *wire.Resource {
	if e.state == transient {
		return e.life.transient.renew
	}
	return e.res
}

// ttls brings a cursor level with what happened to the TTLs of its collection, as far as
// that goes out with contents.
func (p *pass) ttls(f *cursor) bool {
	if f.client.form.State {
		return p.removedTTLs(f)
	}
	return p.memberHeartbeats(f)
}

// removedTTLs sends the content of the members whose TTL was removed.
func (p *pass) removedTTLs(f *cursor) bool {
	if !f.ttlRemovalDue() {
		return true
	}
	for l := f.coll.heartbeats.after(f.ttl.removed); l != nil; l = l.next {
		e := l.entry
		if l.ttl == 0 && e.res != nil && f.toldOf(e) && !p.add(e, e.res, f.spell(e), false) {
			return false
		}
		f.ttl.removed = l.heartbeat
	}
	f.ttl.removed = max(f.ttl.removed, f.coll.heartbeats.removed)
	return true
}
