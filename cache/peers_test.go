package cache

import (
	"slices"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// gives takes what a peer knows of names, or of collections that it has all members of.
func (k *kept) gives(asOf time.Time, kind Kind, whole []string, resources ...*wire.Resource) int {
	k.Helper()
	n := k.store.Peers().Take([]PeerAnswer{{PeerWants{cds, kind, whole}, resources}}, asOf)
	k.check()
	return n
}

// Peers are asked for what clients want and nobody has answered (ABS-3). Subscriptions to that are counted.
func TestMissing_ABS3(t *testing.T) {
	k := newKeptOf(t, Source{Quiet: time.Second, Peers: true})
	l := k.listener(NeedsStream)
	p := k.store.Peers()
	counts := func(what string, want uint64, do func()) {
		t.Helper()
		before := p.Wants()
		if do(); p.Wants()-before != want {
			t.Errorf("%s: %d were wanted that are not known, want %d", what, p.Wants()-before, want)
		}
	}
	names := []string{"unknown", "idle", "present", "absent", "left open"}
	counts("new names", uint64(len(names)), func() {
		for _, name := range names {
			l.watch(name)
		}
	})
	k.demand(WholeType)
	k.says(WholeType, "+present@1", "-absent")
	k.apply(WholeType, &wire.Response{TypeURL: cds, Errors: []wire.ResourceError{{Name: "left open", Code: codes.Unavailable}}})
	l.unwatch("idle")
	other := k.listener(NeedsStream)
	counts("what is known", 0, func() { other.watch("present"); other.watch("absent") })
	counts("what the server left open", 1, func() { other.watch("left open") })
	missing := p.Missing()
	if len(missing) != 1 || missing[0].Kind != ByName || !slices.Equal(missing[0].Names, []string{"left open", "unknown"}) {
		t.Errorf("missing is %+v", missing)
	}
}

// Nothing is taken from a peer that nobody wants, or that must not be kept (SUR-1, TTL-5).
func TestTake_SUR1_TTL5(t *testing.T) {
	k := newKept(t)
	l := k.listener(NeedsStream)
	if n := k.gives(time.Now(), ByName, nil, words.Resource(cds, "a@1")); n != 0 || len(k.store.tables) != 0 {
		t.Errorf("of a type that nobody wants %d resources were taken", n)
	}
	for _, name := range []string{"a", "b", "c"} {
		l.watch(name)
	}
	l.follow(glob)
	n := k.gives(time.Now(), ByName, []string{glob, "xdstp://x/envoy.config.cluster.v3.Cluster/other/*"},
		words.Resource(cds, "a@1"), words.Resource(cds, "=b@1"), words.Resource(cds, "c@1!"), words.Resource(cds, name+"@1"))
	if n != 2 {
		t.Errorf("%d resources were taken, want a name and a member", n)
	}
	for _, name := range []string{"b", "c"} {
		if e := k.store.FindTable(cds, ByName).Find(name); e.state != Unknown {
			t.Errorf("%q is %v by a peer's word", name, e.state)
		}
	}
	c := k.store.FindTable(cds, ByName).colls[glob]
	if !c.Restored() || !c.hasWhole() {
		t.Error("the collection is not taken for whole")
	}
}

// What the server has said that a collection has counts, and no peer's word.
func TestTakeOfComplete_SUR1(t *testing.T) {
	k := newKeptOf(t, Source{Quiet: time.Second, State: true})
	k.listener(NeedsStream).follow(glob)
	k.demand(WholeType)
	k.apply(WholeType, &wire.Response{TypeURL: cds, State: true, Complete: true})
	k.gives(time.Now(), ByName, []string{glob})
	if c := k.store.FindTable(cds, ByName).colls[glob]; c.restored.is || c.restored.whole {
		t.Error("a complete collection counts as restored")
	}
}

// Of what comes from several peers the oldest says when it was last known to be current. It counts until the
// server has confirmed all of it.
func TestTakenAsOf_SUR1(t *testing.T) {
	k := newKept(t)
	l := k.listener(NeedsStream)
	for _, name := range []string{"a", "b", "c"} {
		l.watch(name)
	}
	for i, tc := range []struct {
		name      string
		asOf, has int64
	}{{"a", 20, 20}, {"b", 30, 20}, {"c", 10, 10}} {
		k.gives(time.Unix(tc.asOf, 0), ByName, nil, words.Resource(cds, tc.name+"@1"))
		if n, asOf := k.store.Snapshots().Restored(); n != i+1 || !asOf.Equal(time.Unix(tc.has, 0)) {
			t.Errorf("with %q there are %d resources as of %d, want %d as of %d", tc.name, n, asOf.Unix(), i+1, tc.has)
		}
	}
	k.demand(WholeType)
	k.says(WholeType, "+a@1", "+b@2", "-c")
	if n, _ := k.store.Snapshots().Restored(); n != 0 {
		t.Errorf("%d resources wait for the server's word", n)
	}
}
