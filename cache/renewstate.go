package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// A client of the state of the world takes a response of nothing but heartbeats for an empty
// list: Envoy removes every cluster then. So it is renewed with whole resources: with a list
// where responses hold everything, else with the resources that were renewed (TTL-1). That
// is done at most once per third of the shortest ttl, so that a server that renews often
// does not have everything sent each time.

// renewalsPerTTL is how often a client is renewed in the time of the shortest ttl at most.
const renewalsPerTTL = 3

// renewDue reports whether the client is to be told now of heartbeats. In the state of the
// world that waits for its time, unless what the client knows of would run out before that.
// A client that rejected its last list gets none (TTL-3).
func (w *watch) renewDue(q *question) bool {
	if !w.client.form.State {
		return w.beatsDue()
	}
	if !w.beatsDue() || (w.full && (!w.listed || w.refused)) {
		return false
	}
	if !q.now().Before(w.renewAt) || w.runsOut() {
		return true
	}
	q.later(w.renewAt)
	return false
}

// runsOut reports whether something that was renewed runs out, as the client knows it, before
// it may be told.
func (w *watch) runsOut() bool {
	for _, sub := range w.dirty {
		if !sub.ended && sub.beat && sub.entry.life.runsOut(w.renewAt) {
			return true
		}
	}
	for f := range w.cursors() {
		for l := f.coll.beats.after(f.beats); l != nil; l = l.next {
			if f.tells(l.entry) && l.runsOut(w.renewAt) {
				return true
			}
		}
	}
	return false
}

// runsOut reports whether the deadline before the last heartbeat comes before a time.
func (l *lifetime) runsOut(before time.Time) bool {
	return l != nil && !l.until.IsZero() && l.until.Before(before)
}

// renewed notes that the client was renewed in this pass, and when that may be done again.
func (p *pass) renewed(w *watch) {
	shortest := w.shortest()
	if shortest > 0 {
		w.renewAt = p.time(w).Add(shortest / renewalsPerTTL)
	}
}

// shortest is the shortest ttl of what the client subscribes to and the server renews or the
// client is told of in a list; zero if there is none.
func (w *watch) shortest() (least time.Duration) {
	look := func(e *entry) {
		if e.life != nil && e.life.ttl > 0 && (least == 0 || e.life.ttl < least) {
			least = e.life.ttl
		}
	}
	for sub := range w.names.all() {
		look(sub.entry)
	}
	for f := range w.cursors() {
		for l := f.coll.beats.head; l != nil; l = l.next {
			look(l.entry)
		}
		if w.full && f.coll.table.lives > 0 {
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
		if !sub.beat || (!w.lacksChange(e, e.changed) && !w.loses(lost{sub: sub, entry: e}, e.whole() == nil) && !p.renewal(e, name)) {
			left = append(left, sub)
			continue
		}
		sub.dirty, sub.beat = false, false
	}
	clear(w.dirty[len(left):])
	w.dirty, w.ended = left, 0
	if len(left) == 0 {
		w.dirty = nil
	}
}

func (p *pass) renewMembers(f *cursor) {
	for l := f.coll.beats.after(f.beats); l != nil; l = l.next {
		e := l.entry
		if f.tells(e) && !f.watch.loses(lost{cursor: f, entry: e}, e.whole() == nil) && !p.renewal(e, f.spell(e)) {
			return
		}
		f.beats = l.beat
	}
}

// renewal adds one; false if there is no room. What has no ttl any more is sent with what else
// is due.
func (p *pass) renewal(e *entry, name string) bool {
	if p.remaining(e) == 0 {
		return true
	}
	return p.add(e, e.whole(), name, false)
}

// whole is what a client is renewed with; nil if it was not kept for that (TTL-5).
func (e *entry) whole() *wire.Resource {
	if e.state == relayed {
		return e.life.passed.renew
	}
	return e.res
}

// ttls brings a cursor level with what happened to the ttls of its collection, as far
// as that goes out with contents.
func (p *pass) ttls(f *cursor) bool {
	if f.client.form.State {
		return p.lifted(f)
	}
	return p.lives(f)
}

// liftDue reports whether a ttl was taken back that the client may have: it needs the
// content without it (TTL-4).
func (f *cursor) liftDue() bool {
	return f.client.form.State && f.client.form.TTL && f.coll.lifted > f.lifted
}

// lifted sends the content of the members of which the ttl was taken back.
func (p *pass) lifted(f *cursor) bool {
	if !f.liftDue() {
		return true
	}
	for l := f.coll.beats.after(f.lifted); l != nil; l = l.next {
		e := l.entry
		if l.ttl == 0 && e.res != nil && f.tells(e) && !p.add(e, e.res, f.spell(e), false) {
			return false
		}
		f.lifted = l.beat
	}
	f.lifted = max(f.lifted, f.coll.lifted)
	return true
}

// repeat has a name's content sent again.
func (n *nameSub) repeat() {
	if n.lacks {
		return
	}
	if !n.dirty {
		n.dirty = true
		n.watch.dirty = append(n.watch.dirty, n)
	}
	n.beat = false
	n.watch.client.store.wake(n.watch)
}

// retimed notes that the client has a list, with the ttl of everything in it.
func (f *cursor) retimed() {
	f.beats = f.coll.table.store.beats
	f.lifted = f.beats
}

// owe notes that the client has to be told of what expired.
func (f *cursor) owe(key string) {
	if f.owed == nil {
		f.owed = make(map[string]bool)
	}
	f.owed[key] = true
}

// settled notes that it was.
func (f *cursor) settled(key string) {
	if f.owed != nil {
		f.owed = without(f.owed, key)
	}
}
