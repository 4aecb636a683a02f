package cache

import (
	"testing"
	"time"
)

// Results with anything in them are not empty, whatever else there is.
func TestResolvedEmpty(t *testing.T) {
	if r := new(Resolved); !r.Empty() {
		t.Error("nothing is something")
	}
	parts := []func(*Resolved){
		func(r *Resolved) { r.Found = make([]Found, 1) },
		func(r *Resolved) { r.Removed = make([]string, 1) },
		func(r *Resolved) { r.Failed = make([]Failure, 1) },
		func(r *Resolved) { r.Synced = make([]string, 1) },
		func(r *Resolved) { r.Late = make([]string, 1) },
	}
	for i, one := range parts {
		for n, other := range parts {
			r := new(Resolved)
			one(r)
			other(r)
			if r.Empty() {
				t.Errorf("results of kinds %d and %d count as nothing", i, n)
			}
		}
	}
}

// Results for names and globs that nobody asks for any more are skipped, and a glob that is complete completes once.
func TestResolvedOfNobody(t *testing.T) {
	k := newKeptOf(t, Source{Resolved: true})
	k.listener(NeedsStream).follow(glob)
	k.demand(WholeType)
	apply := func(r *Resolved) {
		r.TypeURL = cds
		k.store.Session().ApplyResolved([]*Resolved{r}, time.Now())
		k.check()
	}
	mark := func() Mark { return k.store.Snapshots().Mark() }
	before := mark()
	apply(&Resolved{Synced: []string{"xdstp://x/envoy.config.cluster.v3.Cluster/other/*"}, Late: []string{"nobody's"}})
	if mark() != before {
		t.Error("what nobody asks for changes something")
	}
	apply(&Resolved{Synced: []string{glob}})
	once := mark()
	if once == before || !k.store.FindTable(cds, ByName).colls[glob].Synced() {
		t.Error("the glob is not complete")
	}
	if apply(&Resolved{Synced: []string{glob}}); mark() != once {
		t.Error("it completes twice")
	}
}
