package delivery

import (
	"strings"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/smallmap"
)

// additions delivers everything but removals: changed names, new members and owed answers.
// Removals of names go too, where they wait for no later type.
func (p *delivery) additions(w *typeSub) {
	if p.writer.turn(w, cache.ByName) {
		p.deliverNames(w, false, p.upTo)
		p.errorsBeside(w)
		for _, g := range w.subs.globs.all {
			if p.writer.full {
				return
			}
			p.follow(w, g)
		}
		p.answers(w, cache.ByName, false)
	}
	if p.writer.turn(w, cache.WholeType) {
		p.follow(w, w.subs.wildcard)
		p.answers(w, cache.WholeType, false)
	}
}

// follow delivers the members of a collection that changed after the follower's position.
func (p *delivery) follow(w *typeSub, f *follower) {
	c := f.Collection()
	if w.place.form.TTL && !p.ttls(f) {
		return
	}
	p.withheld(w, f)
	p.joined = false
	for e := p.chunks(f, f.NextChange()); e != nil && e.Changed() <= p.upTo; e = p.chunks(f, e.Next()) {
		hidden := f.hides(e)
		if p.writer.full || !p.look() || !p.memberOrNone(w, f, e, hidden) {
			return
		}
		f.Advance(e)
		f.answered = f.answered || !hidden
	}
	if f.breakDue() && !p.writer.tellBreak(f) {
		return
	}
	if !f.answered && f.knownEmpty() {
		switch {
		case c.Wildcard():
			// There is no word for an empty type but a response without resources; a client
			// that starts waits for it.
			if !p.writer.room(0) {
				return
			}
		case !p.writer.remove(f.name.text): // GLOB-4
			return
		default:
			w.held.doubtMembers(c) // the client drops those that it names, too
		}
		f.answered = true
	}
	p.level(w, f)
}

// memberOrNone delivers a member, unless it does not exist to the client.
func (p *delivery) memberOrNone(w *typeSub, f *follower, e *cache.Entry, hidden bool) bool {
	if !hidden {
		return p.member(w, f, e)
	}
	p.joined = false
	if e.Changed() > f.Begun() {
		f.since++
	}
	return p.withdraw(w, f, e)
}

// member delivers one member. It returns false if there is no room.
func (p *delivery) member(w *typeSub, f *follower, e *cache.Entry) bool {
	pushed := e.Changed() > f.Begun()
	v, held := f.held.get(e.Key())
	if !held {
		v, held = w.held.versions[e.Key()] // by a name that is not answered
	}
	if f.withheld.keep(f, e, v, held) {
		if pushed {
			f.since++
		}
		return true
	}
	r := e.Resource()
	joined := p.joined
	p.joined = false
	switch {
	case w.subs.byName(f, e.Key()):
	case held && e.HoldsVersion(v) && !p.writer.outlived(e, pushed): // RES-11
		if !p.writer.known(e, f.name.of(e)) {
			return false
		}
		if g := w.subs.screen; g != nil {
			g.serveByOther(f.name.of(e), e.ServedName())
		}
	case !w.subs.screen.lets(f.name.of(e), r): // it may not have it
	case pushed && p.sub != nil && w.again.putOff(item{e, nil, e.Changed()}, &p.writer):
	case e.Marks().Suspect && p.sub != nil:
		w.rejections().add(group{items: []item{{e, nil, e.Changed()}}})
	default:
		if !p.writer.add(e, r, f.name.of(e), pushed) {
			return false
		}
		p.writer.cur.flight.add(f, f.Sent(), e.Changed(), joined)
		p.joined = true
		p.cluster(r, !held && p.isNew(f, e))
		w.answers.drop(e.Key())
		p.stoodIn(w, f, e)
	}
	w.subs.names.returned(e.Key())
	f.compared(e.Key())
	f.withheld = smallmap.Without(f.withheld, e.Key())
	if pushed {
		f.since++
	}
	return true
}

// answers tells what the collections of a kind hold under names whose own subscription ended
// (SUB-8), or that they hold nothing.
func (p *delivery) answers(w *typeSub, k cache.Kind, away bool) {
	for key, n := range w.answers {
		e, known := w.subs.lookup(n)
		switch {
		case p.writer.full:
			return
		case !known || away != (e == nil):
			continue
		case e == nil:
			if !p.leavesToGlob(w, n) && !p.writer.remove(n.Spelling) {
				return
			}
		case e.Collection().Table().Kind() != k:
			continue
		case !p.writer.add(e, e.Resource(), w.subs.answerName(e, n), false):
			return
		}
		for _, f := range []*follower{w.subs.wildcard, w.subs.globs.of(key)} {
			if f != nil {
				f.compared(key)
			}
		}
		w.answers.drop(key)
		p.look() // there may be as many as the members of a large glob
	}
}

// leavesToGlob has a glob of another store answer for a name that "*" does not have. lookup
// asked a glob of this store before "*".
func (p *delivery) leavesToGlob(w *typeSub, n cache.Name) bool {
	return w.subs.wildcard != nil && w.subs.globs.of(n.Key) == nil && p.sub.leaveToGlob(w.subs.wildcard, n.Key, n.Spelling)
}

// stoodIn records that the client was sent a member that it also names, while the name is not
// answered. The client holds that version then, as if it had said so: the same content is not
// sent again by the name (RES-11), and no removal takes it away before the name is answered.
// Under another spelling it is something else.
func (p *delivery) stoodIn(w *typeSub, f *follower, e *cache.Entry) {
	if !w.subs.names.named(e.Key()) {
		return
	}
	w.subs.names.markHeld(e.Key())
	sub := w.subs.names.get(f.name.of(e))
	if sub == nil || e.Marks().ReusedVersion || (e.Lifetime() != nil && w.place.form.TTL) {
		w.held.drop(e.Key())
		return
	}
	w.held.set(sub.entry.Key(), strings.Clone(e.Version())) // neither may lie in bytes that go
}

// withdraw has the client lose a member that leads to a resource which it may not have, if it was
// sent the member before. It returns false if there is no room.
func (p *delivery) withdraw(w *typeSub, f *follower, e *cache.Entry) bool {
	name := f.name.of(e)
	if e.ServedName() != name {
		w.subs.screen.conceal(name)
	}
	if !w.subs.screen.byOthers[name] || w.place.form.State {
		return true
	}
	if !p.writer.remove(name) {
		return false
	}
	delete(w.subs.screen.byOthers, name)
	return true
}
