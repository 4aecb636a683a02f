package delivery

import "github.com/xdsrelay/xdsrelay/cache"

// removals takes removals up to a number.
func (p *delivery) removals(w *typeSub, upTo uint64) {
	if p.writer.turn(w, cache.ByName) {
		p.deliverNames(w, true, upTo)
		for _, g := range w.subs.globs.all {
			if p.writer.full {
				return
			}
			p.memberRemovals(w, g, upTo)
			p.collectionErrors(g, upTo)
		}
		if w.subs.wildcard == nil {
			p.answers(w, cache.ByName, true)
		}
	}
	if p.writer.turn(w, cache.WholeType) {
		p.memberRemovals(w, w.subs.wildcard, upTo)
		p.collectionErrors(w.subs.wildcard, upTo)
		p.answers(w, cache.WholeType, true)
	}
}

// memberRemovals delivers the removals of members after the follower's position, up to a
// number, and of members that the client said it holds and that do not exist (RES-11).
func (p *delivery) memberRemovals(w *typeSub, f *follower, upTo uint64) {
	for e := f.NextRemoval(); e != nil && e.Changed() <= upTo; e = e.Next() {
		if !p.look() {
			return
		}
		held := f.held.has(e.Key())
		_, owed := w.answers[e.Key()]
		mayHave := held || owed || e.Added() <= f.sentBefore
		switch {
		case f.hides(e): // what the client holds of it goes with what else does not exist
			f.since++
			f.AdvanceRemovals(e)
			continue
		case w.subs.byName(f, e.Key()):
			if mayHave {
				p.sub.leaveToNames(f, e.Key())
			}
			f.since++
		case w.subs.names.leaveToName(e.Key(), mayHave): // the name's answer tells what became of it
			f.since++
		case !held && !owed && w.subs.names.toldGone(e): // with the error of the name
			f.since++
		case (held || owed || f.mayHave(e)) && p.sub.leaveToGlob(f, e.Key(), f.name.of(e)):
			f.since++
		case f.drops(e) && !held && !owed: // TTL-2
			f.since++
		case mayHave:
			if !p.writer.remove(f.name.of(e)) {
				return
			}
			p.writer.record(e, true)
			p.unheld(w, e.Key(), f.name.of(e))
			f.since++
		default: // the member came and went between two Collects
		}
		f.compared(e.Key())
		w.answers.drop(e.Key())
		f.AdvanceRemovals(e)
	}
	if f.heldDue() && f.Level() && w.progress.heldMayGo(w.removalsWait) {
		for _, key := range f.held.sorted() {
			if p.lacksHeld(f, key) && !p.writer.remove(f.name.ofKey(key)) {
				return
			}
			f.compared(key)
		}
	}
	p.level(w, f)
}

// lacksHeld reports whether the client is to be told that a key which it said it holds does not
// exist: not where a name, another subscription's answer or a glob says it.
func (p *delivery) lacksHeld(f *follower, key string) bool {
	w := f.typeSub
	if w.subs.names.named(key) || w.subs.byName(f, key) || w.hasByAlias(key) {
		return false
	}
	name := f.name.ofKey(key)
	if n, owed := w.answers[key]; owed && n.Spelling == name {
		return false
	}
	return !p.sub.leaveToGlob(f, key, name)
}

// stateErrors tells a state-of-the-world client, of a type whose responses need not hold
// everything, which names an error removed, and the errors of collections.
func (p *delivery) stateErrors(w *typeSub, upTo uint64) {
	if p.writer.turn(w, cache.ByName) {
		p.deliverNames(w, true, upTo)
		for _, g := range w.subs.globs.all {
			p.collectionErrors(g, upTo)
		}
	}
	if p.writer.turn(w, cache.WholeType) {
		p.collectionErrors(w.subs.wildcard, upTo)
	}
}
