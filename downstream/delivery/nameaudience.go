package delivery

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/cache"
)

// audience is all subscriptions to one name.
type audience []*nameSub

// sole is the audience of a name with one subscription, as most names have: it takes no memory
// beside the subscription.
type sole nameSub

func (s *sole) audience() *audience { return &audience{(*nameSub)(s)} }

// audienceOf returns the subscriptions to the name of an entry.
func audienceOf(e *cache.Entry) *audience {
	switch a := e.Audience().(type) {
	case *audience:
		return a
	case *sole:
		return a.audience()
	}
	return new(audience)
}

// join adds the subscription to those to its name.
func (n *nameSub) join(others cache.Audience) cache.Audience {
	switch a := others.(type) {
	case *audience:
		n.pos = len(*a)
		*a = append(*a, n)
		return a
	case *sole:
		n.pos = 1
		return &audience{(*nameSub)(a), n}
	}
	n.pos = 0
	return (*sole)(n)
}

// leave takes the subscription out of those to its name.
func (n *nameSub) leave(others cache.Audience) cache.Audience {
	a, ok := others.(*audience)
	if !ok {
		return nil
	}
	last := len(*a) - 1
	(*a)[n.pos] = (*a)[last]
	(*a)[n.pos].pos = n.pos
	(*a)[last] = nil
	*a = (*a)[:last]
	if last == 1 {
		return (*sole)((*a)[0])
	}
	return a
}

func (s *sole) Notify(notice cache.Notice)    { s.audience().Notify(notice) }
func (s *sole) Any(needs cache.Needs) bool    { return s.audience().Any(needs) }
func (s *sole) Count(needs cache.Needs) int   { return s.audience().Count(needs) }
func (s *sole) Hears(asked *cache.Asked) bool { return s.audience().Hears(asked) }

// Notify makes what is due to each client due.
func (a *audience) Notify(notice cache.Notice) {
	for _, n := range *a {
		switch notice.Event {
		case cache.Changed:
			n.push()
		case cache.Removed:
			n.removed(&notice)
		case cache.Confirmed:
			n.confirmed()
		case cache.Renewed:
			n.renewed(notice.TTLRemoved)
		case cache.Erred:
			n.typeSub.changed.errors.add(n)
			n.typeSub.ring()
		case cache.Recovered:
			n.typeSub.changed.errors.drop(n)
		case cache.Overdue:
			n.tooLate()
			n.lateLoss()
			n.typeSub.ring()
		case cache.DigestChanged: // a part of the sum of what the client names
			n.typeSub.subs.names.sum = n.typeSub.subs.names.sum.Minus(notice.Was).Plus(notice.Is)
		}
	}
}

// removed makes it due that the name stands for nothing.
func (n *nameSub) removed(notice *cache.Notice) {
	if notice.Retained != nil && n.holds && n.typeSub.list.full {
		n.retained = notice.Retained
	}
	n.absenceDue = n.absenceDue || !n.entry.Open() || (notice.Again && n.dirty)
	n.expired = notice.Expired
	if !notice.Expired || !n.dropsByItself(notice.Content) {
		n.push()
	}
}

// renewed makes a heartbeat due if the client can do ttl. A client of the state of the
// world is sent the content if the server removed the ttl: nothing else says so (TTL-4).
func (n *nameSub) renewed(ttlRemoved bool) {
	switch form := n.typeSub.place.form; {
	case !form.TTL:
	case form.renewsWhole() && ttlRemoved:
		n.repeat()
	default:
		n.renew()
	}
}

// Any reports whether a subscription has some needs.
func (a *audience) Any(needs cache.Needs) bool {
	return slices.ContainsFunc(*a, func(n *nameSub) bool { return n.typeSub.needs().Has(needs) })
}

// Count counts the subscriptions that have some needs.
func (a *audience) Count(needs cache.Needs) int {
	if needs == 0 {
		return len(*a)
	}
	count := 0
	for _, n := range *a {
		if n.typeSub.needs().Has(needs) {
			count++
		}
	}
	return count
}

// Hears reports whether new content goes to one of the clients now.
func (a *audience) Hears(asked *cache.Asked) bool {
	return slices.ContainsFunc(*a, func(n *nameSub) bool { return n.typeSub.hears(asked) })
}

// end takes the subscription off its entry.
func (n *nameSub) end() {
	w := n.typeSub
	if w.needs().Has(cache.NeedsDigests) {
		w.subs.names.sum = w.subs.names.sum.Minus(n.entry.Digest())
	}
	n.ended, n.retained = true, nil
	w.changed.errors.drop(n)
	if n.dirty {
		w.changed.end()
	}
	w.place.store.FindTable(w.typeURL, cache.ByName).Unwatch(n.entry, w.needs(), n.leave)
}

// dropsByItself reports whether the subscription's client removes the expired resource without
// a word, and records that: the client can do TTL, was sent all that the relay knew, did not
// reject it, and waits for no answer. content is the number of the change that brought the
// content.
func (n *nameSub) dropsByItself(content uint64) bool {
	if !n.typeSub.place.form.TTL || !n.holds || n.dirty {
		return false
	}
	if n.typeSub.list.refused || n.typeSub.again.lacks(n.entry, content) {
		return false
	}
	n.holds, n.retained = false, nil
	return true
}
