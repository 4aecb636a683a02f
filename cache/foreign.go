package cache

import (
	"iter"
	"maps"
	"weak"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// A client whose scope changed holds contents of another scope (Change.Moved). The same
// name may have other bytes here under an equal version, so that what is kept of them are
// the resources themselves, as they were sent: equal is what has the same bytes, and then
// nothing is sent. All else is sent, and what does not exist here is removed once that is
// known. Clients that were level with a collection hold the same: they share one snapshot
// of it, and what differs from that stands with each.

// What a client may hold where nobody has the bytes. They equal nothing.
var (
	unsure  = new(wire.Resource) // something of another scope, or nothing
	forgone = new(wire.Resource) // what this very store removed, without a word for it (RES-3)
)

// holdings are what the members of a collection were at one moment. They are not changed,
// and shared by all who held just that.
type holdings struct{ members map[string]*wire.Resource }

// foreign is what a client holds of another scope, of a collection that it follows. The
// nil one is nothing.
type foreign struct {
	base *holdings                 // nil for none
	own  map[string]*wire.Resource // what differs: nil for what it holds no more, or never did
	// Variants are those under which it was sent members with constraints (DYN-1).
	variants map[string]wire.Variant
	// over says that every member here was compared: base is nil then, and own what does
	// not exist here.
	over  bool
	doubt bool // nothing counts as equal: the client asked again for all of it (SUB-6)
	lost  bool // it holds members that are gone, and nobody knows which (RES-3)
	// doubted are names and globs under which nothing counts as equal: another store served
	// them meanwhile (LOC-3).
	doubted map[string]struct{}
}

// doubtAll has nothing count as equal under names and globs. It takes the map.
func (h *foreign) doubtAll(subs map[string]struct{}) {
	if len(h.doubted) == 0 {
		h.doubted = subs
		return
	}
	maps.Copy(h.doubted, subs)
}

// get is what the client holds under a key: nil for nothing.
func (h *foreign) get(key string) *wire.Resource {
	if h == nil {
		return nil
	}
	r, differs := h.own[key]
	if !differs && h.base != nil {
		r = h.base.members[key]
	}
	if r != nil && h.doubt {
		return unsure
	}
	return r
}

// set notes what differs from base: a nil r that the client does not hold it.
func (h *foreign) set(key string, r *wire.Resource) {
	if r == nil && (h.base == nil || h.base.members[key] == nil) {
		delete(h.own, key)
		return
	}
	if h.own == nil {
		h.own = make(map[string]*wire.Resource)
	}
	h.own[key] = r
}

// forget notes that the client was told what became of a key.
func (h *foreign) forget(key string) {
	if h == nil {
		return
	}
	h.set(key, nil)
	delete(h.variants, key)
}

// compared is forget for a member of the collection: where base has the key that it is one
// says enough, and nothing need be kept of each.
func (h *foreign) compared(key string) {
	if h != nil && h.base == nil {
		delete(h.own, key)
	}
}

// keys are those of what the client holds. It must not be changed meanwhile.
func (h *foreign) keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		if h == nil {
			return
		}
		for key, r := range h.own {
			if r != nil && !yield(key) {
				return
			}
		}
		if h.base == nil {
			return
		}
		for key := range h.base.members {
			if _, differs := h.own[key]; !differs && !yield(key) {
				return
			}
		}
	}
}

// all gives a copy of what the client holds.
func (h *foreign) all() map[string]*wire.Resource {
	held := make(map[string]*wire.Resource)
	if h == nil {
		return held
	}
	if h.base != nil {
		maps.Copy(held, h.base.members)
	}
	maps.Copy(held, h.own)
	for key := range held {
		if r := h.get(key); r != nil {
			held[key] = r
		} else {
			delete(held, key)
		}
	}
	return held
}

// size is how many keys the client may hold, for people.
func (h *foreign) size() int {
	switch {
	case h == nil:
		return 0
	case h.base == nil:
		return len(h.own)
	default:
		return len(h.base.members) + len(h.own)
	}
}

// empty reports whether there is nothing left to be told.
func (h *foreign) empty() bool { return h.base == nil && len(h.own) == 0 && !h.lost }

// holdings gives what the members are now. Those who move together, as all clients of a
// rule do, share one as long as any of them needs it: it is not for the collection to
// keep it for longer, which may not change for months.
func (c *collection) holdings() *holdings {
	if now := c.held.Value(); now != nil && c.heldAt == c.changes {
		return now
	}
	now := &holdings{members: make(map[string]*wire.Resource, c.live.len)}
	for e := c.live.head; e != nil; e = e.next {
		now.members[e.key] = e.content()
	}
	c.held, c.heldAt = weak.Make(now), c.changes
	return now
}

// content is what a client holds that was sent the entry. With a ttl nobody can tell
// whether it does still, or until when (TTL-3).
func (e *entry) content() *wire.Resource {
	if e.res == nil || e.life != nil {
		return unsure
	}
	return e.res
}

// is reports whether a client that holds a resource of another scope has just that of an
// entry.
func (e *entry) is(was *wire.Resource) bool {
	return was != nil && e.res != nil && e.life == nil && was.SameContent(e.res)
}
