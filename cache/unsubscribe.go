package cache

import (
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// unsubscribeAll ends subscriptions. It returns the names among them that are not subscribed to
// any more in any spelling, and reports whether a glob ended.
func (w *watch) unsubscribeAll(names []Name) (ended []Name, globEnded bool) {
	for _, n := range names {
		switch was := w.unsubscribe(n); {
		case !was, n.Key == Wildcard, wire.IsLocator(n.Key):
		case keyer.IsGlob(n.Key):
			globEnded = true
		case !w.named(n.Key):
			ended = append(ended, n)
		}
	}
	return ended, globEnded
}

// unsubscribe ends a subscription and reports whether there was one.
func (w *watch) unsubscribe(n Name) bool {
	switch {
	case n.Key == Wildcard:
		return w.unfollowWildcard()
	case keyer.IsGlob(n.Key):
		g := w.globs[n.Spelling]
		if g == nil {
			return false
		}
		w.endGlob(n, g)
		if other := w.followed(n.Key); other != nil {
			other.inherit(g)
		}
		w.dropAnswers()
		return true
	}
	sub := w.names.get(n.Spelling)
	if sub == nil {
		return false
	}
	e, owed, holds := sub.entry, sub.dirty, sub.holds
	w.forgetVariant(sub)
	w.endName(n, sub)
	if sub.located() {
		return true // no collection keeps it
	}
	w.held = without(w.held, n.Key)
	if w.named(n.Key) {
		if holds {
			w.passOn(n.Key)
		}
		return true
	}
	if g := w.globFor(n.Key); g != nil {
		// A client with a glob knows that the glob keeps the resource (GLOB-5), but
		// what the name still owed it is owed by the glob now.
		switch passed := g.passed(e); {
		case !passed && holds:
			g.mayHold(e.key)
		case passed && owed:
			w.answer(n)
		}
	}
	return true
}

func (w *watch) unfollowWildcard() bool {
	if w.wildcard == nil {
		return false
	}
	w.endWildcard()
	w.dropAnswers()
	return true
}

// endName, endGlob and endWildcard take a subscription out of the watch.
func (w *watch) endName(n Name, sub *nameSub) {
	sub.end()
	w.names.remove(sub)
	w.parts.add(n.Key, -1)
	if n.Key != n.Spelling {
		w.respelledNames = withoutOne(w.respelledNames, n.Key, sub)
	}
	if sub.located() {
		w.located--
	}
}

func (w *watch) endGlob(n Name, g *cursor) {
	g.unfollow()
	w.forgetMembers(g.coll)
	w.globs = without(w.globs, n.Spelling)
	if n.Key != n.Spelling {
		w.respelledGlobs = withoutOne(w.respelledGlobs, n.Key, g)
	}
}

func (w *watch) endWildcard() {
	w.wildcard.unfollow()
	w.forgetMembers(w.wildcard.coll)
	w.wildcard = nil
}

// dropAnswers forgets the answers that no collection owes any more.
func (w *watch) dropAnswers() {
	if w.wildcard != nil {
		return
	}
	for key := range w.answers {
		if w.globFor(key) == nil {
			w.answered(key)
		}
	}
}

// owe notes that the client is to be told what a collection that it follows holds under
// a name.
func (w *watch) owe(n Name) {
	if w.answers == nil {
		w.answers = make(map[string]Name)
	}
	w.answers[n.Key] = n
}

// answer owes the client word about a name, and has the server asked again for what
// was not kept.
func (w *watch) answer(n Name) {
	w.owe(n)
	for _, f := range []*cursor{w.wildcard, w.globFor(n.Key)} {
		if f == nil {
			continue
		}
		if e := f.coll.table.entries[n.Key]; e != nil && e.coll == f.coll && e.state == transient {
			f.coll.askForTransient(w)
		}
	}
}
