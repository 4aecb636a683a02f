package cache

import (
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// gives takes a peer's image of names, and of collections that it has all members of.
func (k *kept) gives(asOf time.Time, kind Kind, whole []string, resources ...*wire.Resource) int {
	k.Helper()
	i := TableImage{TypeURL: cds, Kind: kind, Collections: whole}
	for _, r := range resources {
		i.Resources = append(i.Resources, ResourceImage{Resource: r.AsRestored()})
		if kind == ByName {
			i.Names = append(i.Names, strings.Clone(r.Name)) // in an image they are apart
		}
	}
	n, _ := k.store.Peers().Take(&Image{Tables: []TableImage{i}}, asOf)
	k.check()
	return n
}

// Peers are asked for what clients want and nobody has answered (ABS-3). Subscriptions to that are counted.
func TestLacks_ABS3(t *testing.T) {
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
	l.unwatch("unknown")
	if !p.Lacks() {
		t.Error("what the server left open is not lacking")
	}
	l.unwatch("left open")
	other.unwatch("left open")
	if p.Lacks() {
		t.Error("something is lacking, and all that clients want is known")
	}
	l.follow(glob)
	if !p.Lacks() {
		t.Error("a collection without an answer is not lacking")
	}
}

// An image is taken as a whole, as from a disk, but for what must not be kept (SUR-1, TTL-5).
func TestTake_SUR1_TTL5(t *testing.T) {
	k := newKept(t)
	l := k.listener(NeedsStream)
	for _, name := range []string{"a", "b", "c"} {
		l.watch(name)
	}
	l.follow(glob)
	n := k.gives(time.Now(), ByName, []string{glob, "xdstp://x/envoy.config.cluster.v3.Cluster/other/*"},
		words.Resource(cds, "a@1"), words.Resource(cds, "=b@1"), words.Resource(cds, "c@1!"), words.Resource(cds, "idle@1"), words.Resource(cds, name+"@1"))
	if n != 3 {
		t.Errorf("%d resources were taken, want a name, a member, and one that nobody wants yet", n)
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
	before := k.store.Peers().Wants()
	l.watch("idle")
	if k.store.Peers().Wants() != before {
		t.Error("peers are to be asked again for what they gave")
	}
}

// Names mean the same whether clients ask for them or for everything.
func TestTakeOfWholeType_SUR1(t *testing.T) {
	k := newKept(t)
	k.listener(NeedsStream).watch("a")
	if n := k.gives(time.Now(), WholeType, []string{Wildcard}, words.Resource(cds, "a@1"), words.Resource(cds, "b@1")); n != 3 {
		t.Errorf("%d resources were taken, want two of the type, and one of them by its name", n)
	}
	if e := k.store.FindTable(cds, ByName).Find("a"); e.res == nil || !e.Restored() {
		t.Error("the name is not taken")
	}
}

// A peer's clock may be ahead: nothing was received in the future.
func TestTakeFromTheFuture_SUR1(t *testing.T) {
	k := newKept(t)
	k.listener(NeedsStream).watch("a")
	now := k.store.cache.Now()
	k.store.Peers().Take(&Image{Tables: []TableImage{{
		TypeURL: cds, Kind: ByName, Resources: []ResourceImage{{Resource: words.Resource(cds, "a@1").AsRestored(), Received: now.Add(time.Hour)}},
	}}}, now)
	if e := k.store.FindTable(cds, ByName).Find("a"); e.res == nil || e.received > k.store.cache.Now().UnixNano() {
		t.Errorf("it was received %s ahead", time.Duration(e.received-now.UnixNano()))
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
