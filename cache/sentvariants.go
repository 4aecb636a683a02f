package cache

import (
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// sentVariants is what a client was sent with dynamic parameter constraints, and under
// which: a removal has to say them (DYN-1). A client that subscribes to a name with
// several sets of parameters, such as another relay, may have several variants, and
// one variant for several of its subscriptions. Of a client that was sent none there is
// nothing.
type sentVariants struct {
	aware   bool                 // the client uses parameters, and tells variants apart: all that it names is here
	by      map[any]wire.Variant // by *nameSub, or *entry of a member
	holders map[wire.Variant]int
	left    []wire.Variant // of subscriptions that ended, until Client.Update is through
	surplus []wire.Variant // the client may have them beside what it was sent later, and is to be told
}

// swap notes what the client has now of one of its subscriptions, nothing if now is the
// zero value, and returns what it has not any more of any of them.
func (s *sentVariants) swap(who any, now wire.Variant) (gone wire.Variant) {
	was, had := s.by[who]
	if had && was == now {
		return wire.Variant{}
	}
	if had {
		delete(s.by, who)
		if s.holders[was]--; s.holders[was] == 0 {
			delete(s.holders, was)
			gone = was
		}
	}
	if now != (wire.Variant{}) {
		s.by[who] = now
		s.holders[now]++
	}
	if s.holders[gone] > 0 {
		return wire.Variant{} // it is what the client has now
	}
	return gone
}

// addVariant is add for one of the client's subscriptions, with room for the removal of
// what r replaces (RES-9).
func (p *pass) addVariant(who any, e *entry, r *wire.Resource, name string, pushed bool) bool {
	if v := p.watch.variants; v != nil {
		if was, had := v.by[who]; had && !p.room(r.Size()+len(name)+nameOverhead+ttlOverhead+sizeGone(was)) {
			return false
		}
	}
	if !p.add(e, r, name, pushed) {
		return false
	}
	p.variantSent(who, r, name)
	return true
}

// variantSent notes that the client was sent r, for a subscription by name or as a
// member, and has what it replaces removed in the same response: to the client it is
// one update. The state of the world has no word for that.
func (p *pass) variantSent(who any, r *wire.Resource, name string) {
	w := p.watch
	if (w.variants == nil && !r.Constrained()) || w.client.form.State {
		return
	}
	w.tellVariants()
	_, named := who.(*nameSub)
	now := wire.Variant{Name: name, Constraints: r.Constraints()}
	// A client with parameters has to be told of what had no constraints, too; others
	// would take it for the removal of what they are sent.
	switch {
	case now.Constraints == "" && !(w.variants.aware && named):
		now = wire.Variant{}
	case !named:
		now.Name = strings.Clone(name) // it may lie in the bytes of r, which may go
	}
	if gone := w.variants.swap(who, now); gone != (wire.Variant{}) && p.cur != nil {
		p.leave(gone)
	}
}

// leave has a variant removed at the end of the pass that the client is not to have any
// more. It takes its room in the batch now (RES-9).
func (p *pass) leave(gone wire.Variant) {
	p.cur.owed += int32(sizeGone(gone)) // no more than what a response holds: room counts it
	p.gone = append(p.gone, goneVariant{p.watch, p.cur, gone})
}

// sizeGone is what the removal of a variant takes in a response.
func sizeGone(v wire.Variant) int { return len(v.Name) + len(v.Constraints) + 2*nameOverhead }

// goneVariant is one that no subscription of a client has any more, as it was when a
// batch was filled.
type goneVariant struct {
	watch   *watch
	batch   *Batch
	variant wire.Variant
}

// sayGone removes the variants that are gone at the end of the pass: one that one
// subscription left may be what another one was sent later.
func (p *pass) sayGone() {
	for _, g := range p.gone {
		if s := g.watch.variants; s != nil && s.holders[g.variant] > 0 {
			continue
		}
		if g.variant.Constraints != "" || !g.batch.Body.Removes(g.variant.Name) {
			g.batch.Body.RemoveVariant(g.variant)
		}
	}
	p.gone = nil
}

// tellVariants begins to note what the client was sent.
func (w *watch) tellVariants() {
	if w.variants == nil {
		w.variants = &sentVariants{by: make(map[any]wire.Variant), holders: make(map[wire.Variant]int)}
	}
}

// usesParameters notes that the client does, of whatever type: from now on it is told
// of all that it named.
func (c *Client) usesParameters() {
	if c.located || c.form.State {
		return
	}
	c.located = true
	for _, w := range c.watches {
		w.tellAll()
	}
}

// tellAll begins to note all that the client was sent by name.
func (w *watch) tellAll() {
	w.tellVariants()
	w.variants.aware = true
	for sub := range w.names.all() {
		if _, noted := w.variants.by[sub]; sub.holds && !noted {
			w.variants.swap(sub, wire.Variant{Name: sub.shown()})
		}
	}
}

// removeVariant is remove for what the client may have been sent with constraints. A
// client that does not use parameters is told the name, too, since it may know nothing
// of variants.
func (p *pass) removeVariant(who any, located bool, name string) bool {
	w := p.watch
	if w.variants == nil {
		return p.remove(name)
	}
	was, had := w.variants.by[who]
	if !had || was.Constraints == "" {
		if !p.remove(name) {
			return false
		}
		w.variants.swap(who, wire.Variant{})
		return true
	}
	if w.variants.holders[was] > 1 && (w.variants.aware || located) {
		w.variants.swap(who, wire.Variant{})
		return true // another one of its subscriptions has it: the client sees that this one has not
	}
	if !p.room(sizeGone(was) + len(name) + nameOverhead) {
		return false
	}
	if gone := w.variants.swap(who, wire.Variant{}); gone != (wire.Variant{}) {
		p.leave(gone)
	}
	return w.variants.aware || located || p.remove(name)
}

// forgetVariant notes that a subscription ended.
func (w *watch) forgetVariant(who any) {
	if w.variants != nil {
		if gone := w.variants.swap(who, wire.Variant{}); gone != (wire.Variant{}) {
			w.variants.left = append(w.variants.left, gone)
		}
		w.tidyVariants()
	}
}

// bequeath has other subscriptions to a name know what those had that ended: the client
// keeps a variant as long as it matches one of them, and has to be told when it is gone.
func (w *watch) bequeath() {
	if w.variants == nil {
		return
	}
	if w.names.len() == 0 {
		w.variants.surplus = nil // there is nothing that they match
	}
	if len(w.variants.left) == 0 {
		return
	}
	left := w.variants.left
	w.variants.left = nil
	subs := make(map[string][]*nameSub)
	for _, v := range left {
		subs[v.Name] = nil
	}
	for sub := range w.names.all() {
		name := sub.shown()
		if others, ok := subs[name]; ok {
			subs[name] = append(others, sub)
		}
	}
	for _, v := range left {
		if w.variants.holders[v] == 0 {
			w.inheritVariant(v, heirs(v, subs[v.Name]))
		}
	}
}

// heirs are those of the subscriptions to its name that a variant matches.
func heirs(v wire.Variant, subs []*nameSub) []*nameSub {
	if len(subs) == 0 {
		return nil
	}
	c, err := keyer.ParseConstraints([]byte(v.Constraints))
	if err != nil {
		return nil // it was parsed when it came
	}
	return slices.DeleteFunc(slices.Clone(subs), func(sub *nameSub) bool { return !c.Match(wire.Parameters(sub.spelling)) })
}

// inheritVariant passes a variant on to those that were sent nothing so far: they have it
// until they are. If all were, it is removed.
func (w *watch) inheritVariant(v wire.Variant, heirs []*nameSub) {
	passed := false
	for _, sub := range heirs {
		if _, has := w.variants.by[sub]; has {
			continue
		}
		w.variants.swap(sub, v)
		sub.holds, passed = true, true
		if sub.entry.state != unknown && sub.entry.state != transient {
			sub.makeDue()
		}
	}
	if !passed && len(heirs) > 0 {
		w.variants.surplus = append(w.variants.surplus, v)
	}
}

// removeSurplus removes what the client need not have any more.
func (p *pass) removeSurplus(w *watch) {
	if w.variants == nil {
		return
	}
	for i, v := range w.variants.surplus {
		if !p.room(sizeGone(v)) {
			w.variants.surplus = w.variants.surplus[i:]
			return
		}
		p.leave(v)
	}
	w.variants.surplus = nil
}

// forgetMembers does so for a collection.
func (w *watch) forgetMembers(c *collection) {
	if w.variants == nil {
		return
	}
	for who := range w.variants.by {
		if e, ok := who.(*entry); ok && (e.coll == c || e.coll == nil) {
			w.variants.swap(who, wire.Variant{})
		}
	}
	w.tidyVariants()
}

func (w *watch) tidyVariants() {
	if len(w.variants.by) == 0 && !w.variants.aware {
		w.variants = nil
	}
}

// located reports whether the subscription has parameters.
func (n *nameSub) located() bool { return wire.IsLocator(n.spelling) }

// shown is the name as the client knows it.
func (n *nameSub) shown() string { return wire.LocatedName(n.spelling) }

// told is the name under which the client is told of the content: that of another resource
// if it is an alias (RES-10).
func (n *nameSub) told() string {
	if n.entry.alias && !n.watch.client.reads() {
		return n.entry.servedName()
	}
	return n.shown()
}

// variantName tells variants of one name apart, where one response must not hold
// anything twice (RES-4).
func variantName(name string, r *wire.Resource) string {
	if !r.Constrained() {
		return name
	}
	return name + "\x00" + r.Constraints()
}
