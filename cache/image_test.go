package cache

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
)

func imageOfAll(k *kept) *Image { return k.store.Snapshots().Image(func(string) bool { return false }) }

// An image has what is worth to be restored: no table of which nothing is known, and no name whose content is not to be
// cached
// (SUR-1, TTL-5).
func TestImage_SUR1(t *testing.T) {
	k := asked(t, Source{}, "a", "b", "n")
	if got := len(imageOfAll(k).Tables); got != 0 {
		t.Errorf("it has %d tables of which nothing is known", got)
	}
	k.says(WholeType, "+a@1", "+b@2!")
	tables := imageOfAll(k).Tables
	if len(tables) != 1 || len(tables[0].Names) != 1 || tables[0].Names[0] != "a" {
		t.Errorf("it has %+v", tables)
	}
}

// An image says how old its content is, as long as the control plane has not confirmed all of it (SUR-1).
func TestAgeOfImage_SUR1(t *testing.T) {
	k := newKept(t)
	k.listener(NeedsStream).watch("m")
	k.demand(WholeType)
	k.says(WholeType, "+m@1")
	if at := imageOfAll(k).AsOf; !at.IsZero() {
		t.Errorf("without restored content it is of %v", at)
	}
	k.restores("n@1")
	if at, want := imageOfAll(k).AsOf, k.store.restored.asOf; !at.Equal(want) || at.IsZero() {
		t.Errorf("it is of %v, want %v", at, want)
	}
	k.listener(NeedsStream).watch("n")
	k.demand(WholeType)
	k.says(WholeType, "+n@1")
	if at := imageOfAll(k).AsOf; !at.IsZero() {
		t.Errorf("all is confirmed, and it is of %v", at)
	}
}

// A resource in an image is a member of "*", or of the glob of its name (SUR-1).
func TestCollectionOfImage_SUR1(t *testing.T) {
	for _, tc := range []struct {
		kind       Kind
		name, want string
	}{
		{WholeType, name, Wildcard},
		{ByName, name, glob},
		{ByName, "n", ""},
		{ByName, "xdstp://", ""},
	} {
		i := &TableImage{Kind: tc.kind}
		if got := i.CollectionOf(words.Resource(cds, tc.name+"@1")); got != tc.want {
			t.Errorf("%q of %s: %q, want %q", tc.name, tc.kind, got, tc.want)
		}
	}
}

// Cursors that wait are counted, of all clients and of those that can do ttl (OPS-2).
func TestUpkeepWaiting_OPS2(t *testing.T) {
	k := newKept(t)
	for _, needs := range []Needs{NeedsStream, NeedsStream | NeedsTTL, NeedsStream | NeedsTTL} {
		k.listener(needs).follow(glob)
	}
	if u := k.store.FindTable(cds, ByName).upkeep(); u.Waiting != 3 || u.WaitingTTL != 2 {
		t.Errorf("%d wait, %d of them for heartbeats", u.Waiting, u.WaitingTTL)
	}
}

// What is restored late is dated as it was (SUR-1).
func TestRestoredTimes_SUR1(t *testing.T) {
	k := newKept(t)
	received := time.Now().Add(-time.Hour).Round(time.Second)
	deadline := time.Now().Add(time.Minute)
	k.store.Snapshots().Restore(&Image{Tables: []TableImage{{
		TypeURL: cds, Kind: ByName, Names: []string{"n"},
		Resources: []ResourceImage{{Resource: words.Resource(cds, "n@1~1h").AsRestored(), Received: received, Deadline: deadline}},
	}}}, time.Now())
	e := k.named("n")
	if !e.ReceivedAt().Equal(received) || !e.Lifetime().Deadline().Equal(deadline) {
		t.Errorf("it was received %v and ends %v, want %v and %v", e.ReceivedAt(), e.Lifetime().Deadline(), received, deadline)
	}
}
