package cache

import (
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// touch returns a name's variants. The name's entries are matched after the response is taken in.
func (u *update) touch(t *Table, key string) *variantSet {
	set := t.variants.begin(key, t.entries[key])
	if !set.touched {
		set.touched = true
		u.touched = append(u.touched, set)
	}
	return set
}

// variant takes in a resource whose name has variants, and reports whether it has any.
func (u *update) variant(t *Table, i int, r *wire.Resource) bool {
	key, c := u.keys[i], u.constraints[i]
	if c == nil && t.variants.of(key) == nil {
		return false
	}
	set := u.touch(t, key)
	if r.HasPayload() {
		set.put(c, r, u.received, t.upstream.response)
	} else {
		matching{u, t, set}.bare(c, r)
	}
	return true
}

// matchVariants matches the entries of all names that the response touched.
func (u *update) matchVariants(t *Table) {
	for _, r := range u.removals {
		if t.variants.of(r.key) != nil {
			u.touch(t, r.key).remove(r.constraints)
		}
	}
	if u.response.State && len(u.bad) == 0 && !u.heartbeats && u.lists(t) {
		for key, set := range t.variants.sets {
			if set.removeOlder(t.upstream.response) {
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
	table  *Table
	set    *variantSet
}

func (m matching) plain() *Entry { return m.table.entries[m.set.key] }

// bare applies a resource without payload (update.bare).
func (m matching) bare(c *keyer.Constraints, r *wire.Resource) {
	u, t, h := m.update, m.table, m.set.held[c.Key()]
	renewed := false
	for _, e := range m.set.entries(m.plain()) {
		if h == nil || m.set.serving[e] != h {
			continue
		}
		e.response = t.upstream.response
		renewed = u.renewed(t, e, r) || renewed
	}
	switch {
	case renewed:
		h.response, h.received, h.stale = t.upstream.response, u.received, false
	case u.response.State && h != nil:
		h.response = t.upstream.response
	case !u.response.State:
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

// matchPlain gives the entry without parameters the best variant.
func (m matching) matchPlain(best *variant) {
	u, t, set := m.update, m.table, m.set
	e := m.plain()
	switch {
	case best != nil && best.res != nil && (best.fresh || set.serving[e] != best):
		u.resource(t, set.key, best.res)
		if e = m.plain(); e != nil {
			set.serving[e] = best
		}
	case best == nil && e != nil && (set.serving[e] != nil || set.denied):
		delete(set.serving, e)
		u.remove(t, set.key, e.Name())
	case best == nil && set.denied:
		u.remove(t, set.key, set.key)
	}
}

// matchLocated gives an entry with parameters the best variant.
func (m matching) matchLocated(e *Entry, best *variant) {
	u, t, set := m.update, m.table, m.set
	borrows := set.borrows(e)
	if set.denied || (best != nil && best.fresh && t.store.source.Absent <= 0) {
		delete(set.borrowing, e)
	}
	switch {
	case best == nil && borrows && !set.denied && len(set.held) > 0:
		e.response = t.upstream.response // the server has variants, and is yet to say which it has for this one
		return
	case best == nil:
		was := set.serving[e]
		delete(set.serving, e)
		if (was != nil && e.Exists()) || (set.denied && e.state != Absent) {
			t.remove(e, Absent, nil, u.received)
		}
		return
	case best.res == nil: // passed on before, and not kept
		if set.serving[e] != best && e.extra.demand != nil {
			e.extra.demand.ask()
		}
	case best.res.DoNotCache:
		handOver(t, e, best.res, nil, u.received)
	case e.res == nil || !e.res.SameContent(best.res):
		t.put(e, best.res, nil, best.received)
	case best.fresh:
		confirmSame(u, t, e, best.res)
		e.res = best.res
		resent(t, e, best.res, u.received)
	}
	set.serving[e] = best
	if best.response == t.upstream.response {
		e.response = t.upstream.response
	}
}

// fail applies a resource error to the entries that match it and that no variant serves.
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
func tellAmbiguous(u *update, o Observer) {
	for _, key := range u.ambiguous {
		o.Ambiguous(u.response.TypeURL, strings.Clone(key))
	}
}
