package cache

import (
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// variantUpdate is what a response says of variants, and what came of it.
type variantUpdate struct {
	constraints map[int]*keyer.Constraints // of response.Resources, by index: of those that have some
	removals    []variantRemoval
	touched     []*variants
	ambiguous   []string // names for which more than one variant matches the parameters of an entry
}

type variantRemoval struct {
	key         string
	constraints *keyer.Constraints
}

// compile works out the constraints in the response, before any lock is taken. What
// cannot be compiled is left out like what has a bad name.
func (u *update) compile() {
	for i, r := range u.response.Resources {
		if u.keys[i] == badKey || !r.Constrained() {
			continue
		}
		c, ok := u.compiled(r.Name, r.Constraints())
		if !ok {
			u.keys[i] = badKey
			continue
		}
		if c != nil {
			if u.constraints == nil {
				u.constraints = make(map[int]*keyer.Constraints)
			}
			u.constraints[i] = c
		}
	}
	for _, v := range u.response.RemovedVariants {
		c, ok := u.compiled(v.Name, v.Constraints)
		if key := u.key(v.Name); ok && key != badKey {
			u.removals = append(u.removals, variantRemoval{key, c})
		}
	}
}

func (u *update) compiled(name, encoded string) (c *keyer.Constraints, ok bool) {
	c, err := keyer.ParseConstraints([]byte(encoded))
	if err != nil {
		u.bad = append(u.bad, &constraintsError{name, err})
		return nil, false
	}
	return c, true
}

// constraintsError says which resource has bad constraints.
type constraintsError struct {
	name string
	err  error
}

func (e *constraintsError) Error() string { return "resource \"" + e.name + "\": " + e.err.Error() }
func (e *constraintsError) Unwrap() error { return e.err }

// identities are what must not occur twice in a response: names, each with its
// constraints (ACK-6).
func (u *update) identities() (added, removed []string) {
	if len(u.constraints) == 0 && len(u.removals) == 0 {
		return u.keys, u.removed
	}
	added, removed = make([]string, len(u.keys)), append([]string(nil), u.removed...)
	for i, key := range u.keys {
		added[i] = identity(key, u.constraints[i])
	}
	for _, r := range u.removals {
		removed = append(removed, identity(r.key, r.constraints))
	}
	return added, removed
}

func identity(key string, c *keyer.Constraints) string {
	if c == nil || key == badKey {
		return key
	}
	return key + "\x00" + c.Key()
}

// touch finds a name's variants and notes that its entries are to be matched anew.
func (u *update) touch(t *table, key string) *variants {
	v := t.variantsOf(key)
	if !v.touched {
		v.touched = true
		u.touched = append(u.touched, v)
	}
	return v
}

// variant takes a resource in whose name has variants, if it has.
func (u *update) variant(t *table, i int, r *wire.Resource) bool {
	key, c := u.keys[i], u.constraints[i]
	if c == nil && t.variants[key] == nil {
		return false
	}
	v := u.touch(t, key)
	h := v.held[c.Key()]
	if !r.HasPayload() {
		u.bareVariant(v, c, h, r)
		return true
	}
	if h == nil {
		h = &variant{constraints: c}
		v.held[c.Key()] = h
	}
	h.res, h.received, h.mark, h.fresh, h.stale = r, u.received, t.mark, true, false
	return true
}

// bareVariant is bare for a variant.
func (u *update) bareVariant(v *variants, c *keyer.Constraints, h *variant, r *wire.Resource) {
	renewed := false
	for _, e := range v.entries() {
		if h == nil || v.serving[e] != h {
			continue
		}
		e.mark = v.table.mark
		renewed = u.renewed(v.table, e, r) || renewed
	}
	switch {
	case renewed:
		h.mark, h.received, h.stale = v.table.mark, u.received, false
	case u.state != nil && h != nil:
		h.mark = v.table.mark
	case u.state == nil:
		u.removeVariant(v, c)
	}
}

func (u *update) removeVariant(v *variants, c *keyer.Constraints) {
	delete(v.held, c.Key())
	v.denied = v.denied || c == nil
}

// matchVariants matches the entries of all names that the response touched.
func (u *update) matchVariants(t *table) {
	for _, r := range u.removals {
		if t.variants[r.key] != nil {
			u.removeVariant(u.touch(t, r.key), r.constraints)
		}
	}
	if u.state != nil && len(u.bad) == 0 && !u.heartbeats() && u.lists(t) {
		for key, v := range t.variants {
			for c, h := range v.held {
				if h.mark != t.mark {
					delete(v.held, c)
					u.touch(t, key)
				}
			}
		}
	}
	for _, v := range u.touched {
		u.matchAll(v)
	}
}

func (u *update) matchAll(v *variants) {
	used := make(map[*variant]bool)
	undecided := v.undecided()
	ambiguous := false
	if best, n := v.match(nil); v.plainWanted() || (best != nil && best.res != nil && len(best.res.Aliases()) > 0) {
		u.matchPlain(v, best)
		used[best], ambiguous = true, n > 1
	}
	for _, e := range v.entries() {
		parameters, located := v.located[e]
		if !located {
			continue
		}
		best, n := v.match(parameters)
		if best != nil && best.stale && v.denied && undecided == 1 {
			best = nil // the server can mean nothing else
		}
		u.matchLocated(v, e, best)
		used[best], ambiguous = true, ambiguous || n > 1
	}
	if ambiguous {
		u.ambiguous = append(u.ambiguous, v.key)
	}
	for _, h := range v.held {
		if h.fresh && !used[h] && !v.isFor(h) {
			u.unsolicited++
		}
		h.fresh = false
		if h.res != nil && h.res.DoNotCache {
			h.res = nil
		}
	}
	v.touched, v.denied = false, false
	v.prune(used)
}

// undecided counts the entries of which the server has not spoken on this stream.
func (v *variants) undecided() (n int) {
	for e, parameters := range v.located {
		if best, _ := v.match(parameters); (best == nil && e.state == unknown) || (best != nil && best.stale) {
			n++
		}
	}
	return n
}

// matchPlain gives the entry without parameters what matches none.
func (u *update) matchPlain(v *variants, best *variant) {
	t := v.table
	e := t.entries[v.key]
	switch {
	case best != nil && best.res != nil && (best.fresh || e == nil || v.serving[e] != best):
		u.resource(t, v.key, best.res)
		if e = t.entries[v.key]; e != nil {
			v.serving[e] = best
		}
	case best == nil && e != nil && (v.serving[e] != nil || v.denied):
		delete(v.serving, e)
		u.remove(t, v.key, e.name())
	case best == nil && v.denied:
		u.remove(t, v.key, v.key)
	}
}

// matchLocated gives an entry with parameters what matches them.
func (u *update) matchLocated(v *variants, e *entry, best *variant) {
	t := v.table
	_, borrows := v.borrowing[e]
	if v.denied || (best != nil && best.fresh && t.store.source.Absent <= 0) {
		delete(v.borrowing, e)
	}
	switch {
	case best == nil && borrows && !v.denied && len(v.held) > 0:
		e.mark = t.mark // the server has variants, and is yet to say which it has for this one
		return
	case best == nil:
		was := v.serving[e]
		delete(v.serving, e)
		if (was != nil && e.there()) || (v.denied && e.state != absent) {
			t.unset(e, absent, nil, u.received)
		}
		return
	case best.res == nil: // passed on before, and not kept
		if v.serving[e] != best && e.interest != nil {
			e.interest.ask()
		}
	case best.res.DoNotCache:
		t.relay(e, best.res, nil, u.received)
	case e.res == nil || !e.res.SameContent(best.res):
		t.set(e, best.res, nil, best.received)
	case best.fresh:
		e.res = best.res
		t.resent(e, best.res, u.received)
	}
	v.serving[e] = best
	if best.mark == t.mark {
		e.mark = t.mark
	}
}

// failVariants applies a resource error to a name with variants: to the entries that
// it is about and that nothing else serves.
func (u *update) failVariants(v *variants, re *wire.ResourceError) {
	about, ok := u.compiled(re.Name, re.Constraints)
	if !ok {
		return
	}
	if !re.Transient() {
		delete(v.held, about.Key())
	}
	for _, e := range v.entries() {
		if best, _ := v.match(v.located[e]); best != nil || !about.Match(v.located[e]) {
			continue
		}
		delete(v.serving, e)
		u.failEntry(v.table, e, re)
	}
	v.prune(nil)
}

// tellAmbiguous tells of the names for which a server has more than one variant for
// the same parameters. No lock is held.
func (u *update) tellAmbiguous(o Observer) {
	for _, key := range u.ambiguous {
		o.Ambiguous(u.response.TypeURL, strings.Clone(key))
	}
}
