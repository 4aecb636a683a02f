package cache

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// serveAliases lets r serve the entries that clients asked for under its aliases, and
// takes it from the entries that it served before and does not name any more (RES-10).
// It reports whether any was asked for.
func serveAliases(t *table, key string, r *wire.Resource, now time.Time) bool {
	before := t.aliases.of(key)
	if len(r.Aliases()) == 0 && len(before) == 0 {
		return false
	}
	var served []*entry
	for _, alias := range r.Aliases() {
		e := aliasToServe(t, key, alias)
		if e == nil || slices.Contains(served, e) {
			continue // not asked for, or listed twice
		}
		serveAlias(t, e, r, now)
		served = append(served, e)
	}
	t.aliases.set(key, nil)
	for _, e := range before {
		if e.alias && e.there() && !slices.Contains(served, e) {
			t.unset(e, absent, nil, now)
		}
	}
	t.aliases.set(key, served)
	return len(served) > 0
}

// aliasToServe returns the entry of an alias of the resource with a key, nil if nobody
// asked for it. A resource of that very name goes before.
func aliasToServe(t *table, key, alias string) *entry {
	k, err := keyer.Key(alias)
	if err != nil || k == key {
		return nil
	}
	e := t.entries[k]
	if e == nil || (e.interest == nil && !e.wanted()) || (e.there() && !e.alias) {
		return nil
	}
	return e
}

func serveAlias(t *table, e *entry, r *wire.Resource, now time.Time) {
	if e.res != nil && e.res.SameContent(r) {
		t.resent(e, r, now)
	} else {
		t.aliases.drop(e)
		if e.dead {
			e.coll.disown(e)
		}
		e.alias = true
		if r.DoNotCache {
			t.pass(e, r, nil, now)
		} else {
			t.set(e, r, nil, now)
		}
	}
	e.mark = t.mark
}

// dropAliases takes away what a resource serves under its aliases, as the resource does
// not exist any more.
func dropAliases(t *table, key string, now time.Time) {
	for _, e := range slices.Clone(t.aliases.of(key)) {
		served := e.servedName()
		if t.unset(e, absent, nil, now); e.wanted() {
			e.setServed(served)
		}
	}
}
