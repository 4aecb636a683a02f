package delivery

import "github.com/xdsrelay/xdsrelay/cache"

// handOver makes the content due for a name's client, unless the client has it.
func (n *nameSub) handOver(h cache.Handover) {
	switch retimed := h.Timed && n.typeSub.place.form.TTL; {
	case n.typeSub.list.full && h.Listed && !retimed:
	case n.typeSub.list.full:
		n.push()
	case !h.Again || n.askedAgain || retimed:
		n.typeSub.changed.handedOver.add(n, h.Resource)
		n.push()
	}
}

// HandOver does so for a collection's client.
func (f *follower) HandOver(e *cache.Entry, h cache.Handover) {
	_, owed := f.typeSub.answers[e.Key()]
	switch retimed := h.Timed && f.typeSub.place.form.TTL; {
	case f.typeSub.list.full && h.Listed && !retimed && f.Sent() >= h.Level:
		f.Advance(e) // no list is due for it (STR-7)
		f.since++
	case f.typeSub.list.full:
	case !h.Again || owed || f.Begun() >= h.Before || retimed:
		f.handedOver.add(e, h.Resource)
	}
}

// askFor has the server asked again if the client needs the content of the name, and the relay
// has not kept it.
func (n *nameSub) askFor() {
	e, w := n.entry, n.typeSub
	if e.State() != cache.Transient || w.changed.handedOver[n] != nil || (w.list.full && e.Listed() != nil) {
		return
	}
	n.askedAgain = true
	w.place.store.Table(w.typeURL, cache.ByName).AskFor(e)
}

// forgetGone forgets the content of resources that are no members any more.
func forgetGone(f *follower) {
	for e := range f.handedOver {
		if !e.Member() || e.Collection() != f.Collection() {
			f.handedOver.drop(e)
		}
	}
}

// lapses reports whether a late heartbeat comes too late: there is no content to send in its
// place, in a list neither if the client is sent whole lists. It records that: a Collect changes
// nothing but its own client, and the server is asked afterwards.
func (r *renewals) lapses(l lapsed, lists bool) bool {
	if l.entry.State() == cache.Present || (lists && l.entry.Listed() != nil) {
		return false
	}
	r.lapsed = append(r.lapsed, l)
	return true
}

// askForLapsed has the server asked for the lapsed resources of the Collect that ended. The
// caller holds no lock: newer content may have come since, and goes out by itself.
func (c *Place) askForLapsed() {
	for _, w := range c.types {
		if len(w.renewals.lapsed) > 0 {
			c.store.Edit(func() { askForLapsed(w) })
		}
	}
}

// askForLapsed does so for one type. The caller holds the store's lock.
func askForLapsed(w *typeSub) {
	for _, l := range w.renewals.lapsed {
		switch e := l.entry; {
		case e.State() != cache.Transient:
		case l.sub != nil:
			l.sub.askFor()
		case e.Collection() == l.follower.Collection():
			w.answer(cache.Name{Spelling: l.follower.name.of(e), Key: e.Key()})
		}
	}
	w.renewals.lapsed = nil
}
