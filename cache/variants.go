package cache

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// A name may be subscribed to with dynamic parameters, and a server may have several
// variants of its resource, each with the constraints that parameters must match
// (DYN-1). An entry stands for a name and parameters (wire.Locator); the entry of the
// plain name has none, and it is this one that is a member of collections. Beside the
// entries a table keeps, of such names only, the variants that it holds.
//
// A response is applied in two steps: first all of its variants come and go, then each
// entry of the name is matched once. So the replacement of one variant by others is
// one update to whoever watches.

// variants is what is known of a name that is subscribed to with parameters, or of
// which a variant with constraints is held. Guarded by Store.mu.
type variants struct {
	table   *table
	key     string // of the plain name
	located map[*entry]map[string]string
	held    map[string]*variant // by constraints (keyer.Constraints.Key)
	serving map[*entry]*variant // what was matched last; of what the entry does not hold any more, perhaps

	// Entries that may be served what was sent for others: the server may not have read
	// yet that they are asked for, and that it takes away what serves them says nothing
	// of what it has for them. No response tells when it has, so it is given the time
	// in which it has to answer (RES-7); of a source without such a time it is known.
	borrowing map[*entry]struct{}

	touched bool // by the present response, in update.touched
	denied  bool // the present response says that there is no such resource, without constraints
}

// variant is a resource as it is for some parameters.
type variant struct {
	constraints *keyer.Constraints
	res         *wire.Resource // nil: it is not kept (TTL-5)
	received    time.Time      // the content, or the last heartbeat
	mark        uint32         // table.mark of the last response that held it
	fresh       bool           // the present response brought its content
	stale       bool           // from before the present stream, and not confirmed on it
}

// variantsOf finds or makes what is known of a name's variants.
func (t *table) variantsOf(key string) *variants {
	v := t.variants[key]
	if v == nil {
		key = strings.Clone(key) // it may lie in the bytes of what came first
		v = &variants{
			table: t, key: key,
			located: make(map[*entry]map[string]string), held: make(map[string]*variant), serving: make(map[*entry]*variant),
		}
		if t.variants == nil {
			t.variants = make(map[string]*variants)
		}
		t.variants[key] = v
		v.adopt()
	}
	return v
}

// adopt takes what the plain entry holds for the variant that it is.
func (v *variants) adopt() {
	e := v.table.entries[v.key]
	if e == nil || e.res == nil || e.alias {
		return
	}
	h := &variant{res: e.res, received: time.Unix(0, e.received), mark: e.mark}
	if e.life != nil && e.life.ttl > 0 {
		h.received = e.life.deadline.Add(-e.life.ttl)
	}
	v.held[""], v.serving[e] = h, h
}

// locate notes a new entry for a name with parameters, and serves it what is held
// for them. The server is asked besides: it may have another variant for them.
func (t *table) locate(e *entry) {
	v := t.variantsOf(plainKey(e.key))
	v.located[e] = wire.Parameters(e.key)
	if v.borrowing == nil {
		v.borrowing = make(map[*entry]struct{})
	}
	v.borrowing[e] = struct{}{}
	if best, _ := v.match(v.located[e]); best != nil && best.res != nil {
		t.set(e, best.res, nil, best.received)
		v.serving[e] = best
	}
}

// borrows reports whether an entry may be served what was sent for others.
func (t *table) borrows(e *entry) bool {
	if len(t.variants) == 0 {
		return false
	}
	v := t.variants[plainKey(e.key)]
	if v == nil {
		return false
	}
	_, borrows := v.borrowing[e]
	return borrows
}

// repay ends that, as long after the server was asked as names that it does not answer
// are waited for: what is not for the entry by now does not exist.
func (t *table) repay(e *entry, now time.Time) {
	v := t.variants[plainKey(e.key)]
	delete(v.borrowing, e)
	if !v.serves(v.located[e]) && e.there() {
		delete(v.serving, e)
		t.unset(e, absent, nil, now)
	}
}

// plainKey is the key of the name of an entry.
func plainKey(key string) string { return wire.LocatedName(key) }

// unlocate forgets an entry that nothing refers to any more, and the variants that
// were for it alone.
func (t *table) unlocate(e *entry) {
	v := t.variants[plainKey(e.key)]
	if v == nil {
		return
	}
	parameters := v.located[e]
	delete(v.located, e)
	delete(v.serving, e)
	delete(v.borrowing, e)
	// No others can be for nobody now: a client may end thousands of sets of parameters.
	for key, h := range v.held {
		if h.constraints.Match(parameters) && !v.isFor(h) {
			delete(v.held, key)
		}
	}
	v.tidy()
}

