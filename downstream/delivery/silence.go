package delivery

import "github.com/xdsrelay/xdsrelay/cache"

// A client may have a resource by a collection and name it too, while the server has not
// answered the name. If the collection loses the resource, the answer tells what became of it:
// it may bring the resource at once. A server may stay silent of the name (RES-7). Then the
// client is told what the collection lost.

// unheld records that the client was told of a member's removal. A name of it that is not
// answered yet does not stand for held content any more (RES-11).
func (p *delivery) unheld(w *typeSub, key, name string) {
	if !w.subs.names.named(key) {
		return
	}
	w.held.drop(key)
	if sub := w.subs.names.get(name); sub != nil && sub.entry.Key() == key {
		sub.holds, sub.absenceDue = false, false
	}
}

// tellsLost reports whether the client is to be told of a member that a collection lost while
// the name was not answered, and that the server stayed silent of: see leaveToName.
func (n *nameSub) tellsLost() bool {
	c := n.typeSub.place
	return n.entry.Marks().Overdue && n.takesAway() && c.incremental()
}

// lateLoss makes due what the client was not told because the name's answer might have come.
func (n *nameSub) lateLoss() {
	if !n.entry.Exists() && n.takesAway() {
		n.makeDue()
	}
}

// toldGone reports whether the client was told of the removal of a member by its name, which an error
// leaves open (ERR-1): a name knows what the client holds by its globs.
func (i *nameIndex) toldGone(e *cache.Entry) bool {
	named := false
	for sub := range i.subsOf(e.Key()) {
		if named = sub.entry == e; !named || sub.holds {
			return false
		}
	}
	return named
}

// lost has the client's subscriptions to a name tell that a collection lost the member, unless their
// answer tells what became of it. If the server stays silent of the name, that is due now.
func (i *nameIndex) lost(key string) {
	for sub := range i.subsOf(key) {
		if sub.entry.Open() {
			sub.absenceDue, sub.holds = true, true
			if sub.entry.Marks().Overdue {
				sub.makeDue()
			}
		}
	}
}

// tooLate tells a reader that the relay waits for a name no longer.
func (n *nameSub) tooLate() {
	if c := n.typeSub.place; c.reads() {
		c.late = append(c.late, Late{n.typeSub.typeURL, n.entry.Key()})
	}
}

func (f *follower) Overdue() {
	if c := f.typeSub.place; c.reads() {
		c.late = append(c.late, Late{f.typeSub.typeURL, f.Collection().Key()})
	}
}
