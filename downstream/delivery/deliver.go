package delivery

import "slices"

// deliver carries out the steps in one store, up to the change with the number seen. It reports
// whether something is left that could be sent.
func (c *Place) deliver(p *delivery, steps []step, seen uint64) (more bool) {
	p.upTo = seen
	for _, st := range steps {
		w := c.find(st.typeURL)
		if w == nil {
			continue
		}
		p.step(w, st)
		if p.writer.full {
			more = true // a later type must not overtake what is left
			break
		}
	}
	return more
}

func (p *delivery) step(w *typeSub, st step) {
	removable, all := min(p.upTo, w.progress.removable(w.removalsWait)), false
	switch st.what {
	case sendRenewals:
		renewer{&p.writer}.all(w)
	case sendAgain:
		p.again(w)
	case sendAdditions, sendOvertaken:
		p.noHeartbeats = st.what == sendOvertaken
		p.additions(w)
		p.again(w) // what was put off, last and alone
		all = w.rank.Waits() || !w.removalsDue()
	case sendChanges:
		w.place.format.skip(w) // what became due since the survey
		p.noHeartbeats = true
		p.additions(w)
		p.stateErrors(w, removable)
		p.again(w)
		all = true
	case sendRemovals:
		p.removals(w, removable)
		all = w.rank.Waits() || !w.removalsDue()
	case sendLastRemovals:
		p.writer.removing = true
		p.removals(w, removable)
		p.writer.removing = false
	case sendList:
		p.list(w, st, removable)
		all = true
	}
	if all && !p.writer.full {
		w.progress.sent = min(p.upTo, w.place.store.Revision())
	}
}

// wildcardsLast orders the places. A place that follows "*" comes after those with names: its
// lists leave out what the others name (parts.named).
func wildcardsLast(clients []*Place) []int {
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

func (c *Place) followsWildcard() bool {
	return slices.ContainsFunc(c.types, func(w *typeSub) bool { return w.subs.wildcard != nil })
}
