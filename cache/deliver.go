package cache

import "slices"

// deliver carries out the steps of a pass in one store, up to the change that had the
// number seen. It reports whether something is left that could be sent.
func (c *Client) deliver(p *pass, steps []step, seen uint64) (more bool) {
	p.upTo = seen
	for _, st := range steps {
		w := c.find(st.typeURL)
		if w == nil {
			continue
		}
		p.step(w, st)
		if p.full {
			more = true // a later type must not overtake what is left
			break
		}
	}
	p.sayGone()
	return more
}

func (p *pass) step(w *watch, st step) {
	removable := min(p.upTo, w.removable())
	switch st.what {
	case sendRenewals:
		p.renewals(w)
	case sendAgain:
		p.again(w)
	case sendAdditions, sendOvertaken:
		p.forced = st.what == sendOvertaken
		if w.client.form.State {
			w.skipUntold() // what became due since the survey
			p.additions(w)
			p.stateErrors(w, removable)
		} else {
			p.additions(w)
		}
		p.forced = false
		p.again(w) // what was put off, last and alone
		if !p.full && (w.client.form.State || w.rank.waits() || !w.removalsDue()) {
			w.sentUpTo(p.upTo)
		}
	case sendRemovals:
		p.removals(w, removable)
		if !p.full {
			w.sentUpTo(p.upTo)
		}
	case sendLastRemovals:
		p.removing = true
		p.removals(w, removable)
		p.removing = false
	case sendList:
		p.list(w, st, removable)
		if !p.full {
			w.sentUpTo(p.upTo)
		}
	}
}

// sentUpTo notes that the client was sent everything of the type up to a number.
func (w *watch) sentUpTo(number uint64) { w.sent = min(number, w.client.store.seq) }

// wildcardsLast orders the places in stores: one that follows "*" comes after those with
// names, since it lists what they do not (watch.namedElsewhere).
func wildcardsLast(clients []*Client) []int {
	var order, last []int
	for i, c := range clients {
		if c.followsWildcard() {
			last = append(last, i)
		} else {
			order = append(order, i)
		}
	}
	return append(order, last...)
}

func (c *Client) followsWildcard() bool {
	for _, w := range c.watches {
		if w.wildcard != nil {
			return true
		}
	}
	return false
}

// skipUntold advances past what a state-of-the-world client is not told. Where responses
// need not be complete there is no word for a removal (RES-3) but an error, nor for a name
// or a glob that holds nothing; else it is what came and went between two lists.
func (w *watch) skipUntold() {
	for f := range w.cursors() {
		f.skipUntold(w)
	}
	if w.full {
		return
	}
	w.dirty = slices.DeleteFunc(w.dirty, func(sub *nameSub) bool {
		if !sub.ended && (sub.entry.there() || sub.entry.state == failed) {
			return false
		}
		w.handedOver.drop(sub)
		if !sub.ended && sub.tellsAbsence() {
			return false
		}
		sub.dirty, sub.pushed, sub.holds, sub.denied = false, false, false, false
		return true
	})
	w.ended = 0
	for key, n := range w.answers {
		if e, known := w.lookup(n); known && e == nil {
			w.answered(key)
		}
	}
}

func (f *cursor) skipUntold(w *watch) {
	c := f.coll
	f.skipErrors()
	if w.full && w.client.form.TTL {
		f.checkExpiry()
	}
	for e := c.tombs.after(f.removed, f.tomb, c); e != nil; e = e.next {
		if w.full && f.mayHave(e) && !f.byName(e.key) && !f.drops(e) { // TTL-2
			break
		}
		if !w.full && f.mayHave(e) && !f.byName(e.key) {
			f.leaveToGlob(e.key, f.spell(e))
		}
		f.since++
		f.removed, f.tomb = e.changed, e
		f.handedOver.drop(e)
	}
	if w.full {
		return
	}
	if f.behind() {
		f.dropGone()
	}
	f.removed, f.versions = max(f.removed, c.floor), nil
	if !c.wildcard() && c.knownEmpty() {
		f.told = true
	}
}
