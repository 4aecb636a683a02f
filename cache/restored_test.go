package cache

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
)

// An incremental server's silence confirms the names that it was asked for, and no others (SUR-1).
func TestConfirmSilence_SUR1(t *testing.T) {
	k, begin := newTimed(t, Source{Quiet: time.Second})
	k.store.Snapshots().Restore(&Image{Tables: []TableImage{{TypeURL: cds, Kind: ByName, Names: []string{"a", "b", "c"}, Resources: []ResourceImage{
		{Resource: words.Resource(cds, "a@1").AsRestored()}, {Resource: words.Resource(cds, "b@1").AsRestored()}, {Resource: words.Resource(cds, "c@1").AsRestored()},
	}}}}, begin)
	k.restarts()
	table := k.store.FindTable(cds, ByName)
	asked := map[string]bool{"a": true, "b": true, "c": true}
	witness := table.upstream.restored.witness.name()
	for name := range asked {
		if name != witness {
			asked[name], table.Find(name).extra.demand.subscribed = false, false // its subscription is not sent yet
			break
		}
	}
	k.saysAt(begin, cds, "+"+witness+"@1")
	for _, at := range []time.Duration{time.Second - 1, time.Second} {
		k.store.Session().Settle(begin.Add(at))
		k.check()
		for name, confirmed := range asked {
			confirmed = confirmed && at == time.Second || name == witness
			if table.Find(name).Restored() == confirmed {
				t.Errorf("after %v %q is confirmed: %t", at, name, !confirmed)
			}
		}
	}
}

// Silence confirms names beside members, which wait for their collection (SUR-1).
func TestConfirmSilenceBesideMembers_SUR1(t *testing.T) {
	k, begin := newTimed(t, Source{Quiet: time.Second})
	k.listener(NeedsStream).follow(glob)
	k.restores("a@1", "b@1")
	k.restoresMembers(ByName, glob, name+"@1")
	k.restarts()
	table := k.store.FindTable(cds, ByName)
	k.saysAt(begin, cds, "+"+table.upstream.restored.witness.name()+"@1")
	confirmSilence(table, begin.Add(time.Second))
	k.check()
	for key, want := range map[string]bool{"a": false, "b": false, name: true} {
		if e := table.Find(key); e.Restored() != want {
			t.Errorf("%q waits for the server's word: %t", key, !want)
		}
	}
}

// When all names are confirmed nothing is waited for (SUR-1).
func TestAnswerForWitness_SUR1(t *testing.T) {
	for said, left := range map[string]int{"+a@1": 0, "+a@2": 0, "-a": 0, "+other@1": 1, "+other@1|a": 1} {
		k, begin := newTimed(t, Source{Quiet: time.Second})
		k.listener(NeedsStream).watch("other")
		k.restores("a@1")
		k.restarts()
		k.saysAt(begin, cds, said)
		if n, _ := k.store.Snapshots().Restored(); n != left || awaitsWitness(k.store.FindTable(cds, ByName)) != (left > 0) {
			t.Errorf("after %q %d names wait for the server's word, want %d", said, n, left)
		}
		if at := k.store.Session().Settle(begin); !at.IsZero() {
			t.Errorf("after %q something waits until %v", said, at)
		}
	}
}

// The server answers for a name also by another resource that serves it, once its own is gone (SUR-1, RES-10).
func TestAliasAnswersForWitness_SUR1_RES10(t *testing.T) {
	k, begin := newTimed(t, Source{Quiet: time.Second})
	l := k.listener(NeedsStream)
	l.watch("a")
	l.watch("other")
	k.restores("a@1~10s")
	k.restarts()
	k.store.Session().Settle(begin.Add(10 * time.Second))
	table := k.store.FindTable(cds, ByName)
	if k.saysAt(begin, cds, "+other@1"); table.upstream.restored.witness == nil {
		t.Error("another name answers for it")
	}
	if k.saysAt(begin, cds, "+other@2|a"); table.upstream.restored.witness != nil {
		t.Error("an alias does not answer for the name")
	}
}

// A stream does not begin anew because a name went for which the server was to answer, if nothing else waits for such an
// answer: members do not, nor what the server has sent (SUR-1).
func TestWitnessGoesAlone_SUR1(t *testing.T) {
	k, begin := newTimed(t, Source{Quiet: time.Second})
	k.listener(NeedsStream).follow(glob)
	k.listener(NeedsStream).watch("new")
	k.restores("a@1")
	k.restoresMembers(ByName, glob, name+"@1")
	k.restarts()
	k.saysAt(begin, cds, "+new@1")
	if witness := k.store.FindTable(cds, ByName).upstream.restored.witness.name(); witness != "a" {
		t.Fatalf("the server is to answer for %q", witness)
	}
	k.forgets()
	k.store.Session().Settle(begin)
	k.demand(WholeType) // which it could not take otherwise
	if n, _ := k.store.Snapshots().Restored(); n != 1 {
		t.Errorf("%d resources wait for the server's word", n)
	}
}

// What the server has sent in this process is presented as it is: it need not answer for any of it (RES-12).
func TestNoWitness_RES12(t *testing.T) {
	k := newKept(t)
	l := k.listener(NeedsStream)
	l.watch("a")
	l.watch("b")
	k.demand(WholeType)
	k.says(WholeType, "+a@1", "+b@2")
	if got, ok := k.presents(0); !ok || got["a"] != "1" || got["b"] != "2" {
		t.Errorf("presented are %v", got)
	}
}
