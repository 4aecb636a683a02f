package cache

import (
	"iter"
	"time"

	"github.com/xdsrelay/xdsrelay/cache/hold"
)

// What a server says may be held back: the guard holds losses (SUR-3), and an operator holds all of
// a table (GATE-4). The entry keeps its content: to clients, and to all of the store that does not
// ask here, the server has not spoken. heldBack has what it said.
// New content of the entry and an eviction end that. A ttl that runs out, an error that leaves the
// content, and the end of the wait for an answer end only what clients have: held content stays
// held. So released content is always content that the server once gave. All that a store holds is
// released by one change, so that clients are told in make-before-break order.

// heldBack is what a table holds back. A nil one holds nothing. Guarded by Store.mu.
type heldBack struct {
	names  hold.Names
	window hold.Window
	all    bool                     // losses of all names are held
	colls  map[*Collection]struct{} // or those of the members of some collections; of a freeze, those that it knows
	of     int                      // resources before the loss
	told   bool                     // the observer was told
	freeze hold.Freeze              // an operator holds everything; the guard judges nothing meanwhile
	kept   map[*demand]struct{}     // of a frozen table, that the LRU would have evicted
}

// any reports whether clients are shown something else than the server said last.
func (h *heldBack) any() bool { return h != nil && h.names.Len() > 0 }

// shown reports whether operators are shown what the guard holds. What waits for others for a moment they are
// not: it may well be nothing.
func (h *heldBack) shown() bool { return h.any() && h.told }

// active reports whether losses are held, or all changes.
func (h *heldBack) active() bool { return h != nil && (h.all || len(h.colls) > 0 || h.frozen()) }

// frozen reports whether an operator holds everything.
func (h *heldBack) frozen() bool { return h != nil && !h.freeze.Since.IsZero() }

// begin begins a freeze: the guard's time plays no part any more.
func (h *heldBack) begin(f hold.Freeze) {
	h.window, h.all, h.colls, h.told, h.freeze = hold.Window{}, false, nil, false, f
}

// knows reports whether the first state of a collection is over, as far as a freeze is concerned: it is
// complete, or its first answer came before a time. One that is never quiet is never complete.
func (h *heldBack) knows(c *Collection, before time.Time) bool {
	if _, known := h.colls[c]; known {
		return true
	}
	if !c.hasWhole() && (c.quiet.answered.IsZero() || c.quiet.answered.After(before)) {
		return false
	}
	h.colls = with(h.colls, c)
	return true
}

// emptied returns how many resources the table lost within a short time, or waits for others with, if these are all
// that there were; else 0.
func (h *heldBack) emptied(now time.Time) int {
	switch {
	case h == nil:
		return 0
	case h.all && h.names.Losses() == h.of:
		return h.of
	}
	return h.window.Emptied(now)
}

// covers reports whether the loss of an entry is held, nil for one that only aliases have.
func (h *heldBack) covers(e *Entry) bool {
	if !h.active() {
		return false
	}
	if h.all || h.frozen() || e == nil {
		return h.all || h.frozen()
	}
	_, ok := h.colls[e.coll]
	return ok && e.Member()
}

// has reports whether something is held of an entry.
func (h *heldBack) has(e *Entry) bool {
	if !h.any() {
		return false
	}
	_, held := h.names.Get(e.key)
	return held
}

// received yields the contents that clients are not told yet.
func (h *heldBack) received() iter.Seq2[string, hold.Fate] {
	return func(yield func(string, hold.Fate) bool) {
		if !h.any() {
			return
		}
		for key, f := range h.names.All() {
			if !f.Removes() && f.Resource.HasPayload() && !yield(key, f) {
				return
			}
		}
	}
}

// content returns the content of a name that clients are not told yet, if there is one.
func (h *heldBack) content(key string) (f hold.Fate, held bool) {
	if !h.any() {
		return f, false
	}
	f, held = h.names.Get(key)
	return f, held && !f.Removes()
}

// removes reports whether the server removed an entry, and clients are not told yet.
func (h *heldBack) removes(e *Entry) bool {
	if !h.any() {
		return false
	}
	f, held := h.names.Get(e.key)
	return held && f.Removes()
}

// drop forgets what is held of an entry: it changes, or the server has the content after all.
func (h *heldBack) drop(e *Entry) {
	if h.any() {
		h.names.Drop(e.key)
	}
}

// dropUnused forgets what is held of an entry that is forgotten. New members of a frozen collection
// have no entry: what is held of them stays.
func (h *heldBack) dropUnused(e *Entry, member bool) {
	if h.any() && (e.Exists() || !member) {
		h.names.Drop(e.key)
	}
}

// dropNew forgets the held names that clients do not have, and that which lists does not have.
func (h *heldBack) dropNew(have func(key string) bool, lists map[string]bool) {
	if !h.any() {
		return
	}
	for key, f := range h.names.All() {
		if !f.Removes() && !lists[key] && !have(key) {
			h.names.Drop(key)
		}
	}
}

// leave forgets what is held of a collection that is gone.
func (h *heldBack) leave(c *Collection, entries map[string]*Entry) {
	if h == nil {
		return
	}
	delete(h.colls, c)
	h.dropMembers(c, func(key string) bool { return entries[key] != nil })
}

// dropMembers forgets what is held of the names in a collection, but of those that remain.
func (h *heldBack) dropMembers(c *Collection, remain func(key string) bool) {
	if !h.any() {
		return
	}
	for key := range h.names.All() {
		if c.covers(key) && !remain(key) {
			h.names.Drop(key)
		}
	}
}

// end holds nothing any longer, and returns what was held.
func (h *heldBack) end() hold.Names {
	names := h.names
	*h = heldBack{}
	return names
}
