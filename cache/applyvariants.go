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
	touched     []*variantSet
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

// touch returns a name's variants, and has its entries matched once the response is
// taken in.
func (u *update) touch(t *table, key string) *variantSet {
	set := t.variants.begin(key, t.entries[key])
	if !set.touched {
		set.touched = true
		u.touched = append(u.touched, set)
	}
	return set
}

// variant takes in a resource whose name has variants, and reports whether it has.
func (u *update) variant(t *table, i int, r *wire.Resource) bool {
	key, c := u.keys[i], u.constraints[i]
	if c == nil && t.variants.of(key) == nil {
		return false
	}
	set := u.touch(t, key)
	if r.HasPayload() {
		set.put(c, r, u.received, t.mark)
	} else {
		matching{u, t, set}.bare(c, r)
	}
	return true
}

// matchVariants matches the entries of all names that the response touched.
func (u *update) matchVariants(t *table) {
	for _, r := range u.removals {
		if t.variants.of(r.key) != nil {
			u.touch(t, r.key).remove(r.constraints)
		}
	}
	if u.state != nil && len(u.bad) == 0 && !u.heartbeats() && u.lists(t) {
		for key, set := range t.variants.sets {
			if set.removeOlder(t.mark) {
				u.touch(t, key)
			}
		}
	}
	for _, set := range u.touched {
		matching{u, t, set}.all()
	}
}

// matching gives the entries of one name the variants that a response leaves for them.
type matching struct {
	update *update
	table  *table
	set    *variantSet
}

func (m matching) plain() *entry { return m.table.entries[m.set.key] }

// bare applies a resource without payload (update.bare).
func (m matching) bare(c *keyer.Constraints, r *wire.Resource) {
	u, t, h := m.update, m.table, m.set.held[c.Key()]
	renewed := false
	for _, e := range m.set.entries(m.plain()) {
		if h == nil || m.set.serving[e] != h {
			continue
		}
		e.mark = t.mark
		renewed = u.renewed(t, e, r) || renewed
	}
	switch {
	case renewed:
		h.mark, h.received, h.stale = t.mark, u.received, false
	case u.state != nil && h != nil:
		h.mark = t.mark
	case u.state == nil:
		m.set.remove(c)
	}
}

func (m matching) all() {
	set := m.set
	used := make(map[*variant]bool)
	undecided := set.undecided()
	ambiguous := false
	if best, n := set.match(nil); plainWanted(m.table, set) || (best != nil && best.res != nil && len(best.res.Aliases()) > 0) {
		m.matchPlain(best)
		used[best], ambiguous = true, n > 1
	}
	for _, e := range set.entries(m.plain()) {
		parameters, located := set.located[e]
		if !located {
			continue
		}
		best, n := set.match(parameters)
		if best != nil && best.stale && set.denied && undecided == 1 {
			best = nil // the server can mean nothing else
		}
		m.matchLocated(e, best)
		used[best], ambiguous = true, ambiguous || n > 1
	}
	if ambiguous {
		m.update.ambiguous = append(m.update.ambiguous, set.key)
	}
	m.update.unsolicited += set.settle(used, plainWanted(m.table, set))
	m.table.variants.tidy(set)
}

// matchPlain gives the entry without parameters what matches none.
func (m matching) matchPlain(best *variant) {
	u, t, set := m.update, m.table, m.set
	e := m.plain()
	switch {
	case best != nil && best.res != nil && (best.fresh || e == nil || set.serving[e] != best):
		u.resource(t, set.key, best.res)
		if e = m.plain(); e != nil {
			set.serving[e] = best
		}
	case best == nil && e != nil && (set.serving[e] != nil || set.denied):
		delete(set.serving, e)
		u.remove(t, set.key, e.name())
	case best == nil && set.denied:
		u.remove(t, set.key, set.key)
	}
}

// matchLocated gives an entry with parameters what matches them.
func (m matching) matchLocated(e *entry, best *variant) {
	u, t, set := m.update, m.table, m.set
	borrows := set.borrows(e)
	if set.denied || (best != nil && best.fresh && t.store.source.Absent <= 0) {
		delete(set.borrowing, e)
	}
	switch {
	case best == nil && borrows && !set.denied && len(set.held) > 0:
		e.mark = t.mark // the server has variants, and is yet to say which it has for this one
		return
	case best == nil:
		was := set.serving[e]
		delete(set.serving, e)
		if (was != nil && e.there()) || (set.denied && e.state != absent) {
			t.unset(e, absent, nil, u.received)
		}
		return
	case best.res == nil: // passed on before, and not kept
		if set.serving[e] != best && e.interest != nil {
			e.interest.ask()
		}
	case best.res.DoNotCache:
		t.pass(e, best.res, nil, u.received)
	case e.res == nil || !e.res.SameContent(best.res):
		t.set(e, best.res, nil, best.received)
	case best.fresh:
		e.res = best.res
		t.resent(e, best.res, u.received)
	}
	set.serving[e] = best
	if best.mark == t.mark {
		e.mark = t.mark
	}
}

// fail applies a resource error to the entries that it is about and that nothing else
// serves.
func (m matching) fail(re *wire.ResourceError) {
	set := m.set
	about, ok := m.update.compiled(re.Name, re.Constraints)
	if !ok {
		return
	}
	if !re.Transient() {
		delete(set.held, about.Key())
	}
	for _, e := range set.entries(m.plain()) {
		if set.serves(set.located[e]) || !about.Match(set.located[e]) {
			continue
		}
		delete(set.serving, e)
		m.update.failEntry(m.table, e, re)
	}
	set.prune(nil, plainWanted(m.table, set))
	m.table.variants.tidy(set)
}

// tellAmbiguous tells of the names for which a server has more than one variant for
// the same parameters. No lock is held.
func (u *update) tellAmbiguous(o Observer) {
	for _, key := range u.ambiguous {
		o.Ambiguous(u.response.TypeURL, strings.Clone(key))
	}
}
