package cache

import (
	"cmp"
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// The wildcard and the names of a type have streams of their own, since what comes on one
// stream could be of either (SUB-12). Of some types they share one (Source.Shared), and of
// all where the server refuses a second stream (OneStream). What somebody names is no
// member of the wildcard then, unless it was one before (SUB-14).

// OneStream says whether the server refuses a second stream beside one: then that carries
// names and the wildcard of each type. Neither stream is open now, or the second is not.
func (s *Store) OneStream(stream wire.StreamID, one bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.single[stream.TypeURL] == one {
		return
	}
	if s.single == nil {
		s.single = make(map[string]bool)
	}
	s.single[stream.TypeURL] = one
	for _, t := range s.tables {
		switch other := t.other(); {
		case !t.assigned || t.stream.TypeURL != stream.TypeURL || s.source.Shared[t.typeURL]:
		case one && t.stream.Second:
			t.stream.Second = false
			t.say()
		case one:
		case t.kind == byName && other != nil && other.on(t.stream):
			t.stream.Second = true
		}
	}
	s.signalDemand()
}

// say has the server asked for everything that it was not asked for.
func (t *table) say() {
	for i := range t.all() {
		if !i.subscribed {
			i.mark()
		}
	}
}

// shares reports whether the wildcard and the names of the type are on one stream.
func (t *table) shares() bool {
	s := t.store
	if s.source.Shared[t.typeURL] {
		return true
	}
	if s.source.PerType {
		return s.single[t.typeURL]
	}
	return s.single[""]
}

// tooLate reports whether a collection is a wildcard that is to be asked for where the server
// was asked for names: the first request for a type alone can ask for everything (SUB-14).
func (t *table) tooLate(c *collection) bool {
	other := t.other()
	return c.wildcard() && other != nil && other.on(t.stream) && other.spoken
}

// applyShared applies a response on a stream that carries the wildcard and the names of
// its type: to either table what is its own.
func (u *update) applyShared(whole, named *table) {
	parts := map[*table]*wire.DeltaResponse{}
	for _, t := range []*table{whole, named} {
		parts[t] = &wire.DeltaResponse{
			TypeURL: u.response.TypeURL, SystemVersion: u.response.SystemVersion,
			RemovedVariants: u.response.RemovedVariants,
		}
	}
	for i, r := range u.response.Resources {
		for _, t := range owners(whole, named, u.keys[i], r.Aliases()) {
			parts[t].Resources = append(parts[t].Resources, r)
		}
	}
	for i, name := range u.response.Removed {
		for _, t := range owners(whole, named, u.removed[i], nil) {
			parts[t].Removed = append(parts[t].Removed, name)
		}
	}
	for i := range u.response.Errors {
		for _, t := range owners(whole, named, u.failed[i], nil) {
			parts[t].Errors = append(parts[t].Errors, u.response.Errors[i])
		}
	}
	for _, t := range []*table{whole, named} {
		if u.concerns(t, parts[t]) {
			u.applyPart(t, parts[t])
		}
	}
}

// owners are the tables that something belongs to.
func owners(whole, named *table, key string, aliases []string) []*table {
	member := false
	if e := whole.entries[key]; e != nil {
		member = e.member()
	}
	switch asked := named.names(key, aliases); {
	case key == badKey:
		return nil // nobody knows its name
	case asked && member:
		return []*table{whole, named}
	case asked:
		return []*table{named}
	default:
		return []*table{whole}
	}
}

// names reports whether somebody names a resource, or something of its aliases, or did a
// short while ago: its answer may still be on its way.
func (t *table) names(key string, aliases []string) bool {
	e := t.entries[key]
	if t.awaits(key) || len(t.aliases.of(key)) > 0 || t.variants.of(key) != nil || t.collectionOf(key, e) != nil {
		return true
	}
	return slices.ContainsFunc(aliases, func(alias string) bool {
		k, err := keyer.Key(alias)
		return err == nil && t.awaits(k)
	})
}

func (t *table) awaits(key string) bool {
	if e := t.entries[key]; e != nil && (e.interest != nil || e.wanted()) {
		return true
	}
	at, said := t.farewells[key]
	return said && t.store.cache.now().Sub(at) <= t.store.source.longQuiet()
}

// concerns reports whether a response says something to a table, part of which is its own.
// One that holds nothing speaks to both, and so does a list.
func (u *update) concerns(t *table, part *wire.DeltaResponse) bool {
	r := u.response
	nothing := len(r.Resources)+len(r.Removed)+len(r.Errors)+len(r.RemovedVariants) == 0
	return nothing || len(part.Resources)+len(part.Removed)+len(part.Errors)+len(part.RemovedVariants) > 0 ||
		(u.state != nil && u.lists(t))
}

// applyPart applies the part of a response that is a table's own.
func (u *update) applyPart(t *table, r *wire.DeltaResponse) {
	part, err := newUpdate(r, u.received)
	if err != nil {
		u.bad = append(u.bad, err) // it was checked with the whole
		return
	}
	part.state, part.bad = u.state, u.bad
	part.apply(t)
	u.unsolicited += part.unsolicited
	u.foreign, u.foreigner = u.foreign+part.foreign, cmp.Or(part.foreigner, u.foreigner)
	u.ambiguous = append(u.ambiguous, part.ambiguous...)
}
