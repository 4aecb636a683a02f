package delivery

import (
	"strings"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/smallmap"
)

// Restored content (cache.Entry.Restored) goes to clients that present nothing for its name. If a
// client presents something else, the content is withheld until the server confirms it: then it is
// due for this client alone (SUR-1). In the state of the world a client presents a version for all
// names of a type. Readers of the relay's own get restored content with its mark.

// restored reports whether anything that the client subscribes to is restored, and not confirmed. An
// empty collection has nothing that is.
func (s *subscribed) restored() bool {
	return s.hasFollower(func(f *follower) bool { return f.Collection().Restored() && f.Collection().Len() > 0 }) ||
		s.names.has(func(n *nameSub) bool { return n.entry.Restored() })
}

// awaitsWord reports whether a list waits for the server's word of anything that is restored. For
// each name the wait ends with its time on a stream that answers (ABS-3).
func (w *typeSub) awaitsWord() bool {
	t := w.place.store.FindTable(w.typeURL, cache.ByName)
	return w.subs.hasFollower(func(f *follower) bool { return f.Collection().AwaitsMembers() }) ||
		w.subs.names.has(func(n *nameSub) bool { return t.AwaitsWord(n.entry) })
}

// neverHeard reports whether anything is restored, and this process has heard nothing from the server.
// No time ends the wait for that: what a client presents is more than what a disk had (SUR-1).
func (w *typeSub) neverHeard() bool { return w.place.store.NeverSpoke() && w.awaitsWord() }

// withholds reports whether a client of the state of the world, which showed a version when its
// stream began, keeps what it has for now. Lists of full-state types wait as a whole (lacksHeld).
func (w *typeSub) withholds() bool {
	return w.list.presented != "" && !w.list.full && !w.version().shown(w.list.presented)
}

// withholdsName reports whether the client is not sent the content of a name yet.
func (w *typeSub) withholdsName(e *cache.Entry) bool {
	switch {
	case !e.Restored(), w.place.reads():
		return false
	case w.place.form.State:
		return w.withholds()
	}
	v, held := w.held.versions[e.Key()]
	if !held {
		v, held = w.heldByAlias(e)
	}
	return held && !e.HoldsVersion(v)
}

// keep reports whether the client is not sent a member yet, of which it holds a version, and
// remembers the member until it is confirmed.
func (h *withheld) keep(f *follower, e *cache.Entry, version string, held bool) bool {
	w := f.typeSub
	switch {
	case !e.Restored(), w.place.reads(), w.subs.byName(f, e.Key()):
		return false
	case w.place.form.State:
		if !w.withholds() {
			return false
		}
	case !held, e.HoldsVersion(version):
		return false
	}
	if *h == nil {
		*h = make(withheld)
	}
	(*h)[strings.Clone(e.Key())] = struct{}{}
	return true
}

// due reports whether a member was confirmed.
func (h withheld) due(f *follower) bool {
	for key := range h {
		if e := f.Collection().Table().Find(key); e != nil && f.Passed(e) && !e.Restored() {
			return true
		}
	}
	return false
}

// withheld delivers the members that were confirmed and that were withheld. A member that changed
// since comes with the changes.
func (p *delivery) withheld(w *typeSub, f *follower) {
	for key := range f.withheld {
		e := f.Collection().Table().Find(key)
		switch v, held := f.held.get(key); {
		case p.writer.full:
			return
		case e == nil, !f.Passed(e): // the follower tells what became of it
		case e.Restored():
			continue
		case w.subs.byName(f, key), held && e.HoldsVersion(v), e.Resource() == nil:
			f.compared(key)
		case !p.writer.add(e, e.Resource(), f.name.of(e), false):
			return
		default:
			p.cluster(e.Resource(), false)
			f.compared(key)
		}
		f.withheld = smallmap.Without(f.withheld, key)
		p.look()
	}
}

// confirmed makes content due that was withheld, and tells readers that the mark is gone.
func (n *nameSub) confirmed() {
	w := n.typeSub
	switch {
	case n.withheld, w.place.reads():
		n.repeat()
	case w.list.mayHaveAll(), w.place.subscriber == nil: // its list, or its poll, waits for it
		w.ring()
	}
}
