package delivery

import (
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// update carries out what one request changes of a type subscription.
type update struct {
	typeSub *typeSub
	subs    *subscribed // the type subscription's

	ended     []cache.Name // names that ended and are not subscribed to any more in any spelling
	globEnded bool
	others    []cache.Name // of these names, those that "*" of another store is to answer
}

// subscribe adds a name, a glob or "*", or has it sent again (SUB-5, SUB-6).
func (u *update) subscribe(n cache.Name) {
	switch {
	case n.Key == cache.Wildcard:
		u.followWildcard(n.Spelling)
	case keyer.IsGlob(n.Key):
		u.followGlob(n)
	default:
		u.subscribeName(n)
	}
}

// followWildcard follows "*". Errors call it by the client's name for it: none, if the client
// subscribed by naming nothing (SUB-4, ERR-1).
func (u *update) followWildcard(spelling string) {
	if f := u.subs.wildcard; f != nil {
		f.repeat()
	} else {
		u.subs.wildcard = u.follow(cache.WholeType, cache.Name{Spelling: cache.Wildcard, Key: cache.Wildcard})
	}
	u.subs.wildcard.name.text = spelling
}

func (u *update) followGlob(n cache.Name) {
	g := u.subs.globs.all[n.Spelling]
	if g != nil {
		g.repeat()
	} else {
		g = u.follow(cache.ByName, n)
		u.subs.globs.add(g)
	}
	if c := g.Collection(); c.Overdue() && !c.Synced() {
		g.Overdue() // a reader subscribes to what others wait for no longer
	}
}

// follow makes the client follow a collection from its beginning.
func (u *update) follow(k cache.Kind, n cache.Name) *follower {
	w := u.typeSub
	c := w.place.store.Table(w.typeURL, k).Collection(n.Key)
	w.place.observe(w.typeURL, c.Synced() || c.Len() > 0)
	f := &follower{typeSub: w, name: newSpelling(n.Spelling, c.Key()), seen: c.Changes()}
	c.Follow(&f.Cursor, &w.bell, f, w.needs())
	f.ttl = newTTLPosition(f.Begun(), w.place.store.LastHeartbeat())
	return f
}

func (u *update) subscribeName(n cache.Name) {
	w := u.typeSub
	sub := u.subs.names.get(n.Spelling)
	if sub == nil {
		sub = u.newName(n)
	}
	// What the client said it held when the stream began is not asked again: a client that
	// subscribes explicitly later may have forgotten it (RES-15).
	w.held.drop(n.Key)
	w.answers.drop(n.Key)
	sub.heartbeat = false // the content is sent again, and says its ttl
	if sub.entry.Err() != nil && sub.entry.Exists() {
		w.changed.errors.add(sub)
	}
	sub.entry.AskAgain(w.place.store.Now)
	if sub.entry.Marks().Overdue && sub.entry.Open() {
		sub.tooLate() // a reader subscribes to what others wait for no longer
	}
	if sub.known() {
		sub.makeDue()
	}
}

// newName begins the subscription to a name.
func (u *update) newName(n cache.Name) *nameSub {
	w := u.typeSub
	t := w.place.store.Table(w.typeURL, cache.ByName)
	e := t.Entry(n.Key)
	sub := &nameSub{typeSub: w, entry: e, holds: u.subs.globs.gave(e)}
	w.place.observe(w.typeURL, sub.known())
	t.Watch(e, w.needs(), sub.join)
	sub.spelling = intern(n.Spelling, e.Key())
	if w.needs().Has(cache.NeedsDigests) {
		u.subs.names.sum = u.subs.names.sum.Plus(e.Digest())
	}
	u.subs.names.add(sub, n.Key)
	u.subs.parts.add(n.Key, 1)
	return sub
}

// unsubscribe ends a subscription, if there is one.
func (u *update) unsubscribe(n cache.Name) {
	switch {
	case n.Key == cache.Wildcard:
		if f := u.subs.wildcard; f != nil {
			f.Unfollow()
			u.subs.wildcard = nil
			u.typeSub.answers.dropUnfollowed(u.subs)
		}
	case keyer.IsGlob(n.Key):
		if g := u.subs.globs.all[n.Spelling]; g != nil {
			u.endGlob(g)
		}
	default:
		if sub := u.subs.names.get(n.Spelling); sub != nil {
			u.endName(sub, n)
		}
	}
}

// endGlob ends the subscription to a glob under one spelling.
func (u *update) endGlob(g *follower) {
	g.Unfollow()
	u.subs.globs.remove(g)
	if other := u.subs.globs.under(g.Collection().Key()); other != nil {
		other.inherit(g)
	}
	u.typeSub.answers.dropUnfollowed(u.subs)
	u.globEnded = true
}

// endName ends the subscription to a name under one spelling.
func (u *update) endName(sub *nameSub, n cache.Name) {
	w := u.typeSub
	e, owed, holds := sub.entry, sub.dirty, sub.holds
	sub.end()
	u.subs.names.remove(sub, n.Key)
	u.subs.parts.add(n.Key, -1)
	w.held.drop(n.Key)
	if u.subs.names.named(n.Key) {
		if holds {
			u.subs.names.passOn(n.Key)
		}
		return
	}
	u.ended = append(u.ended, n)
	if g := u.subs.globs.of(n.Key); g != nil {
		// A client with a glob knows that the glob keeps the resource (GLOB-5), but what the
		// name still owed it is owed by the glob now.
		switch passed := g.Passed(e); {
		case !passed && holds:
			g.mayHold(e.Key())
		case passed && owed:
			w.answers.owe(n)
		}
	}
}
