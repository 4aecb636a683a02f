package resolve

import (
	"slices"

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

	told   bool // the resolved store was told that it has all members
	passes bool // and that a fold has members that are not to be cached (TTL-5)

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
		g.pass(f)
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
	g.serves, g.began = serves, true
	g.folds[serves].attach(g)
}

// found takes a member of the place that serves.
func (g *glob) found(m cache.Found, change uint64) {
	out := g.resolver.out(g.typeURL)
	out.Found = append(out.Found, cache.Found{Key: keyer.MemberOf(g.key, m.Key), Resource: m.Resource.WithoutTTL()})
	g.resolver.brought(g.typeURL, g.folds[g.serves].tap, g.typeURL, change)
}

// pass tells, once, that one of the folds has members that are not to be cached.
func (g *glob) pass(f *fold) {
	if f.passes && !g.passes {
		g.passes = true
		out := g.resolver.out(g.typeURL)
		out.Passing = append(out.Passing, g.key)
	}
}

func (g *glob) removed(key string) {
	out := g.resolver.out(g.typeURL)
	out.Removed = append(out.Removed, keyer.MemberOf(g.key, key))
}

func (g *glob) empty() {
	out := g.resolver.out(g.typeURL)
	out.Removed = append(out.Removed, g.key)
}

// failed tells an error that the place that serves has for a member, or for all of it
// (ERR-1).
func (g *glob) failed(x cache.Failure) {
	key := g.key
	if x.Key != g.folds[g.serves].key {
		key = keyer.MemberOf(g.key, x.Key)
	}
	out := g.resolver.out(g.typeURL)
	out.Failed = append(out.Failed, cache.Failure{Key: key, Error: x.Error})
}

// sync tells that the resolved glob has all its members, once.
func (g *glob) sync() {
	if !g.told {
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

// end lets go of everything.
func (g *glob) end() {
	g.ended = true
	for _, f := range g.folds {
		if f != nil {
			f.leave(g)
		}
	}
	g.folds, g.began = nil, false
}
