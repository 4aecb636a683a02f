package cache

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
)

// forgets evicts all that is idle, and tells the server.
func (k *kept) forgets() {
	k.Helper()
	k.store.cache.Shed()
	k.demand(WholeType)
}

// What goes because nobody wants it changes nothing that a disk would have to keep, unless the server has other
// content than clients had (SUR-1).
func TestForgottenContent_SUR1(t *testing.T) {
	for _, tc := range []struct {
		name string
		held bool
	}{
		{"as the server has it", false},
		{"with other content held back", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKept(t)
			l := k.listener(NeedsStream)
			l.watch("n")
			k.demand(WholeType)
			k.says(WholeType, "+n@1")
			if tc.held {
				table := k.store.FindTable(cds, ByName)
				table.upstream.held = new(heldBack)
				table.upstream.held.names.Put("n", hold.Fate{Resource: words.Resource(cds, "n@2")})
				k.store.due.held.tables = with(k.store.due.held.tables, table)
				k.store.due.held.clock.Hold(time.Now(), time.Hour)
			}
			l.unwatch("n")
			before := k.store.Snapshots().Mark()
			k.forgets()
			if after := k.store.Snapshots().Mark(); (after != before) != tc.held {
				t.Errorf("from %v to %v", before, after)
			}
			if k.store.FindTable(cds, ByName).Find("n") != nil {
				t.Error("it is still there")
			}
		})
	}
}

// Of a frozen table new members of a collection stay held when no client names them any more; other names go (GATE-4).
func TestForgottenHeldName_GATE4(t *testing.T) {
	k := newKept(t)
	k.listener(NeedsStream).follow(glob)
	l := k.listener(NeedsStream)
	l.watch(globTwo)
	l.watch("n")
	k.demand(WholeType)
	k.says(WholeType, "+"+name+"@1", "-"+globTwo, "-n")
	k.freeze()
	k.says(WholeType, "+"+globTwo+"@1", "+n@1")
	held := &k.store.FindTable(cds, ByName).upstream.held.names
	if held.Len() != 2 {
		t.Fatalf("%d names are held", held.Len())
	}
	l.unwatch(globTwo)
	l.unwatch("n")
	k.forgets()
	if _, is := held.Get(globTwo); !is {
		t.Error("the new member is not held any more")
	}
	if _, is := held.Get("n"); is {
		t.Error("a name of nobody is held")
	}
}

// Restored content that is forgotten does not count as unconfirmed any more (SUR-1).
func TestForgottenRestoredContent_SUR1(t *testing.T) {
	k := newKept(t)
	k.restores("n@1", "m@1")
	k.listener(NeedsStream).watch("m")
	k.forgets()
	if n, _ := k.store.Snapshots().Restored(); n != 1 {
		t.Errorf("%d resources are not confirmed", n)
	}
}

// restores brings names with their content from an earlier process.
func (k *kept) restores(names ...string) {
	k.Helper()
	image := TableImage{TypeURL: cds, Kind: ByName}
	for _, text := range names {
		r := words.Resource(cds, text).AsRestored()
		image.Names = append(image.Names, strings.Clone(r.Name))
		image.Resources = append(image.Resources, ResourceImage{Resource: r, Received: time.Now()})
	}
	k.store.Snapshots().Restore(&Image{Tables: []TableImage{image}}, time.Now())
	k.check()
}

// A glob that is wanted again takes in the members that clients named meanwhile, and nothing that does not exist
// (GLOB-6).
func TestGlobWantedAgain_GLOB6(t *testing.T) {
	k := newKept(t)
	f, l := k.listener(NeedsStream), k.listener(NeedsStream)
	f.follow(glob)
	l.watch(name)
	l.watch(globTwo)
	k.demand(WholeType)
	k.says(WholeType, "+"+name+"@1", "+"+globTwo+"@1")
	k.says(WholeType, "-"+globTwo)
	f.cursor.Unfollow()
	k.forgets()
	f.follow(glob)
	k.check()
	if k.named(name).Collection() == nil {
		t.Error("a member is none any more")
	}
	if k.named(globTwo).Collection() != nil {
		t.Error("a member does not exist")
	}
}

// A collection remembers so many removals for clients that have not passed them. Beyond that the oldest go, an eighth
// at once. Those that all clients have passed go when there are twice as many as were left the last time (RES-3).
func TestTombstones_RES3(t *testing.T) {
	k := newKept(t)
	l := k.listener(NeedsStream)
	l.follow(Wildcard)
	k.demand(WholeType)
	removed := 0
	remove := func(n int) {
		k.Helper()
		for range n {
			removed++
			name := fmt.Sprint("a", removed)
			for _, said := range []string{"+" + name + "@1", "-" + name} { // without a check of the store each time
				if err := k.store.Session().Apply(stream(WholeType), response(said), time.Now()); err != nil {
					k.Fatal(err)
				}
			}
		}
		k.check()
	}
	c := k.store.FindTable(cds, WholeType).Collection(Wildcard)
	are := func(what string, want int, behind bool) {
		t.Helper()
		if got := c.log.tombstones.len; got != want || l.cursor.Behind() != behind {
			t.Errorf("%s: %d removals are remembered, want %d; the client is behind: %t", what, got, want, l.cursor.Behind())
		}
	}
	remove(minSweep)
	l.cursor.SkipRemovals(k.store.journal.revision)
	are("few that the client has passed", minSweep, false)
	remove(1)
	are("one more that it has not passed", 1, false)
	remove(minTombstones - 1)
	are("as many as are remembered", minTombstones, false)
	remove(1)
	are("one more", minTombstones-minTombstones/8, true)

	l.cursor.SkipRemovals(k.store.journal.revision)
	remove(minTombstones / 8)
	are("passed, and not twice as many", minTombstones, false)
}

// Run evicts what has been idle for long, from the first that becomes idle on (LIM-3).
func TestRunEvicts_LIM3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKept(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go k.store.cache.Run(ctx)
		k.store.cache.SetLimits(Limits{Idle: time.Minute})
		l := k.listener(NeedsStream)
		for _, name := range []string{"n", "m"} {
			l.watch(name)
		}
		k.demand(WholeType)
		k.says(WholeType, "+n@1", "+m@1")
		for _, name := range []string{"n", "m"} {
			synctest.Wait() // Run looked, and nothing was idle
			l.unwatch(name)
			<-time.After(time.Minute)
			synctest.Wait()
			if got := k.store.cache.Unwatched(); got != 0 {
				t.Errorf("%q is idle still", name)
			}
		}
	})
}
