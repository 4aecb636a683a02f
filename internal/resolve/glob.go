package resolve

import (
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// glob is a glob of the resolved store. What comes from the place that serves is passed
// on member by member; places differ in everything but the members' last segments.
type glob struct {
	resolver *Resolver
	leadKey  // in the resolved store
	name     keyer.Name

	places []place
	folds  []*fold // of the places up to the one that serves; nil: it cannot be asked now
	serves int
	began  bool // some place serves

	members map[string]*node // by key: those that are redirects to be followed
	open    int              // of those: nothing is known of them yet
	turns   int              // times that another place began to serve
	synced  bool             // the place that serves told all members
	told    bool             // so was the resolved store

	queued bool
	ended  bool
}

func (g *glob) touch() {
	if !g.queued && !g.ended {
		g.queued = true
		g.resolver.globs.queue = append(g.resolver.globs.queue, g)
	}
}

func (g *glob) servedBy(f *fold) bool { return g.began && g.folds[g.serves] == f }

// look looks which place serves (LOC-5).
func (g *glob) look() {
	r, was := g.resolver, g.serves
	var passed []*fold
	serves := choose(len(g.places), was, func(i int) (reach, bool) {
		t := r.tapOf(g.places[i].upstream)
		if t == nil {
			passed = append(passed, nil)
			return gone, false
		}
		f := t.fold(leadKey{g.typeURL, g.places[i].name.Canonical()}, g)
		passed = append(passed, f)
		return t.reach, f.synced
	})
	before := g.folds
	g.folds = passed
	if len(passed) == 0 || passed[serves] == nil {
		g.began = false // there is no asking now
	} else if !g.began || serves != was {
		g.turn(serves)
		if serves != was {
			r.switched(g.key, g.places, was, serves)
		}
	}
	for _, f := range before {
		if f != nil && !slices.Contains(g.folds, f) {
			f.leave(g)
		}
	}
}

// turn has another place serve. What clients hold stays until that place has told that
// it has it not.
func (g *glob) turn(serves int) {
	g.serves, g.began, g.synced = serves, true, false
	g.turns++
	for key, n := range g.members {
		if !n.told.holds {
			g.drop(key) // nobody can say that it is gone
		}
	}
	g.folds[serves].attach(g)
}

// found takes a member of the place that serves.
func (g *glob) found(m cache.Found, change uint64) {
	key := keyer.MemberOf(g.key, m.Key)
	p := g.places[g.serves]
	if isRedirect(m.Resource) && p.upstream.Follow {
		g.follow(key, m, p)
		return
	}
	g.drop(key)
	out := g.resolver.out(g.typeURL)
	out.Found = append(out.Found, cache.Found{Key: key, Resource: m.Resource.WithoutTTL()})
	g.resolver.brought(g.typeURL, g.folds[g.serves].tap, g.typeURL, change)
}

// follow has a member that is a redirect looked for (LOC-1).
func (g *glob) follow(key string, m cache.Found, p place) {
	n := g.members[key]
	if n == nil {
		key = strings.Clone(key) // it may lie in the bytes of what it came with
		n = &node{resolver: g.resolver, leadKey: leadKey{g.typeURL, key}, member: &member{glob: g, open: true}}
		if g.members == nil {
			g.members = make(map[string]*node)
		}
		g.members[key] = n
		g.open++
	}
	n.member.name, n.member.place, n.member.redirect, n.member.turn = strings.Clone(m.Key), p, m.Resource, g.turns
	n.touch()
}

func (g *glob) removed(key string) {
	key = keyer.MemberOf(g.key, key)
	g.drop(key)
	out := g.resolver.out(g.typeURL)
	out.Removed = append(out.Removed, key)
}

func (g *glob) empty() {
	for key := range g.members {
		g.drop(key)
	}
	out := g.resolver.out(g.typeURL)
	out.Removed = append(out.Removed, g.key)
}

// failed tells an error that the place that serves has for a member, or for all of it
// (ERR-1).
func (g *glob) failed(x cache.Failure) {
	key := g.key
	if x.Key != g.folds[g.serves].key {
		key = keyer.MemberOf(g.key, x.Key)
		if !x.Error.Transient() {
			g.drop(key)
		}
	}
	out := g.resolver.out(g.typeURL)
	out.Failed = append(out.Failed, cache.Failure{Key: key, Error: x.Error})
}

// sync takes word that all members were told. Redirects that were not among them are
// gone.
func (g *glob) sync() {
	g.synced = true
	for key, n := range g.members {
		if n.member.turn != g.turns {
			g.removed(key)
		}
	}
	g.settle()
}

// settle tells that the resolved glob has all its members, once that is so.
func (g *glob) settle() {
	if g.synced && g.open == 0 && !g.told && !g.ended {
		g.told = true
		out := g.resolver.out(g.typeURL)
		out.Synced = append(out.Synced, g.key)
	}
}

func (g *glob) giveUp() {
	if !g.told {
		out := g.resolver.out(g.typeURL)
		out.Late = append(out.Late, g.key)
	}
}

// drop ends the search for a member, if there is one.
func (g *glob) drop(key string) {
	n := g.members[key]
	if n == nil {
		return
	}
	delete(g.members, key)
	n.member.known()
	n.end()
	g.settle() // it may have been the last one that was waited for
}

// end lets go of everything.
func (g *glob) end() {
	g.ended = true
	for key := range g.members {
		g.drop(key)
	}
	for _, f := range g.folds {
		if f != nil {
			f.leave(g)
		}
	}
	g.folds, g.began = nil, false
}
