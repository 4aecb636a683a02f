package delivery

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/ack"
)

// What a client rejects with several resources in one response it does not use, though most of
// them may be good. They are sent once more in halves, and halved again, until what the client
// rejects stands alone (ACK-3). The rest of this file is what it takes to know, when a
// rejection comes, what the response held: a range of changes of each collection, and a mark on
// each name. Nothing is kept of what was acknowledged.

// Rejected tells that the client rejected a response that came from a place. What is still
// current of the response is due again, in halves: the next Collect sends it. A resource that
// stood alone, and a list, are offered again when there is a reason to (offer). It reports whether
// resources go once more.
func (s *Subscriber) Rejected(place *Place, b *Batch) (parts bool) {
	w, f := place.find(b.TypeURL), &b.flight
	s.refuses(b)
	if w == nil || w.list.full || (f.group() != nil && f.group().last) {
		return false
	}
	var items []item
	var removed []string
	place.store.View(func() { items, removed = f.current(w) })
	if len(items)+len(removed) > 0 {
		place.store.Edit(func() { w.rejections().reject(items, removed, b.content) })
	}
	return len(items) > 1
}

// reject has resources and removals go once more that the client rejected together. of are the changes
// of the response.
func (a *rejections) reject(items []item, removed []string, of ack.Span) {
	if len(removed) > 0 {
		a.add(group{removed: removed, last: true, partOf: of})
	}
	switch half := len(items) / 2; len(items) {
	case 0:
	case 1:
		a.rejectAlone(items[0])
	default:
		a.add(group{items: items[:half:half], partOf: of})
		a.add(group{items: items[half:], partOf: of})
	}
}

// Accepted tells that the client accepted a response that came from a place. If that removed
// something, what the client rejected is tried once more: what is gone may have stood in its
// way. It reports whether something is due for that, or because of what the response brought.
func (s *Subscriber) Accepted(place *Place, b *Batch) (due bool) {
	w := place.find(b.TypeURL)
	due = s.accepts(b.TypeURL) // ttls may have been renewed since (TTL-3)
	if g := b.flight.group(); w != nil && (g != nil || w.again != nil && len(w.again.alone) > 0) {
		place.store.Edit(func() {
			if g == nil {
				g = &group{items: b.flight.amongOthers(w)}
			}
			g.accept(w)
		})
	}
	if b.Leads() && s.Offer() {
		due = true
	}
	if w == nil || w.again == nil || !b.flight.removed {
		return due
	}
	place.store.Edit(func() {
		for key, r := range w.again.alone {
			switch {
			case !r.current(w):
				w.again.drop(key)
			case r.tried:
			case r.out:
				r.tried = true // the client answers in order: what it has not answered was offered behind the removal
			default:
				r.tried, r.out = true, true
				w.again.add(group{items: []item{r.item}})
			}
		}
	})
	return due || w.again.due()
}

// Rejects reports whether rejected resources of a type are left: some that go once more, or
// some that were rejected alone and are still current.
func (s *Subscriber) Rejects(typeURL string) bool {
	return slices.ContainsFunc(s.places, func(c *Place) (left bool) {
		w := c.find(typeURL)
		if w == nil || w.again == nil {
			return false
		}
		c.store.View(func() {
			left = w.again.due()
			for _, r := range w.again.alone {
				left = left || r.current(w)
			}
		})
		return left
	})
}

// current returns the content of the response that is still current, and the names that it
// removed.
func (f *flight) current(w *typeSub) (items []item, removed []string) {
	if g := f.group(); g != nil {
		for _, i := range g.items {
			if i.current(w) {
				items = append(items, i)
			}
		}
		return items, g.removed
	}
	for s := range f.spans() {
		if w.subs.following(s.follower.Collection()) != s.follower {
			continue
		}
		for e := s.follower.Collection().After(s.from); e != nil && e.Changed() <= s.to; e = e.Next() {
			switch sub := s.stoodFor(e, f.number); {
			case e.Resource() == nil, s.follower.hides(e):
			case sub != nil:
				items = append(items, item{entry: sub.entry, sub: sub, changed: sub.entry.Changed()})
			case !w.subs.byName(s.follower, e.Key()):
				items = append(items, item{entry: e, changed: e.Changed()})
			}
		}
	}
	for sub := range w.subs.names.all() {
		if e := sub.entry; sub.response == f.number && (!sub.dirty || sub.heartbeat) && e.Resource() != nil {
			items = append(items, item{entry: e, sub: sub, changed: e.Changed()})
		}
	}
	return items, f.gone()
}

// amongOthers returns what the client rejected alone before, of a response that is no group: it asked for it again.
func (f *flight) amongOthers(w *typeSub) (items []item) {
	for _, r := range w.again.alone {
		if e := r.entry; r.sub != nil && r.sub.response == f.number && (!r.sub.dirty || r.sub.heartbeat) {
			items = append(items, r.item)
		} else if r.sub == nil {
			for s := range f.spans() {
				if c := s.follower.Collection(); c == e.Collection() && w.subs.following(c) == s.follower &&
					s.from < e.Changed() && e.Changed() <= s.to && !s.follower.hides(e) && !w.subs.byName(s.follower, e.Key()) {
					items = append(items, r.item)
				}
			}
		}
	}
	return items
}

// stoodFor returns the name for which a member stood in, if the client was sent nothing by that
// name since: the member counted as its answer, and goes once more.
func (s *span) stoodFor(e *cache.Entry, response uint32) *nameSub {
	w := s.follower.typeSub
	sub := w.subs.names.get(s.follower.name.of(e))
	if sub == nil || sub.entry.Open() || sub.response >= response || !sub.entry.HoldsVersion(e.Version()) {
		return nil
	}
	if sub.dirty && !sub.heartbeat {
		w.held.drop(sub.entry.Key()) // it is sent anyway
		return nil
	}
	return sub
}

// again sends the groups that go once more, each in a response of its own.
func (p *delivery) again(w *typeSub) {
	a := w.again
	if a == nil {
		return
	}
	for len(a.queue) > 0 {
		g := a.queue[0]
		g.items = slices.DeleteFunc(slices.Clone(g.items), func(i item) bool { return !i.current(w) })
		if !p.group(w, &g) {
			return
		}
		for _, i := range a.queue[0].items {
			delete(a.pending, i.entry)
		}
		a.queue[0] = group{}
		a.queue = a.queue[1:]
	}
	a.queue = nil
	if len(a.alone) == 0 && a.list == nil {
		w.again = nil
	}
}

// group sends one group. It returns false if there is no room for a response.
func (p *delivery) group(w *typeSub, g *group) bool {
	p.writer.single = g
	defer func() { p.writer.single, p.writer.typeSub, p.writer.cur = nil, nil, nil }()
	for _, i := range g.items {
		p.writer.begin(w, i.table(w))
		var name string
		if i.sub != nil {
			name = i.sub.sentName()
		} else {
			name = w.subs.following(i.entry.Collection()).name.of(i.entry)
		}
		if !p.writer.add(i.entry, i.entry.Resource(), name, false) {
			return false
		}
		p.cluster(i.entry.Resource(), false)
		if p.writer.cur != nil {
			p.writer.cur.flight.news = true // the client uses nothing of what it rejected
		}
	}
	for _, name := range g.removed {
		p.writer.begin(w, w.place.store.FindTable(w.typeURL, w.subs.anyKind()))
		if !p.writer.remove(name) {
			return false
		}
	}
	return true
}
