package downstream

import (
	"bytes"
	"strings"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// hold adds to each change the versions that the client presents of names there (RES-11). An
// opaque name that the client does not subscribe to came with "*", wherever the name itself would
// live (AGG-1): no store is asked for it there.
func (c *change) hold(versions wire.Versions) {
	if versions.Len() == 0 {
		return
	}
	h := newHolder(c)
	if it := versions.Walk(); it.Next() && keyer.IsXDSTP(it.Name) {
		versions = versions.Clone() // h looks at the names as strings
	}
	if whole := h.whole(&versions); whole != nil {
		whole.Versions = versions
		return
	}
	versions = versions.Clone()
	for it := versions.Walk(); it.Next(); {
		h.add(&it)
	}
}

// later returns the members of globs that the client presents and does not subscribe to, as many as an
// allowance has room for: it may subscribe to the globs in a later request, which presents nothing. A client
// whose first request asks for "*" by naming nothing cannot do otherwise (SUB-3).
func (c *change) later(versions wire.Versions, most allowance) (later laterNames) {
	if versions.Plain(maxNameLength) {
		return later
	}
	h := newHolder(c)
	for it := versions.Walk(); it.Next(); {
		if len(it.Name) > maxNameLength || !keyer.IsXDSTP(it.Name) || h.covers(it.Name) {
			continue
		}
		if !most.spend(len(it.Name)) {
			break
		}
		later.add(string(it.Name))
	}
	return later
}

// holdLater adds to each change what the client presented earlier of the globs that it subscribes to
// now. It is sent again what is there: it may have dropped it since (RES-15).
func (c *change) holdLater(later *laterNames) {
	h := newHolder(c)
	var versions wire.Versions
	for name := range later.names {
		if h.covers([]byte(name)) {
			versions.Add(name, "")
			later.remove(name)
		}
	}
	c.hold(versions)
}

// holder finds the part of a change that a presented version is for.
type holder struct {
	change *change
	named  map[string]place // names that the client subscribes to, without "*", by spelling
	// Globs with directives, by the glob without directives. The client knows their members by
	// names without directives (NAME-4), which do not say which glob they came with.
	globs map[string][]place
	glob  []byte // of the name at hand
}

// place is where the client subscribes to a name or a glob, and its key there.
type place struct {
	change *delivery.Change
	key    string
}

func newHolder(c *change) (h holder) {
	h.change = c
	for _, ch := range c.changes {
		for _, n := range ch.Subscribe {
			if n.Key == cache.Wildcard {
				continue
			}
			if h.named == nil {
				h.named = make(map[string]place, len(ch.Subscribe))
			}
			h.named[n.Spelling] = place{ch, n.Key}
			if plain, directives, _ := strings.Cut(n.Key, "#"); directives != "" && keyer.IsGlob(n.Key) {
				if h.globs == nil {
					h.globs = make(map[string][]place)
				}
				h.globs[plain] = append(h.globs[plain], place{ch, n.Key})
			}
		}
	}
	return h
}

// whole returns the change that all versions are for under the client's own names; nil if there
// is none. Nearly always there is. Then nothing of the versions is copied, nor kept if the store
// has the same.
func (h *holder) whole(versions *wire.Versions) *delivery.Change {
	switch {
	case len(h.globs) > 0:
		return nil
	case len(h.named) == 0 && versions.Plain(maxNameLength):
		return h.change.wildcard
	}
	var whole *delivery.Change
	for it := versions.Walk(); it.Next(); {
		p, same := h.place(&it)
		if p.change == nil || !same || (whole != nil && p.change != whole) {
			return nil
		}
		whole = p.change
	}
	return whole
}

// covers reports whether the client subscribes to an xdstp name, or to its glob, in the spelling of
// the name.
func (h *holder) covers(name []byte) bool {
	if _, named := h.named[string(name)]; named {
		return true
	}
	end := bytes.IndexAny(name, "?#")
	if end < 0 {
		end = len(name)
	}
	dir := bytes.LastIndexByte(name[:end], '/') + 1
	h.glob = append(append(append(h.glob[:0], name[:dir]...), '*'), name[end:]...)
	_, named := h.named[string(h.glob)]
	return named || len(h.globs[string(h.glob)]) > 0
}

// add adds one version to the change that it is for.
func (h *holder) add(it *wire.VersionWalk) {
	p, same := h.place(it)
	if same {
		p.key = it.NameString()
	}
	if p.change != nil {
		p.change.Versions.Add(p.key, it.VersionString())
	}
	if len(h.globs) == 0 || !keyer.IsXDSTP(it.Name) {
		return
	}
	key, err := keyer.Key(it.NameString())
	if err != nil {
		return
	}
	for _, g := range h.globs[keyer.GlobOf(key)] {
		g.change.Versions.Add(keyer.MemberOf(g.key, key), it.VersionString())
	}
}

// place returns where the client subscribes to a name, and whether the key is the name itself. The
// place has no change if the client does not subscribe in the name's store.
func (h *holder) place(it *wire.VersionWalk) (p place, same bool) {
	if p, ok := h.named[string(it.Name)]; ok {
		return p, p.key == string(it.Name)
	}
	if h.change.wildcard != nil && isOpaque(it.Name) {
		return place{change: h.change.wildcard}, true
	}
	store, name, err := find(h.change.routes, h.change.t.url, it.NameString())
	if err != nil {
		return place{}, false
	}
	return place{h.change.changes[store], name.Key}, name.Key == name.Spelling
}

// isOpaque reports whether a name is one that a resource may have, and opaque.
func isOpaque(name []byte) bool {
	return len(name) > 0 && len(name) <= maxNameLength && !wire.IsReserved(string(name[:1])) && !keyer.IsXDSTP(name)
}
