package cache

import (
	"slices"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// serveAliases lets r serve the entries that clients asked for under its aliases, and
// takes it from the entries that it served before and does not name any more (RES-10).
// It reports whether any was asked for.
func (t *Table) serveAliases(key string, r *wire.Resource, now time.Time) bool {
	before := t.aliases.of(key)
	if len(r.Aliases()) == 0 && len(before) == 0 {
		return false
	}
	var served []*Entry
	for _, alias := range r.Aliases() {
		e := t.aliasToServe(key, alias, now)
		if e == nil || slices.Contains(served, e) {
			continue // not asked for, or listed twice
		}
		t.serveAlias(e, r, now)
		served = append(served, e)
	}
	t.aliases.set(key, nil)
	for _, e := range before {
		if e.marks.Alias && !slices.Contains(served, e) {
			t.become(e, content{state: Absent}, said, now)
		}
	}
	t.aliases.set(key, served)
	return len(served) > 0
}

// aliasToServe returns the entry of an alias of the resource with a key, nil if it was not asked
// for. A resource with that name goes before.
func (t *Table) aliasToServe(key, alias string, now time.Time) *Entry {
	k, err := keyer.Key(alias)
	if err != nil || k == key {
		return nil
	}
	e := t.entries[k]
	if e != nil && t.upstream.held.removes(e) {
		t.become(e, content{state: Absent}, said, now) // its name means another resource from now on
		e = t.entries[k]
	}
	if e == nil || (e.extra.demand == nil && !e.wanted()) || (e.Exists() && !e.marks.Alias) {
		return nil
	}
	return e
}

func (t *Table) serveAlias(e *Entry, r *wire.Resource, now time.Time) {
	if e.res != nil && e.res.SameContent(r) {
		if !r.Restored() {
			t.confirm(e)
		}
		t.sentAgain(e, r)
		t.resent(e, r, now)
	} else {
		t.aliases.drop(e)
		if e.marks.Tombstone {
			e.coll.disown(e)
		}
		e.marks.Alias = true
		t.become(e, content{state: Present, res: r}, said, now)
	}
	e.response = t.upstream.response
	t.passOn(e)
}

// dropAliases removes the entries that a resource serves under its aliases, as the resource does
// not exist any more.
func (t *Table) dropAliases(key string, now time.Time) {
	for _, e := range slices.Clone(t.aliases.of(key)) {
		served := e.ServedName()
		if t.become(e, content{state: Absent}, said, now); e.wanted() {
			e.extra.own().absence = &Absence{served: strings.Clone(served)}
		}
	}
}
