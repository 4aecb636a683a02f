package delivery

import (
	"strings"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// addVariant is add for one of the client's subscriptions, with room for the removal of what r
// replaces (RES-9).
func (wr *writer) addVariant(who any, e *cache.Entry, r *wire.Resource, name string, pushed bool) bool {
	if v := wr.typeSub.variants; v != nil {
		if was, had := v.by[who]; had && !wr.room(r.Size()+len(name)+nameOverhead+ttlOverhead+sizeGone(was)) {
			return false
		}
	}
	if !wr.add(e, r, name, pushed) {
		return false
	}
	wr.variantSent(who, r, name)
	return true
}

// variantSent records that the client was sent r, for a subscription by name or as a member.
// The variant that r replaces is removed in the same response: to the client it is one update.
// The state of the world cannot express that.
func (wr *writer) variantSent(who any, r *wire.Resource, name string) {
	w := wr.typeSub
	if (w.variants == nil && !r.Constrained()) || w.place.form.State {
		return
	}
	w.variants = w.variants.begin()
	_, named := who.(*nameSub)
	now := wire.Variant{Name: name, Constraints: r.Constraints()}
	// A client with parameters has to be told of what had no constraints, too; others would
	// take it for the removal of what they are sent.
	switch {
	case now.Constraints == "" && !(w.variants.aware && named):
		now = wire.Variant{}
	case !named:
		now.Name = strings.Clone(name) // it may lie in the bytes of r, which may go
	}
	if gone := w.variants.swap(who, now); gone != (wire.Variant{}) && wr.cur != nil {
		wr.leave(gone)
	}
}

// leave has a variant that the client is not to have any more removed at the end of the
// delivery. It takes its room in the batch now (RES-9).
func (wr *writer) leave(gone wire.Variant) {
	wr.cur.owed += int32(sizeGone(gone)) // no more than what a response holds: room counts it
	wr.gone = append(wr.gone, goneVariant{wr.typeSub, wr.cur, gone})
}

// sizeGone is the size of a variant's removal in a response.
func sizeGone(v wire.Variant) int { return len(v.Name) + len(v.Constraints) + 2*nameOverhead }

// sayGone removes the variants that are gone at the end of the delivery: a variant that one
// subscription left may have been sent for another one later.
func (wr *writer) sayGone() {
	for _, g := range wr.gone {
		if s := g.typeSub.variants; s != nil && s.holders[g.variant] > 0 {
			continue
		}
		if g.variant.Constraints != "" || !g.batch.Body.Removes(g.variant.Name) {
			g.batch.Body.RemoveVariant(g.variant)
		}
	}
	wr.gone = nil
}

// removeVariant is remove for what the client may have been sent with constraints. A client
// that does not use parameters is told the name, too, since it may know nothing of variants.
func (wr *writer) removeVariant(who any, located bool, name string) bool {
	w := wr.typeSub
	if w.variants == nil {
		return wr.remove(name)
	}
	was, had := w.variants.by[who]
	if !had || was.Constraints == "" {
		if !wr.remove(name) {
			return false
		}
		w.variants.swap(who, wire.Variant{})
		return true
	}
	if w.variants.holders[was] > 1 && (w.variants.aware || located) {
		w.variants.swap(who, wire.Variant{})
		return true // another one of its subscriptions has it: the client sees that this one has not
	}
	if !wr.room(sizeGone(was) + len(name) + nameOverhead) {
		return false
	}
	if gone := w.variants.swap(who, wire.Variant{}); gone != (wire.Variant{}) {
		wr.leave(gone)
	}
	return w.variants.aware || located || wr.remove(name)
}

// removeSurplus removes variants that the client need not have any more.
func (wr *writer) removeSurplus(w *typeSub) {
	if w.variants == nil {
		return
	}
	for i, v := range w.variants.surplus {
		if !wr.room(sizeGone(v)) {
			w.variants.surplus = w.variants.surplus[i:]
			return
		}
		wr.leave(v)
	}
	w.variants.surplus = nil
}
