package delivery

import "github.com/xdsrelay/xdsrelay/cache"

// needs returns what the client's subscriptions to the type need of the store.
func (w *typeSub) needs() cache.Needs {
	var n cache.Needs
	form := w.place.form
	if !w.place.reads() {
		n |= cache.NeedsStream
	}
	if form.TTL {
		n |= cache.NeedsTTL
	}
	if form.State {
		n |= cache.NeedsDigests
	}
	if w.concludes() {
		n |= cache.NeedsBreaks
	}
	return n
}

// concludes reports whether the client takes a quiet time for the end of a collection: it is a relay. A list
// has everything, and waits for that.
func (w *typeSub) concludes() bool { return w.place.form.Relay && !w.list.full }

// ring has the type collected.
func (w *typeSub) ring() { w.place.store.Ring(&w.bell) }

// hears reports whether new content goes to the client now: it does not while the client waits
// for more (RES-2).
func (w *typeSub) hears(asked *cache.Asked) bool {
	return asked.Enough() || !(w.lacksAll() || w.lacksHeld())
}

// Hears reports whether new members go to the client now.
func (f *follower) Hears(asked *cache.Asked) bool { return f.typeSub.hears(asked) }

// AwaitsMembers reports whether the client waits for the collection to be complete.
func (f *follower) AwaitsMembers() bool {
	return !f.held.none() || len(f.withheld) > 0 || len(f.typeSub.answers) > 0 || !f.answered || f.broken > 0 || f.typeSub.place.reads()
}

// reads reports whether the place is a reader's.
func (c *Place) reads() bool { return c.own }

// lacksHeld reports whether the client's first list would lack what it may hold, or hold what is
// restored: the client showed a version when its stream began (RES-2, SUR-1). The clients of a
// relay may hold anything. A name that is restored goes to a relay as to a new client.
func (w *typeSub) lacksHeld() bool {
	if !w.list.awaited() {
		return false
	}
	lacks := !w.subs.known()
	if w.list.presented == "" {
		return lacks && w.place.form.Relay
	}
	return lacks || w.awaitsWord()
}

// lacksAll reports whether nothing is known for the client's first list: it would delete
// everything (ABS-3).
func (w *typeSub) lacksAll() bool { return w.list.awaited() && !w.subs.anyKnown() }

// incremental reports whether c is a stream of the incremental form.
func (c *Place) incremental() bool { return !c.form.State && !c.reads() }

// observe counts a subscription. A reader's was counted where a client asked.
func (c *Place) observe(typeURL string, hit bool) {
	if !c.reads() {
		c.store.CountLookup(typeURL, hit)
	}
}
