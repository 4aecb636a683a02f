package cache

import (
	"cmp"
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// applyShared applies a response on a stream that carries the wildcard and the names of its type:
// each table gets its part.
func (u *update) applyShared(whole, named *Table) {
	parts := map[*Table]*wire.Response{}
	for _, t := range []*Table{whole, named} {
		parts[t] = &wire.Response{
			State: u.response.State, Complete: u.response.Complete, Version: u.response.Version,
			TypeURL: u.response.TypeURL, Partial: u.response.Partial, Beside: u.response.Beside,
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
	for _, t := range []*Table{whole, named} {
		if u.concerns(t, parts[t]) {
			u.applyPart(t, parts[t])
		}
	}
}

// owners are the tables to which a resource or an error belongs.
func owners(whole, named *Table, key string, aliases []string) []*Table {
	member := false
	if e := whole.entries[key]; e != nil {
		member = e.Member()
	}
	switch asked := named.isNamed(key, aliases); {
	case key == badKey:
		return nil // nobody knows its name
	case asked && member:
		return []*Table{whole, named}
	case asked:
		return []*Table{named}
	default:
		return []*Table{whole}
	}
}

// isNamed reports whether a resource or one of its aliases was asked for by name, or was until a
// short while ago: its answer may still be on its way.
func (t *Table) isNamed(key string, aliases []string) bool {
	e := t.entries[key]
	if t.awaits(key) || len(t.aliases.of(key)) > 0 || t.collectionOf(key, e) != nil {
		return true
	}
	return slices.ContainsFunc(aliases, func(alias string) bool {
		k, err := keyer.Key(alias)
		return err == nil && t.awaits(k)
	})
}

func (t *Table) awaits(key string) bool {
	if e := t.entries[key]; e != nil && (e.extra.demand != nil || e.wanted()) {
		return true
	}
	_, lately := t.demands.lately(key, t.store.source.longQuiet(), t.store.cache.Now())
	return lately
}

// concerns reports whether a response says something to a table. part is the table's own part. An
// empty response says something to both tables, and so does a list.
func (u *update) concerns(t *Table, part *wire.Response) bool {
	r := u.response
	nothing := len(r.Resources)+len(r.Removed)+len(r.Errors) == 0
	return nothing || len(part.Resources)+len(part.Removed)+len(part.Errors) > 0 || (u.response.State && u.lists(t))
}

// applyPart applies the part of a response that is a table's own.
func (u *update) applyPart(t *Table, r *wire.Response) {
	part, err := newUpdate(r, u.received)
	if err != nil {
		u.bad = append(u.bad, err) // it was checked with the whole
		return
	}
	part.bad, part.heartbeats = u.bad, u.heartbeats
	part.apply(t)
	u.unsolicited += part.unsolicited
	u.foreign, u.foreigner = u.foreign+part.foreign, cmp.Or(part.foreigner, u.foreigner)
}
