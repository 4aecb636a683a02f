package cache

import (
	"maps"
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// movedVersion is what a client of whole lists counts as having shown that came from
// another scope: no version of this one.
const movedVersion = "\x00moved"

// arrive begins subscriptions that were taken out of another store.
func (w *watch) arrive(d *Departed) {
	for _, sub := range d.subs {
		w.subscribe(sub.name)
		switch {
		case sub.name.Key == Wildcard:
			w.wildcard.arrive(sub.held)
		case keyer.IsGlob(sub.name.Key):
			w.globs[sub.name.Spelling].arrive(sub.held)
		default:
			w.arriveName(sub)
		}
	}
	for _, n := range d.owed {
		w.answer(n)
	}
	if d.list && w.full {
		w.listed, w.relist, w.moving, w.presented = false, true, true, movedVersion
	}
	d.subs, d.owed = nil, nil
}

func (w *watch) arriveName(d departed) {
	sub := w.names.get(d.name.Spelling)
	if d.variant != (wire.Variant{}) {
		w.tellVariants()
		w.variants.swap(sub, d.variant)
	}
	if d.was == nil {
		return
	}
	sub.setForeign(d.was)
	sub.holds = true
	sub.lateAlready()
}

func (f *cursor) arrive(held *foreign) {
	if held == nil {
		return
	}
	f.moved, f.told = held, true
}

// holdsForeign reports whether the client holds something of another scope under the name.
func (n *nameSub) holdsForeign() bool { return n.was != nil && n.was != forgone }

// setForeign notes what the client holds of another scope.
func (n *nameSub) setForeign(was *wire.Resource) {
	if n.holdsForeign() {
		n.watch.foreign--
	}
	n.was = was
	if n.holdsForeign() {
		n.watch.foreign++
	}
}

// givesUp has the client told that there is nothing here, though nobody said so: it holds
// what is another scope's, and the server was given its time (RES-7).
func (n *nameSub) givesUp() {
	w := n.watch
	if !n.holdsForeign() || (w.client.form.State && !w.full) {
		return
	}
	n.denied = true
	if !n.dirty {
		n.dirty = true
		w.dirty = append(w.dirty, n)
	}
}

// nothingHere reports whether it is known that there is no such resource here.
func (n *nameSub) nothingHere() bool {
	e := n.entry
	return !e.there() && (!e.open() || e.overdue || n.denied)
}

// gated reports whether the removal of what is another scope's has to wait for later types.
func (n *nameSub) gated() bool { return n.holdsForeign() && !n.watch.buries() }

// buries reports whether what is another scope's and does not exist here may be removed:
// not before all later types of the stream were sent what took the place of theirs, and
// acknowledged it (ADS-1).
func (w *watch) buries() bool { return !w.rank.waits() || w.client.unsettled <= w.rank }

// pending reports whether the client holds something of which it is not known, or was not
// told, what it is here.
func (w *watch) pending() bool { return w.awaits((*cursor).pending) }

// unseen reports whether something of the new scope is still to come that later types may
// need. A collection that was answered need not be synced for that: servers send in order
// what refers to each other, and what waited for the quiet time would get old by it.
func (w *watch) unseen() bool { return w.awaits((*cursor).unseen) }

// awaits reports whether a list of the new scope, a name, or a collection is waited for: of
// tells which.
func (w *watch) awaits(of func(*cursor) bool) bool {
	if w.full {
		return w.moving
	}
	for f := range w.cursors() {
		if of(f) {
			return true
		}
	}
	if w.foreign == 0 {
		return false
	}
	for sub := range w.names.all() {
		if sub.holdsForeign() && !sub.nothingHere() {
			return true
		}
	}
	return false
}

func (f *cursor) pending() bool { return f.moved != nil && !f.moved.over }
func (f *cursor) unseen() bool  { return f.pending() && !(f.coll.begun() && f.level()) }

// begun reports whether the server has said something of the type since it was asked.
func (c *collection) begun() bool { return c.synced || !c.answered.IsZero() }

// stays reports whether nothing of a type is sent now: the client holds other scopes'
// contents of it, and of an earlier type, which go first (ADS-1).
func (w *watch) stays() bool { return w.client.moving && w.client.first < w.rank && w.pending() }

// moved reports whether the client holds something of another scope because of a
// collection.
func (w *watch) moved() bool {
	for f := range w.cursors() {
		if f.moved != nil {
			return true
		}
	}
	return false
}

// compares reports whether the cursor comes to a member for the first time since the client
// follows: then what it holds of another scope is compared with it. Where nobody knows it
// counts as another one.
func (f *cursor) compares(e *entry) bool {
	return f.moved != nil && !f.moved.doubt && e.changed > f.sent && (e.changed <= f.born || e.added > f.reached)
}

// hasForeign reports whether the client has a member already, from another scope.
func (f *cursor) hasForeign(e *entry) bool {
	if f.moved == nil && f.watch.foreign == 0 {
		return false
	}
	if sub := f.watch.names.get(f.spell(e)); sub != nil {
		return e.is(sub.was)
	}
	return f.compares(e) && !meant(f.moved.doubted, e.key) && e.is(f.moved.get(e.key))
}

// adopt has the variants of what the client was sent in another scope be those of a member
// here: they are removed with it, or by what takes its place (DYN-1).
func (f *cursor) adopt(e *entry) {
	if f.moved == nil {
		return
	}
	if v, ok := f.moved.variants[e.key]; ok {
		delete(f.moved.variants, e.key)
		f.watch.tellVariants()
		f.watch.variants.swap(e, v)
	}
}

// conclude works out what of another scope does not exist here, once every member was
// compared and there are no others.
func (f *cursor) conclude() {
	h := f.moved
	if h == nil || h.over || !f.level() || !f.coll.told() {
		return
	}
	left := h.all()
	for key := range left {
		if e := f.coll.table.entries[key]; (e != nil && f.passed(e)) || f.watch.named(key) || f.byName(key) {
			delete(left, key)
		}
	}
	h.base, h.own, h.over, h.doubt = nil, left, true, false
	f.endMove()
}

// told reports whether it is known that there are no other members. A server's silence
// does not say that: one that takes long would empty all clients that were moved to it.
// But in the state of the world there is no other word for it, save in whole lists (RES-7).
func (c *collection) told() bool {
	source := &c.table.store.source
	return c.synced || (c.overdue && source.State && !source.FullState[c.table.typeURL])
}

// conclude does so for all collections that the client follows: also of a type whose
// acknowledgement is awaited, since others may wait for what there is of it.
func (c *Client) conclude() {
	if !c.moving {
		return
	}
	for _, w := range c.watches {
		for f := range w.cursors() {
			f.conclude()
		}
	}
}

// endMove forgets that there was another scope, once nothing is left of it: maybe before
// the collection is synced, if all that the client held is here.
func (f *cursor) endMove() {
	if f.moved != nil && f.moved.empty() {
		f.moved = nil
	}
}

// foreignDue reports whether something is left of another scope that is to be removed now.
// In the state of the world there is no word for it but a list.
func (f *cursor) foreignDue() bool {
	w := f.watch
	return f.moved != nil && f.moved.over && (w.full || !w.client.form.State) && w.buries()
}

// buryForeign removes what of another scope does not exist here; false if there is no room.
func (p *pass) buryForeign(w *watch, f *cursor) bool {
	h := f.moved
	for _, key := range slices.Sorted(maps.Keys(h.own)) {
		if !w.named(key) && !f.byName(key) && !p.removeForeign(w, f, key) {
			return false
		}
		h.forget(key)
		w.answered(key)
	}
	f.moved = nil
	return true
}

// removeForeign removes one. In "*" it has the name that it came with.
func (p *pass) removeForeign(w *watch, f *cursor, key string) bool {
	name := f.spellForeign(key, f.moved.own[key])
	v, constrained := f.moved.variants[key]
	if !p.room(len(name) + nameOverhead + sizeGone(v)) {
		return false
	}
	if constrained && v.Constraints != "" {
		p.leave(v)
		if w.variants != nil && w.variants.aware {
			return true
		}
	}
	return p.remove(name)
}

// stillForeign are what lists go on holding of another scope (ADS-1).
func (w *watch) stillForeign() []kept {
	if w.buries() {
		return nil
	}
	var all []kept
	for sub := range w.names.all() {
		if sub.holdsForeign() && sub.was != unsure && sub.nothingHere() {
			all = append(all, kept{sub.was, sub.shown(), keptSum(sub.entry.key, sub.was)})
		}
	}
	for f := range w.cursors() {
		for key, r := range f.moved.all() {
			if e := f.coll.table.entries[key]; r != unsure && !w.named(key) && !f.byName(key) && (e == nil || e.coll != f.coll || e.dead) {
				all = append(all, kept{r, f.spellForeign(key, r), keptSum(key, r)})
			}
		}
	}
	slices.SortFunc(all, kept.byName)
	return all
}

func (f *cursor) spellForeign(key string, r *wire.Resource) string {
	if f.coll.wildcard() && r.Name != "" {
		return r.Name
	}
	return f.spellKey(key)
}

// listForeign notes that the client has a list, and what of other scopes it still holds.
func (w *watch) listForeign() {
	w.moving = false
	for f := range w.cursors() {
		if f.conclude(); f.moved != nil && w.buries() {
			f.moved = nil
		}
	}
	if w.foreign == 0 {
		return
	}
	for sub := range w.names.all() {
		if sub.holdsForeign() && !(sub.was != unsure && sub.nothingHere() && sub.gated()) {
			sub.setForeign(nil)
		}
	}
}
