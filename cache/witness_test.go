package cache

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
)

// restoresMembers puts members of a collection into a store, as an earlier process left them.
func (k *kept) restoresMembers(kind Kind, key string, members ...string) *Collection {
	k.Helper()
	i := TableImage{TypeURL: cds, Kind: kind, Collections: []string{key}}
	for _, m := range members {
		i.Resources = append(i.Resources, ResourceImage{Resource: words.Resource(cds, m).AsRestored()})
	}
	k.store.Snapshots().Restore(&Image{Tables: []TableImage{i}}, time.Now())
	k.check()
	return k.store.FindTable(cds, kind).colls[key]
}

// restarts begins a stream.
func (k *kept) restarts() {
	k.Helper()
	k.store.Session().Restart(stream(WholeType), 0)
	k.check()
}

// The witness is another member than on the stream before, but none that the server removed, or that cannot be
// presented (RES-12, GATE-4).
func TestChooseWitness_RES12_GATE4(t *testing.T) {
	k := newKept(t)
	c := k.restoresMembers(WholeType, Wildcard, "a@1", "b@1")
	members := []string{c.First().key, c.Last().key}
	for _, want := range []string{members[0], members[1], members[0]} {
		if k.restarts(); c.quiet.witness.key != want {
			t.Errorf("the witness is %q, want %q", c.quiet.witness.key, want)
		}
	}
	k.freeze()
	k.says(WholeType, "-"+members[1])
	if k.restarts(); c.quiet.witness.key != members[0] {
		t.Errorf("the witness is %q, which the server has removed", c.quiet.witness.key)
	}
	k.store.mu.Lock()
	c.table.Entry(members[0]).marks.Alias = true // as if another resource served it
	k.store.mu.Unlock()
	if chooseWitness(c); c.quiet.witness.key != "" {
		t.Errorf("the witness is %q, which has no version", c.quiet.witness.key)
	}
}

// The witness is lacking until the server has sent it, or said that it is gone. Without one nothing lacks, also if a stale
// member has the name "" (RES-14, NAME-9).
func TestLacksWitness_RES14_NAME9(t *testing.T) {
	begin := func() (*kept, *Collection) {
		k := newKept(t)
		k.store.Pin(cds, Name{Key: glob})
		c := k.restoresMembers(ByName, glob, name+"@1")
		k.restarts()
		return k, c
	}
	for said, want := range map[string]bool{"": true, "+" + name + "@1": false, "+" + name + "@2": false, "-" + name: false, "-" + glob: false} {
		k, c := begin()
		if said != "" {
			k.says(WholeType, said)
		}
		if got := lacksWitness(c); got != want {
			t.Errorf("after %q the witness is lacking: %t", said, got)
		}
	}
	k := newKept(t)
	k.listener(NeedsStream).follow(Wildcard)
	k.demand(WholeType)
	k.says(WholeType, "+@1", "+a@1")
	k.store.Session().Restart(stream(WholeType), 1)
	if c := k.store.FindTable(cds, WholeType).colls[Wildcard]; c.quiet.stale != 2 || lacksWitness(c) {
		t.Errorf("of %d stale members one is taken for the witness", c.quiet.stale)
	}
}

// The stream begins anew, once, for an incremental server that says nothing of a collection of which the relay holds
// something, if only that it was empty (RES-14).
func TestMissWitness_RES14(t *testing.T) {
	follows := func(k *kept) *Collection {
		k.listener(NeedsStream).follow(Wildcard)
		return k.store.FindTable(cds, WholeType).colls[Wildcard]
	}
	for name, tc := range map[string]struct {
		source Source
		begin  func(k *kept) *Collection
		want   bool
	}{
		"nothing is held": {Source{}, follows, false},
		"it was empty":    {Source{}, func(k *kept) *Collection { return k.restoresMembers(WholeType, Wildcard) }, true},
		"members":         {Source{}, func(k *kept) *Collection { return k.restoresMembers(WholeType, Wildcard, "a@1") }, true},
		"of this process": {Source{}, func(k *kept) *Collection { c := follows(k); k.demand(WholeType); k.says(WholeType, "+a@1"); return c }, true},
		"complete": {Source{}, func(k *kept) *Collection {
			c := k.restoresMembers(WholeType, Wildcard, "a@1")
			c.quiet.synced = true
			return c
		}, false},
		"the whole is told": {Source{State: true}, func(k *kept) *Collection { return k.restoresMembers(WholeType, Wildcard, "a@1") }, false},
	} {
		k := newKeptOf(t, tc.source)
		c := tc.begin(k)
		k.restarts()
		if got := missWitness(c); got != tc.want || c.quiet.witness.anew != tc.want {
			t.Errorf("%s: the stream begins anew: %t", name, got)
		}
		if missWitness(c) {
			t.Errorf("%s: the stream begins anew twice", name)
		}
	}
}
