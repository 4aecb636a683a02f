package delivery

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

// A glob is found under each of its spellings as long as one is subscribed to, and nothing is kept of those that ended
// (GLOB-5, NAME-4).
func TestGlobIndex_GLOB5_NAME4(t *testing.T) {
	c := newBed(t, cache.Limits{}).join()
	c.sub(cds, "*", globQ, globQ2, globG)
	i := &c.c.find(cds).subs.globs
	canonical, other := i.all[globQ], i.all[globQ2]
	for _, tc := range []struct {
		key, name string
		under     *follower // of the key's glob
		calling   *follower
	}{
		{nameQ, nameQ, canonical, canonical},
		{nameQ, nameQ2, canonical, other},
		{nameG1, nameG1, i.all[globG], i.all[globG]},
		{nameG1, nameG2, i.all[globG], nil},
		{"opaque", "opaque", nil, nil},
	} {
		if of, calling := i.of(tc.key), i.calling(tc.key, tc.name); of != tc.under || calling != tc.calling {
			t.Errorf("%s as %s: found %v, and by the name %v", tc.key, tc.name, of, calling)
		}
	}
	c.unsub(cds, globQ)
	if i.of(nameQ) != other || i.calling(nameQ, nameQ) != nil || len(i.respelled) != 1 || i.bytes != len(globQ2)+len(globG) {
		t.Errorf("after the canonical spelling ended: %+v", i)
	}
	c.unsub(cds, globQ2)
	if i.of(nameQ) != nil || len(i.respelled) != 0 || i.bytes != len(globG) {
		t.Errorf("after all spellings ended: %+v", i)
	}
	c.unsub(cds, globG)
	if i.of(nameG1) != nil || i.calling(nameG1, nameG1) != nil || i.sorted() != nil {
		t.Errorf("after all globs ended: %+v", i)
	}
}

// A client may hold a member by a glob if it was sent the member and not yet told that it is gone, or said that it holds
// it (GLOB-5, RES-11).
func TestGlobGave_GLOB5(t *testing.T) {
	b, c := newBed(t, cache.Limits{}).subscribed(cds, globG)
	slow := b.join() // the store keeps what it was not told of
	slow.sub(cds, globG)
	b.says(cds, "+"+nameG1+"@1", "+"+nameG2+"@1")
	gave := func(name string, want bool) {
		t.Helper()
		var got bool
		b.store.View(func() {
			got = c.c.find(cds).subs.globs.gave(b.store.FindTable(cds, cache.ByName).Find(name))
		})
		if got != want {
			t.Errorf("the glob gave %s: %t, want %t", name, got, want)
		}
	}
	gave(nameG1, false)
	c.collect()
	slow.collect()
	gave(nameG1, true)
	b.says(cds, "-"+nameG2)
	gave(nameG2, true)
	c.collect()
	gave(nameG2, false)
	gave(nameG1, true) // its last change came before
	c.c.find(cds).subs.globs.all[globG].mayHold(nameG2)
	gave(nameG2, true)
}
