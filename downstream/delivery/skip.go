package delivery

import "github.com/xdsrelay/xdsrelay/cache"

// skip advances past removals that the state of the world cannot express (RES-3), where
// responses need not be complete, and past names and globs without content. Of full-state types
// it advances past what came and went between two lists.
func (stateFormat) skip(w *typeSub) {
	for f := range w.subs.cursors() {
		w.skipUntold(f)
	}
	if w.list.full {
		return
	}
	w.changed.drain(func(n *nameSub) (done bool) {
		if n.exists() || n.entry.State() == cache.Failed {
			return false
		}
		if n.tellsAbsence() && !n.knowsAbsent() {
			return false
		}
		n.dirty, n.pushed, n.holds, n.absenceDue = false, false, false, false
		return true
	})
	for key, n := range w.answers {
		if e, known := w.subs.lookup(n); known && e == nil {
			w.answers.drop(key)
		}
	}
}

func (w *typeSub) skipUntold(f *follower) {
	c := f.Collection()
	f.skipErrors()
	if w.list.full && w.place.form.TTL {
		w.checkExpiry(f)
	}
	for e := f.NextRemoval(); e != nil; e = e.Next() {
		if w.list.full && f.mayHave(e) && !w.subs.byName(f, e.Key()) && !f.drops(e) { // TTL-2
			break
		}
		switch byName := w.subs.byName(f, e.Key()); {
		case !f.mayHave(e):
		case !w.list.full && !byName:
			w.place.subscriber.leaveToGlob(f, e.Key(), f.name.of(e))
		case w.list.full && byName:
			w.place.subscriber.leaveToNames(f, e.Key())
		}
		f.since++
		f.AdvanceRemovals(e)
	}
	if w.list.full {
		return
	}
	f.SkipRemovals(c.Floor())
	f.held = nil
	if !c.Wildcard() && f.knownEmpty() {
		f.answered = true
	}
}

// skip advances past removals of members that the client never had: there is nothing to tell,
// and nothing to wait for.
func (incrementalFormat) skip(w *typeSub) {
	for f := range w.subs.each() {
		w.skipUnknown(f)
	}
}

func (w *typeSub) skipUnknown(f *follower) {
	for e := f.NextRemoval(); e != nil; e = e.Next() {
		if _, owed := w.answers[e.Key()]; owed || f.mayHave(e) || f.held.has(e.Key()) {
			return
		}
		if f.hides(e) {
			f.since++ // no other change replaced it
		}
		f.AdvanceRemovals(e)
	}
}

// skipErrors advances past errors that the follower does not tell.
func (f *follower) skipErrors() {
	for x := f.Collection().ErrorsAfter(f.errorSent); x != nil && !f.typeSub.subs.tellsError(f, x); x = x.Next() {
		f.errorSent = x.Number()
	}
}
