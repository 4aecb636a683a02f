package delivery

import (
	"maps"
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/smallmap"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// globIndex are a client's subscribed to globs.
type globIndex struct {
	all map[string]*follower // by spelling

	// By key, those that are not spelled like their key: a client may spell a glob in many
	// ways, and none of its requests may cost the square of its length.
	respelled map[string][]*follower

	directives bool // globs that differ in those only may give members the same names
	bytes      int  // of the spellings
}

// add takes in a glob with a new spelling.
func (i *globIndex) add(g *follower) {
	if i.all == nil {
		i.all = make(map[string]*follower)
	}
	i.all[g.name.text] = g
	i.bytes += len(g.name.text)
	if key := g.Collection().Key(); g.name.text != key {
		i.respelled = withOne(i.respelled, key, g)
		i.directives = i.directives || undirected(g.name.text, key) != g.name.text
	}
}

// remove takes a glob out.
func (i *globIndex) remove(g *follower) {
	i.all = smallmap.Without(i.all, g.name.text)
	i.bytes -= len(g.name.text)
	if key := g.Collection().Key(); g.name.text != key {
		i.respelled = withoutOne(i.respelled, key, g)
	}
}

// sorted returns the followers by spelling.
func (i *globIndex) sorted() []*follower {
	if len(i.all) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Values(i.all), func(f, g *follower) int { return strings.Compare(f.name.text, g.name.text) })
}

// gave reports whether the client may hold a resource because of a glob. A name that begins
// takes this over, since the glob may end before anything is sent; then nothing else can tell
// of a removal (ADS-1, GLOB-5). Of a glob's spellings the oldest stands for all but the
// canonical one: a client may have many.
func (i *globIndex) gave(e *cache.Entry) bool {
	if len(i.all) == 0 {
		return false
	}
	key := keyer.GlobOf(e.Key())
	g, respelled := i.all[key], i.respelled[key]
	return (g != nil && g.gave(e)) || (len(respelled) > 0 && respelled[0].gave(e))
}

// of returns the follower of the glob that a key is a member of, nil if there is none.
func (i *globIndex) of(key string) *follower {
	if len(i.all) == 0 {
		return nil
	}
	return i.under(keyer.GlobOf(key))
}

// under returns the follower of a glob, under one of its spellings.
func (i *globIndex) under(glob string) *follower {
	if g := i.all[glob]; g != nil {
		return g
	}
	if gs := i.respelled[glob]; len(gs) > 0 {
		return gs[0]
	}
	return nil
}

// calling returns the follower of a glob that gives the client a member under a name, nil if
// there is none.
func (i *globIndex) calling(key, name string) *follower {
	if len(i.all) == 0 {
		return nil
	}
	glob := keyer.GlobOf(key)
	if g := i.all[glob]; g != nil && g.name.ofKey(key) == name {
		return g
	}
	for _, g := range i.respelled[glob] {
		if g.name.ofKey(key) == name {
			return g
		}
	}
	return nil
}
