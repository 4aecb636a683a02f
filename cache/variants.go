package cache

import (
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// A name may be subscribed to with dynamic parameters, and a server may have several
// variants of its resource, each with the constraints that parameters must match
// (DYN-1). An entry stands for a name and parameters (wire.Locator); the entry of the
// plain name has none, and it is this one that is a member of collections. Beside the
// entries a table keeps, of such names only, the variants that it holds.
//
// A response is applied in two steps: first all of its variants come and go, then each
// entry of the name is matched once (applyvariants.go). So the replacement of one variant
// by others is one update to its subscribers.

// variants are the names of a table that have variants. Guarded by Store.mu.
type variants struct {
	state bool                   // immutable; the source speaks the state of the world
	sets  map[string]*variantSet // by the key of the plain name
}

// any reports whether any name has variants.
func (v *variants) any() bool { return len(v.sets) > 0 }

// of returns the variants of a plain name, nil if it has none.
func (v *variants) of(key string) *variantSet { return v.sets[key] }

// ofEntry returns the variants of the name of an entry, nil if it has none.
func (v *variants) ofEntry(e *Entry) *variantSet {
	if !v.any() {
		return nil
	}
	return v.sets[plainKey(e.key)]
}

// begin returns the variants of a plain name. If it had none, the content of its entry is the
// first.
func (v *variants) begin(key string, plain *Entry) *variantSet {
	set := v.sets[key]
	if set == nil {
		key = strings.Clone(key) // it may lie in the bytes of what came first
		set = newVariantSet(key, v.state)
		if v.sets == nil {
			v.sets = make(map[string]*variantSet)
		}
		v.sets[key] = set
		set.adopt(plain)
	}
	return set
}

// tidy forgets a set that is not needed any more.
func (v *variants) tidy(set *variantSet) {
	if !set.needed() {
		delete(v.sets, set.key)
	}
}

// borrows reports whether an entry may be served a variant that was sent for others.
func (v *variants) borrows(e *Entry) bool {
	set := v.ofEntry(e)
	return set != nil && set.borrows(e)
}

// expired drops the variant that an entry holds, which outlived its ttl (TTL-2).
func (v *variants) expired(e *Entry) {
	if set := v.ofEntry(e); set != nil {
		set.expired(e)
	}
}

// doubt is called when the stream begins anew. Versions belong to names and cannot tell variants
// apart. So none is presented, and the server sends each again. A variant that is not sent stays
// until another one takes its place (RES-12, invariant 5).
func (v *variants) doubt() {
	for _, set := range v.sets {
		for _, h := range set.held {
			h.stale = true
		}
	}
}

// plainKey is the key of the name of an entry.
func plainKey(key string) string { return wire.LocatedName(key) }
