package cache

import (
	"strings"
	"testing"
)

// Check finds an idle name that may be a stray and is on no list. A name that is not idle, or not asked for by
// itself, needs none.
func TestCheckStrays_SUB11(t *testing.T) {
	k := newKept(t)
	l := k.listener(NeedsStream)
	l.follow(Wildcard)
	l.watch("idle")
	l.watch("wanted")
	k.demand(WholeType)
	k.demand(ByName)
	k.says(ByName, "+idle@1", "+wanted@1")
	k.says(WholeType, "+member@1")
	l.unwatch("idle")
	star, named := k.store.FindTable(cds, WholeType), k.store.FindTable(cds, ByName)
	star.Find("member").marks.stray = true
	named.Find("wanted").marks.stray = true
	k.check()
	named.Find("idle").marks.stray = true
	if err := k.store.Check(); err == nil || !strings.Contains(err.Error(), "may be a stray") {
		t.Errorf("found %v", err)
	}
	if named.Find("idle").extra.demand.strays(); k.store.Check() != nil {
		t.Errorf("found %v, though it is listed", k.store.Check())
	}
}