// match finds the variant for parameters, nil if there is none, and how many there
// are. More than one is a mistake of the server's. Then the least constraints win, in
// every replica; but what the server confirmed on this stream goes before what it did
// not, and what came last where one may take the other's place without a word.
func (v *variants) match(parameters map[string]string) (best *variant, n int) {
	bestKey := ""
	for key, h := range v.held {
		if !h.constraints.Match(parameters) {
			continue
		}
		order := 1
		if best != nil {
			order = v.before(best, h)
		}
		switch {
		case order > 0:
			best, bestKey, n = h, key, 1
		case order == 0:
			n++
			if key < bestKey {
				best, bestKey = h, key
			}
		}
	}
	return best, n
}

// serves reports whether there is a variant for parameters.
func (v *variants) serves(parameters map[string]string) bool {
	best, _ := v.match(parameters)
	return best != nil
}

// before compares how much two variants are to be believed: negative if a goes before b.
func (v *variants) before(a, b *variant) int {
	if a.stale != b.stale {
		if a.stale {
			return 1
		}
		return -1
	}
	if v.table.store.source.State || v.silent(a, b) {
		return cmp.Compare(b.mark, a.mark)
	}
	return 0
}

// silent reports whether one of two variants may take the other's place without a word.
// Where nobody asks with parameters a server takes the relay for a client that does not
// tell variants apart, and to which the removal of what had no constraints would be that
// of what it is sent instead.
func (v *variants) silent(a, b *variant) bool {
	return len(v.located) == 0 && (a.constraints == nil) != (b.constraints == nil)
}

// entries are those of the name: the plain one, if there is one, and those with
// parameters, in the order of their keys.
func (v *variants) entries() []*entry {
	all := make([]*entry, 0, len(v.located)+1)
	for e := range v.located {
		all = append(all, e)
	}
	if e := v.table.entries[v.key]; e != nil {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.key, b.key) })
	return all
}

// plainWanted reports whether somebody wants the name without parameters.
func (v *variants) plainWanted() bool {
	e := v.table.entries[v.key]
	return len(v.table.aliases.of(v.key)) > 0 || v.table.collectionOf(v.key, e) != nil || (e != nil && (e.interest != nil || e.member() || len(e.subs) > 0))
}

// prune drops the variants that are for nobody. used are those that serve an entry
// after a response was applied, nil where there was none: then what is stale, or in the
// state of the world superseded, or replaced without a word, goes too if it serves nobody.
func (v *variants) prune(used map[*variant]bool) {
	t := v.table
	for key, h := range v.held {
		switch {
		case used[h]:
			continue
		case used != nil && (h.stale || t.store.source.State || (h.constraints == nil && len(v.located) == 0)):
		case v.isFor(h):
			continue
		}
		delete(v.held, key)
	}
	v.tidy()
}

// isFor reports whether a variant is for anybody.
func (v *variants) isFor(h *variant) bool {
	return (h.constraints.Match(nil) && v.plainWanted()) || v.concerns(h)
}

// tidy forgets the variants of a name that needs none of this any more.
func (v *variants) tidy() {
	onlyPlain := len(v.held) == 0 || (len(v.held) == 1 && v.held[""] != nil)
	if len(v.located) == 0 && onlyPlain && !v.touched {
		delete(v.table.variants, v.key)
	}
}

// concerns reports whether a variant is for any entry with parameters.
func (v *variants) concerns(h *variant) bool {
	for _, parameters := range v.located {
		if h.constraints.Match(parameters) {
			return true
		}
	}
	return false
}

// expired drops the variant that outlived its ttl with an entry (TTL-2).
func (t *table) expired(e *entry) {
	v := t.variants[plainKey(e.key)]
	if v == nil {
		return
	}
	for key, h := range v.held {
		if h.res != nil && h.res == e.res {
			delete(v.held, key)
		}
	}
	delete(v.serving, e)
}

// doubtVariants notes that the stream began anew. Versions have names only and cannot
// tell variants apart, so that none is presented and each is sent again; what is not
// stays until another one takes its place (RES-12, invariant 5).
func (t *table) doubtVariants() {
	for _, v := range t.variants {
		for _, h := range v.held {
			h.stale = true
		}
	}
}

// constrained reports whether the content of an entry is a variant with constraints.
func (e *entry) constrained() bool {
	r := e.listed()
	return r != nil && r.Constrained()
}

// presentable reports whether the version of an entry may be presented upstream.
func (e *entry) presentable() bool {
	return e.res != nil && !e.alias && !wire.IsLocator(e.key) && !e.res.Constrained()
}
