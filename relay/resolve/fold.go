package resolve

import (
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// fold is the glob of one place, which any number of globs of the resolved store may
// be served from. Nothing is kept of its members: they are passed on, and a glob that
// turns to it has them told again.
type fold struct {
	tap *tap
	leadKey

	users  map[*glob]struct{}
	synced bool // all that it had was passed on once
	passes bool // a member was not to be cached (TTL-5)
}

// found passes a member on.
func (f *fold) found(m cache.Found, change uint64) {
	f.passes = f.passes || m.Resource.DoNotCache
	for g := range f.users {
		if g.servedBy(f) {
			g.found(m, change)
		}
		g.pass(f)
	}
}

// removed passes on that a member is gone.
func (f *fold) removed(key string) {
	for g := range f.users {
		if g.servedBy(f) {
			g.removed(key)
		}
	}
}

// failed passes on an error: of a member, or of the glob as a whole (ERR-1).
func (f *fold) failed(x cache.Failure) {
	for g := range f.users {
		if g.servedBy(f) {
			g.failed(x)
		}
	}
}

// empty passes on that there are no members (GLOB-4).
func (f *fold) empty() {
	for g := range f.users {
		if g.servedBy(f) {
			g.empty()
		}
	}
}

// sync notes that all members were told.
func (f *fold) sync() {
	first := !f.synced
	f.synced = true
	for g := range f.users {
		if g.servedBy(f) {
			g.sync()
		} else if first {
			g.touch() // it may turn to it now
		}
	}
}

// giveUp passes on that nobody should wait any longer.
func (f *fold) giveUp() {
	for g := range f.users {
		if g.servedBy(f) {
			g.giveUp()
		}
	}
}

// attach has all members told to a glob, and which of those that it has there are not
// any more, as soon as that is known.
func (f *fold) attach(g *glob) {
	f.tap.attached[f] = append(f.tap.attached[f], g)
	f.tap.resolver.visit(f.tap)
}

// held lists what the globs have in the resolved store, under the keys of this place,
// with versions that no resource has.
func (f *fold) held(globs []*glob) wire.Versions {
	var versions wire.Versions
	for _, g := range globs {
		for _, key := range g.resolver.config.Store.Members(g.typeURL, g.key) {
			versions.Add(keyer.MemberOf(f.key, key), "")
		}
	}
	return versions
}

// leave ends a glob's use of it.
func (f *fold) leave(g *glob) {
	delete(f.users, g)
	if len(f.users) == 0 {
		f.tap.unfolded = append(f.tap.unfolded, f)
		f.tap.resolver.visit(f.tap)
	}
}
