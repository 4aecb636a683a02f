package downstream

import (
	"strings"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// hold tells the stores what the client says it holds of what it subscribes to there
// (RES-11). An opaque name that it does not subscribe to came with "*", wherever that name
// would live by itself (AGG-1): nobody is asked for it there.
func (st *stream) hold(t *typeState, ch *change, versions wire.Versions) {
	if versions.Len() == 0 {
		return
	}
	h := holder{stream: st, typeURL: t.url, change: ch, wildcard: ch.wildcard(), named: ch.named(), globs: ch.resolvedGlobs()}
	if it := versions.Walk(); it.Next() && keyer.IsXDSTP(it.Name) {
		versions = versions.Clone() // its names are looked at as strings
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

// holder finds out what of a change the versions are for that a client presents.
type holder struct {
	stream   *stream
	typeURL  string
	change   *change
	wildcard *cache.Change
	named    map[string]place
	globs    map[string][]resolvedGlob
}

// place is where a name is subscribed to, and its key there.
type place struct {
	change *cache.Change
	key    string
}

// whole gives the change that all versions are for, by the very names that the client
// has for them; nil if there is none. Nearly always there is, and then nothing of them is
// copied, nor kept if the store has the same.
func (h *holder) whole(versions *wire.Versions) *cache.Change {
	switch {
	case len(h.globs) > 0:
		return nil
	case len(h.named) == 0 && versions.Plain(maxNameLength):
		return h.wildcard
	}
	var whole *cache.Change
	for it := versions.Walk(); it.Next(); {
		p, same := h.place(&it)
		if p.change == nil || !same || (whole != nil && p.change != whole) {
			return nil
		}
		whole = p.change
	}
	return whole
}

// add notes one version where it is for.
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

// place finds out where a name is subscribed to, and reports whether its key is the name
// itself. Without a change nothing is subscribed to where it would be.
func (h *holder) place(it *wire.VersionWalk) (p place, same bool) {
	if p, ok := h.named[string(it.Name)]; ok {
		return p, p.key == string(it.Name)
	}
	if h.wildcard != nil && isOpaque(it.Name) {
		return place{change: h.wildcard}, true
	}
	store, name, err := locate(h.stream.routes, h.typeURL, it.NameString())
	if err != nil {
		return place{}, false
	}
	return place{h.change.changes[store], name.Key}, name.Key == name.Spelling
}

// isOpaque reports whether a resource may have a name that says nothing.
func isOpaque(name []byte) bool {
	return len(name) > 0 && len(name) <= maxNameLength && !wire.IsLocator(string(name[:1])) && !keyer.IsXDSTP(name)
}

// named are the spellings of what is subscribed to, save "*".
func (c *change) named() map[string]place {
	var all map[string]place
	for _, ch := range c.changes {
		for _, n := range ch.Subscribe {
			if n.Key == cache.Wildcard {
				continue
			}
			if all == nil {
				all = make(map[string]place, len(ch.Subscribe))
			}
			all[n.Spelling] = place{ch, n.Key}
		}
	}
	return all
}

// wildcard is the change that subscribes to "*", nil if there is none.
func (c *change) wildcard() *cache.Change {
	for _, ch := range c.changes {
		for _, n := range ch.Subscribe {
			if n.Key == cache.Wildcard {
				return ch
			}
		}
	}
	return nil
}

// resolvedGlob is a glob with directives.
type resolvedGlob struct {
	change *cache.Change
	key    string
}

// resolvedGlobs lists what is subscribed to of them, by what they are without: a client
// knows their members by names that have none (NAME-4), and that do not say which glob
// they came with.
func (c *change) resolvedGlobs() map[string][]resolvedGlob {
	var all map[string][]resolvedGlob
	for _, ch := range c.changes {
		for _, n := range ch.Subscribe {
			plain, directives, _ := strings.Cut(n.Key, "#")
			if directives == "" || !keyer.IsGlob(n.Key) {
				continue
			}
			if all == nil {
				all = make(map[string][]resolvedGlob)
			}
			all[plain] = append(all[plain], resolvedGlob{ch, n.Key})
		}
	}
	return all
}
