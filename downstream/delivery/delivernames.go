package delivery

import (
	"github.com/xdsrelay/xdsrelay/cache"
)

// deliverNames delivers the changed names: those that took something away up to a number, or
// the others.
func (p *delivery) deliverNames(w *typeSub, away bool, upTo uint64) {
	w.changed.drain(func(n *nameSub) (done bool) {
		return !p.writer.full && n.takesAway() == away && (n.entry.Changed() <= upTo || away && n.goesAtOnce()) &&
			!(n.heartbeat && p.noHeartbeats) && p.deliverName(n)
	})
}

// nameAction is what a client is told of a changed name.
type nameAction uint8

const (
	sayNothing   nameAction = iota
	sayHeartbeat            // of its TTL (TTL-3)
	sayHeld                 // that it holds the content already: its TTL (RES-11)
	sayAlone                // the content, later and in a response of its own: another client rejected it
	sayLater                // the content, when the clock says so: this client rejected it
	sayContent
	sayRemoved
	sayFailed
	sayLost // that a collection lost the member, and the server stays silent of the name (RES-7)
)

// deliverName tells a client what changed of a name. It returns false if there is no room.
func (p *delivery) deliverName(n *nameSub) (done bool) {
	w, e := n.typeSub, n.entry
	if w.withholdsName(e) {
		n.delivered()
		n.withheld = true
		return true
	}
	say := p.actionFor(n)
	if say == sayRemoved && n.knowsAbsent() {
		say = sayNothing
	}
	switch say {
	case sayHeartbeat:
		done = p.writer.nameHeartbeat(n)
	case sayHeld:
		w.subs.screen.serves(n.spelling, n.sentName())
		done = p.writer.known(e, n.sentName())
	case sayAlone:
		w.rejections().add(group{items: []item{{e, n, e.Changed()}}})
		done = true
	case sayContent:
		done = p.nameContent(n)
		w.tellBreakAgain(e.Key())
	case sayRemoved:
		done = p.writer.absent(n)
	case sayFailed:
		done = p.writer.failed(e, n)
		if done && n.stays() {
			n.dirty, n.pushed = false, false
			return true
		}
	case sayLost:
		done = p.writer.remove(n.spelling)
	case sayLater, sayNothing:
		done = true
	}
	if !done {
		return false
	}
	n.holds = n.exists() && (n.holds || say != sayNothing)
	n.toldAbsent = say == sayRemoved || (n.toldAbsent && say == sayNothing)
	w.comparedByAlias(e)
	w.held.drop(e.Key())
	n.delivered()
	return true
}

// actionFor decides what a client is told of a changed name.
func (p *delivery) actionFor(n *nameSub) nameAction {
	switch e := n.entry; {
	case e.State() == cache.Absent, n.concealed():
		return sayRemoved
	case e.State() == cache.Failed:
		return sayFailed
	case !e.Exists() && n.tellsLost():
		return sayLost
	case !e.Exists(), n.heartbeat && n.denied():
		return sayNothing
	case n.denied():
		return sayRemoved
	case n.heartbeat:
		return sayHeartbeat
	case n.typeSub.holds(e) && !p.writer.outlived(e, n.pushed):
		return sayHeld
	case n.pushed && p.sub != nil && n.typeSub.again.putOff(item{e, n, e.Changed()}, &p.writer):
		return sayLater
	case e.Marks().Suspect && p.sub != nil:
		return sayAlone
	}
	return sayContent
}

// nameContent sends the content of a name.
func (p *delivery) nameContent(n *nameSub) bool {
	r := n.entry.Resource()
	if !p.writer.add(n.entry, r, n.sentName(), n.pushed) {
		return false
	}
	if p.writer.cur == nil {
		return true // the client may not have it
	}
	n.typeSub.subs.screen.serves(n.spelling, n.sentName())
	n.response = p.writer.cur.flight.number
	p.cluster(r, !n.holds)
	return true
}

// holds reports whether the client said that it holds the content that a name has now, under
// the name or as what the name is an alias of (RES-11).
func (w *typeSub) holds(e *cache.Entry) bool {
	v, held := w.held.versions[e.Key()]
	if !held {
		v, held = w.heldByAlias(e)
	}
	return held && e.HoldsVersion(v)
}
