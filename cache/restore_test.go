package cache

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
)

// Collections of a snapshot that are none of their table are left out. Resources are counted that came by it (SUR-1).
func TestRestore_SUR1(t *testing.T) {
	k := newKept(t)
	image := func(name string) *Image {
		return &Image{Tables: []TableImage{
			{TypeURL: cds, Kind: WholeType, Collections: []string{Wildcard, glob}, Resources: []ResourceImage{{Resource: words.Resource(cds, name+"@1").AsRestored()}}},
			{TypeURL: cds, Kind: ByName, Collections: []string{Wildcard, glob}},
		}}
	}
	for i, name := range []string{"a", "b"} {
		if n := k.store.Snapshots().Restore(image(name), k.store.cache.Now()); n != 1 {
			t.Errorf("snapshot %d has %d resources", i, n)
		}
		k.check()
		if n, _ := k.store.Snapshots().Restored(); n != i+1 {
			t.Errorf("%d resources wait for the server's word, want %d", n, i+1)
		}
	}
	star, named := k.store.FindTable(cds, WholeType), k.store.FindTable(cds, ByName)
	if len(star.colls) != 1 || star.colls[Wildcard] == nil || len(named.colls) != 1 || named.colls[glob] == nil {
		t.Errorf("collections are %v and %v", star.colls, named.colls)
	}
}

// A name of which a snapshot has a resource without payload is none: damage has nobody asked for it (SUR-1).
func TestRestoreOfNothing_SUR1(t *testing.T) {
	k := newKept(t)
	n := k.store.Snapshots().Restore(&Image{Tables: []TableImage{
		{TypeURL: cds, Kind: ByName, Names: []string{"a"}, Resources: []ResourceImage{{Resource: words.Resource(cds, "=a@1").AsRestored()}}},
	}}, k.store.cache.Now())
	k.check()
	if idle := k.store.cache.Unwatched(); n != 0 || idle != 0 || k.store.Session().Wanted() != 0 {
		t.Errorf("%d resources, %d idle names", n, idle)
	}
}
