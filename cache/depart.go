package cache

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// Departed are subscriptions to one type that were taken out of a store, for another one
// (Change.Moved), with what the client holds because of them.
type Departed struct {
	subs []departed
	owed []Name // what "*" was to answer (SUB-8)
	list bool   // the client has a list that a version stands for (RES-2)
}

// departed is one of them.
type departed struct {
	name    Name
	was     *wire.Resource // of a name; nil for nothing
	variant wire.Variant   // it was sent it under (DYN-1)
	held    *foreign       // of a collection
}

// Names lists them.
func (d *Departed) Names() []Name {
	names := make([]Name, len(d.subs))
	for i, sub := range d.subs {
		names[i] = sub.name
	}
	return names
}

// Holds reports whether the client may hold anything because of a subscription, by its
// spelling.
func (d *Departed) Holds(spelling string) bool {
	i := slices.IndexFunc(d.subs, func(sub departed) bool { return sub.name.Spelling == spelling })
	return i >= 0 && (d.subs[i].was != nil || !d.subs[i].held.none())
}

// none reports whether the client holds nothing.
func (h *foreign) none() bool { return h == nil || (len(h.all()) == 0 && !h.lost) }

// Depart takes subscriptions to a type out of the store without a word to the client: it
// keeps what it holds, and what it was to be told it will be told where it goes. Names
// that it does not subscribe to are ignored.
func (c *Client) Depart(typeURL string, names []Name) *Departed {
	s := c.store
	d := &Departed{}
	s.mu.Lock()
	if w := c.find(typeURL); w != nil {
		d.list = w.full && (w.listed || w.presented != "")
		for _, n := range names {
			w.depart(d, n)
		}
		w.tidyDeparted()
		if w.idle() {
			c.watches = slices.DeleteFunc(c.watches, func(o *watch) bool { return o == w })
		}
	}
	s.mu.Unlock()
	s.cache.trim()
	return d
}

func (w *watch) depart(d *Departed, n Name) {
	switch {
	case n.Key == Wildcard:
		if f := w.wildcard; f != nil {
			n.Spelling = f.name
			held := f.depart()
			if held != nil { // what is elsewhere now may end before "*" is anywhere again
				held.doubtAll(w.elsewhere)
			}
			d.subs = append(d.subs, departed{name: n, held: held})
			d.owed = append(d.owed, w.owedByWildcard()...)
			w.endWildcard()
			w.dropAnswers()
		}
	case keyer.IsGlob(n.Key):
		if g := w.globs[n.Spelling]; g != nil {
			d.subs = append(d.subs, departed{name: n, held: g.depart()})
			w.endGlob(n, g)
			w.dropAnswers()
		}
	default:
		if sub := w.names.get(n.Spelling); sub != nil {
			d.subs = append(d.subs, departed{name: n, was: sub.departs(), variant: w.takeVariant(sub)})
			w.endName(n, sub)
			if !w.named(n.Key) {
				w.held = without(w.held, n.Key)
			}
		}
	}
}

// owedByWildcard are the answers that only "*" owes.
func (w *watch) owedByWildcard() []Name {
	var names []Name
	for key, n := range w.answers {
		if w.globFor(key) == nil {
			names = append(names, n)
		}
	}
	return names
}

// takeVariant gives what the client was sent a name under, and forgets it.
func (w *watch) takeVariant(sub *nameSub) wire.Variant {
	if w.variants == nil {
		return wire.Variant{}
	}
	was := w.variants.by[sub]
	w.variants.swap(sub, wire.Variant{})
	return was
}

func (w *watch) tidyDeparted() {
	if w.variants != nil {
		w.tidyVariants()
	}
}

// departs is what the client holds because of a name.
func (n *nameSub) departs() *wire.Resource {
	e := n.entry
	switch {
	case n.was == forgone:
		return unsure
	case n.was != nil && !(n.dirty && n.pushed && e.there()):
		return n.was // of yet another scope
	case !n.holds && n.was == nil:
		return nil
	case n.dirty && !n.beat, n.lacks:
		return unsure
	}
	if _, held := n.watch.held[e.key]; held {
		return unsure // as it said itself
	}
	return e.content()
}

// depart is what the client holds because of the collection.
func (f *cursor) depart() *foreign {
	h := f.moved
	switch {
	case f.sent == 0 && f.reached == 0 && h == nil:
		h = &foreign{}
	case f.sent == 0 && f.reached == 0: // as it came
		h.over = false
	case h == nil || h.over:
		h = f.held(h)
	default:
		h = f.heldOfBoth(h)
	}
	for key := range f.versions.keys() {
		h.set(key, unsure)
	}
	for key := range f.watch.answers { // of "*" they go along (Departed.owed)
		if !f.coll.wildcard() && f.watch.globFor(key) == f {
			h.set(key, unsure)
		}
	}
	h.lost = h.lost || f.lost
	f.departVariants(h)
	if h.empty() {
		return nil
	}
	return h
}

// held is what the client holds that was sent all members at least once, and beside them
// what is left of a scope before. What it was not sent since it changed is uncertain.
func (f *cursor) held(left *foreign) *foreign {
	c := f.coll
	h := &foreign{base: c.holdings()}
	for e := c.live.after(f.sent, f.at, c); e != nil; e = e.next {
		switch {
		case !f.mayHave(e):
			h.set(e.key, nil)
		case !f.watch.full: // a list goes on holding what there is, for a moment (ADS-1)
			h.set(e.key, unsure)
		}
	}
	f.heldBuried(h)
	if left != nil {
		h.lost, h.doubted = left.lost, left.doubted
		for key, r := range left.own {
			h.set(key, r)
		}
	}
	return h
}

// heldBuried adds what was removed and the client was not told of.
func (f *cursor) heldBuried(h *foreign) {
	c := f.coll
	for e := c.tombs.after(f.removed, f.tomb, c); e != nil; e = e.next {
		switch {
		case f.drops(e) || !f.mayHave(e):
		case e.last != nil:
			h.set(e.key, e.last)
		default:
			h.set(e.key, unsure)
		}
	}
}

// heldOfBoth is held for a client that is on its way here from another scope, h, and was
// sent some of what is here. Nobody else may have the same.
func (f *cursor) heldOfBoth(h *foreign) *foreign {
	c := f.coll
	both := &foreign{own: h.all(), lost: h.lost, variants: h.variants, doubted: h.doubted}
	for e := c.live.head; e != nil; e = e.next {
		switch {
		case f.passed(e):
			both.set(e.key, e.content())
		case f.compares(e): // it still holds what it came with, if anything
		case f.mayHave(e) || both.own[e.key] != nil:
			both.set(e.key, unsure)
		}
	}
	f.heldBuried(both)
	return both
}

// departVariants takes along under which constraints the client was sent members.
func (f *cursor) departVariants(h *foreign) {
	s := f.watch.variants
	if s == nil {
		return
	}
	for who, v := range s.by {
		if e, member := who.(*entry); member && e.coll == f.coll {
			if h.variants == nil {
				h.variants = make(map[string]wire.Variant)
			}
			h.variants[e.key] = v
		}
	}
}
