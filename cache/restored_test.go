package cache

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
	"github.com/xdsrelay/xdsrelay/internal/wire"
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

// Restored names are presented in a version that no content has. What the server has sent in this process is presented as
// it is (SUR-1, RES-12).
func TestPresents_SUR1_RES12(t *testing.T) {
	k := newKept(t)
	k.restores("a@1", "b@1")
	k.restarts()
	k.says(WholeType, "+b@1")
	got, ok := k.presents(0)
	if !ok || got["a"] != wire.Asked || got["b"] != "1" {
		t.Errorf("presented are %v", got)
	}
}

// A server that answers for some restored members has time to answer for the others. A server that is no relay has those
// that it says nothing of: it takes versions for names only. A relay waits for its own control plane (SUR-1).
func TestOwesMembers_SUR1_RES12(t *testing.T) {
	for identifier, left := range map[string]int{"some server": 0, wire.RelayIdentifier + "first": 1} {
		k, begin := newTimed(t, Source{Quiet: time.Second, ResumeQuiet: time.Minute})
		c := k.restoresMembers(WholeType, Wildcard, "a@1", "b@1")
		k.restarts()
		says := func(said string) {
			k.Helper()
			r := words.Response(cds, said)
			r.ControlPlane = identifier
			k.applyAt(begin, WholeType, r)
		}
		says("+a@1")
		k.store.Session().Settle(begin.Add(time.Second))
		if n, _ := k.store.Snapshots().Restored(); n != 1 || c.quiet.synced {
			t.Errorf("%s: %d members wait for the server's word after a second, want 1", identifier, n)
		}
		k.store.Session().Settle(begin.Add(time.Minute))
		if n, _ := k.store.Snapshots().Restored(); n != left || c.quiet.synced != (left == 0) {
			t.Errorf("%s: %d members wait for the server's word, want %d", identifier, n, left)
		}
		says("+b@2")
		k.store.Session().Settle(begin.Add(2 * time.Minute))
		k.check()
		if n, _ := k.store.Snapshots().Restored(); n != 0 || !c.quiet.synced {
			t.Errorf("%s: %d members wait for the server's word at the end", identifier, n)
		}
	}
}

// A relay says nothing of a restored member that a client names too, while its own control plane does not answer the name.
// The collection waits for that as long as the name does, and the member stays restored (SUR-1, ABS-3).
func TestOwesLateNames_SUR1_ABS3(t *testing.T) {
	for _, named := range []bool{true, false} {
		k, begin := newTimed(t, Source{Quiet: time.Second, ResumeQuiet: 10 * time.Second, Absent: time.Minute})
		c := k.restoresMembers(ByName, glob, name+"@1", globTwo+"@1")
		if named {
			k.listener(NeedsStream).watch(name)
		}
		k.restarts()
		r := words.Response(cds, "+"+globTwo+"@1")
		r.ControlPlane = wire.RelayIdentifier + "first"
		k.applyAt(begin, WholeType, r)
		for _, step := range []struct {
			at    time.Duration
			waits bool
		}{{10 * time.Second, true}, {time.Minute, !named}} {
			k.store.Session().Settle(begin.Add(step.at))
			k.check()
			if n, _ := k.store.Snapshots().Restored(); n != 1 || c.AwaitsMembers() != step.waits {
				t.Errorf("named: %t: after %v %d members are restored, and lists wait: %t, want %t", named, step.at, n, c.AwaitsMembers(), step.waits)
			}
		}
	}
}

// Nothing is asked of what the server removed, or that has no version of its own (GATE-4, RES-10).
func TestAsks_SUR1_GATE4_RES10(t *testing.T) {
	k := newKept(t)
	c := k.restoresMembers(WholeType, Wildcard, "a@1", "b@1")
	a, b := c.table.entries["a"], c.table.entries["b"]
	k.restarts()
	k.freeze()
	k.says(WholeType, "-b")
	if k.restarts(); !c.table.asks(a) || c.table.asks(b) || c.quiet.stale != 1 {
		t.Errorf("asked for is a: %t, b: %t, stale are %d", c.table.asks(a), c.table.asks(b), c.quiet.stale)
	}
	k.store.mu.Lock()
	a.marks.Alias = true // as if another resource served it
	asks := c.table.asks(a)
	a.marks.Alias = false
	k.store.mu.Unlock()
	if asks {
		t.Error("an alias is asked for")
	}
}

// The stream begins anew, once, for an incremental server that says nothing of a collection whose members it was shown in
// their versions (RES-14).
func TestAskAnew_RES14(t *testing.T) {
	member := func(k *kept) *Collection {
		k.listener(NeedsStream).follow(Wildcard)
		k.demand(WholeType)
		k.says(WholeType, "+a@1")
		return k.store.FindTable(cds, WholeType).colls[Wildcard]
	}
	for name, tc := range map[string]struct {
		source Source
		begin  func(k *kept) *Collection
		want   bool
	}{
		"nothing is held": {Source{}, func(k *kept) *Collection {
			k.listener(NeedsStream).follow(Wildcard)
			return k.store.FindTable(cds, WholeType).colls[Wildcard]
		}, false},
		"members":            {Source{}, member, true},
		"they are restored":  {Source{}, func(k *kept) *Collection { return k.restoresMembers(WholeType, Wildcard, "a@1") }, false},
		"complete":           {Source{}, func(k *kept) *Collection { c := member(k); c.quiet.complete(); return c }, false},
		"everything is told": {Source{State: true}, func(k *kept) *Collection { return k.restoresMembers(WholeType, Wildcard, "a@1") }, false},
	} {
		k := newKeptOf(t, tc.source)
		c := tc.begin(k)
		k.restarts()
		for _, want := range []bool{tc.want, false} {
			c.demand.again = false
			if c.askAnew(); c.demand.again != want {
				t.Errorf("%s: the stream begins anew: %t, want %t", name, c.demand.again, want)
			}
		}
	}
}
