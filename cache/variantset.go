package cache

import (
	"cmp"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// variantSet is the variants of a name that has a subscription with parameters, or a variant with
// constraints. It only says which variant is for which entry. The caller changes the entries.
// Guarded by Store.mu.
type variantSet struct {
	key   string // immutable; of the plain name
	state bool   // immutable; the source speaks the state of the world

	located map[*Entry]map[string]string // the entries with parameters
	held    map[string]*variant          // by constraints (keyer.Constraints.Key)
	// serving has the variant that matched an entry last. The entry may not hold it any
	// more.
	serving map[*Entry]*variant

	// borrowing has the entries that may be served a variant that was sent for others. The
	// server may not have read their subscription yet: if it removes that variant, it may still
	// have one for them. No response says when it has read the subscription. So the server has
	// the time of a clock (RES-7). A source without clocks reads subscriptions at once.
	borrowing map[*Entry]struct{}

	touched bool // by the present response, in update.touched
	denied  bool // the present response says that there is no such resource, without constraints
}

// variant is a resource as it is for some parameters.
type variant struct {
	constraints *keyer.Constraints
	res         *wire.Resource // nil: it is not kept (TTL-5)
	received    time.Time      // the content, or the last heartbeat
	response    uint32         // exchange.response of the last response that held it
	fresh       bool           // the present response brought its content
	stale       bool           // from before the present stream, and not confirmed on it
}

func newVariantSet(key string, state bool) *variantSet {
	return &variantSet{
		key: key, state: state,
		located: make(map[*Entry]map[string]string), held: make(map[string]*variant), serving: make(map[*Entry]*variant),
	}
}

// adopt takes the content of the plain entry as a variant.
func (v *variantSet) adopt(plain *Entry) {
	if plain == nil || plain.res == nil || plain.marks.Alias {
		return
	}
	h := &variant{res: plain.res, received: time.Unix(0, plain.received), response: plain.response}
	if plain.extra.life.HasTTL() {
		h.received = plain.extra.life.deadline.Add(-plain.extra.life.ttl)
	}
	v.held[""], v.serving[plain] = h, h
}

// locate adds an entry with parameters, and returns the variant for it, nil if there is none.
func (v *variantSet) locate(e *Entry) *variant {
	v.located[e] = wire.Parameters(e.key)
	if v.borrowing == nil {
		v.borrowing = make(map[*Entry]struct{})
	}
	v.borrowing[e] = struct{}{}
	best, _ := v.match(v.located[e])
	return best
}

// leave forgets an entry, and the variants that were for it alone. plain says whether
// somebody wants the plain name.
func (v *variantSet) leave(e *Entry, plain bool) {
	parameters := v.located[e]
	delete(v.located, e)
	delete(v.serving, e)
	delete(v.borrowing, e)
	// No others can be for nobody now: a client may end thousands of sets of parameters.
	for key, h := range v.held {
		if h.constraints.Match(parameters) && !v.isFor(h, plain) {
			delete(v.held, key)
		}
	}
}

// borrows reports whether an entry may be served a variant that was sent for others.
func (v *variantSet) borrows(e *Entry) bool {
	_, borrows := v.borrowing[e]
	return borrows
}

// put takes in a variant with constraints that a response brings.
func (v *variantSet) put(c *keyer.Constraints, r *wire.Resource, received time.Time, mark uint32) {
	h := v.held[c.Key()]
	if h == nil {
		h = &variant{constraints: c}
		v.held[c.Key()] = h
	}
	h.res, h.received, h.response, h.fresh, h.stale = r, received, mark, true, false
}

// remove drops the variant with constraints. Nil says that there is no such resource at
// all, or none without constraints.
func (v *variantSet) remove(c *keyer.Constraints) {
	delete(v.held, c.Key())
	v.denied = v.denied || c == nil
}

// removeAll says that there is no such resource.
func (v *variantSet) removeAll() {
	clear(v.held)
	v.denied = true
}

// removeOlder drops the variants that the response of this number does not hold, and
// reports whether there were any.
func (v *variantSet) removeOlder(mark uint32) (found bool) {
	for c, h := range v.held {
		if h.response != mark {
			delete(v.held, c)
			found = true
		}
	}
	return found
}

// expired drops the variant that an entry holds, which outlived its ttl (TTL-2).
func (v *variantSet) expired(e *Entry) {
	for key, h := range v.held {
		if h.res != nil && h.res == e.res {
			delete(v.held, key)
		}
	}
	delete(v.serving, e)
}

// match returns the variant for parameters, nil if there is none, and how many there
// are. More than one is a mistake of the server's. Then the least constraints win, in
// every replica. But a variant that the server confirmed on this stream goes before one
// that it did not confirm, and the last one where one may take the other's place without a word.
func (v *variantSet) match(parameters map[string]string) (best *variant, n int) {
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
func (v *variantSet) serves(parameters map[string]string) bool {
	best, _ := v.match(parameters)
	return best != nil
}

// before compares how much two variants are to be believed: negative if a goes before b.
func (v *variantSet) before(a, b *variant) int {
	if a.stale != b.stale {
		if a.stale {
			return 1
		}
		return -1
	}
	if v.state || v.silent(a, b) {
		return cmp.Compare(b.response, a.response)
	}
	return 0
}

// silent reports whether one of two variants may take the other's place without a removal.
// Without demand with parameters a server takes the relay for a client that does not know
// variants. For such a client the removal of the old variant would remove the new one.
func (v *variantSet) silent(a, b *variant) bool {
	return len(v.located) == 0 && (a.constraints == nil) != (b.constraints == nil)
}

// undecided counts the entries of which the server has not spoken on this stream.
func (v *variantSet) undecided() (n int) {
	for e, parameters := range v.located {
		if best, _ := v.match(parameters); (best == nil && e.state == Unknown) || (best != nil && best.stale) {
			n++
		}
	}
	return n
}

// entries are those with parameters and the plain one, if there is one, in the order of their keys.
func (v *variantSet) entries(plain *Entry) []*Entry {
	all := make([]*Entry, 0, len(v.located)+1)
	for e := range v.located {
		all = append(all, e)
	}
	if plain != nil {
		all = append(all, plain)
	}
	slices.SortFunc(all, func(a, b *Entry) int { return cmp.Compare(a.key, b.key) })
	return all
}

// settle ends the update of a set. It returns the number of variants that came and are for no
// entry, and drops content that is not kept.
func (v *variantSet) settle(used map[*variant]bool, plain bool) (unsolicited int) {
	for _, h := range v.held {
		if h.fresh && !used[h] && !v.isFor(h, plain) {
			unsolicited++
		}
		h.fresh = false
		if h.res != nil && h.res.DoNotCache {
			h.res = nil
		}
	}
	v.touched, v.denied = false, false
	v.prune(used, plain)
	return unsolicited
}

// prune drops the variants that are for no entry. used are the variants that serve an entry after
// a response, nil without a response. After a response it also drops unused variants that are
// stale, or superseded in the state of the world, or replaced without a removal.
func (v *variantSet) prune(used map[*variant]bool, plain bool) {
	for key, h := range v.held {
		switch {
		case used[h]:
			continue
		case used != nil && (h.stale || v.state || (h.constraints == nil && len(v.located) == 0)):
		case v.isFor(h, plain):
			continue
		}
		delete(v.held, key)
	}
}

// isFor reports whether a variant is for any entry. plain says whether the plain name is needed.
func (v *variantSet) isFor(h *variant, plain bool) bool {
	return (plain && h.constraints.Match(nil)) || v.concerns(h)
}

// concerns reports whether a variant is for any entry with parameters.
func (v *variantSet) concerns(h *variant) bool {
	for _, parameters := range v.located {
		if h.constraints.Match(parameters) {
			return true
		}
	}
	return false
}

// needed reports whether the set says more than the plain entry does.
func (v *variantSet) needed() bool {
	onlyPlain := len(v.held) == 0 || (len(v.held) == 1 && v.held[""] != nil)
	return len(v.located) > 0 || !onlyPlain || v.touched
}
