package cache

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// Of a frozen table changes are held of what clients know: nothing that is the same, nor what they have nothing of
// (GATE-4).
func TestFrozenChanges_GATE4(t *testing.T) {
	for _, tc := range []struct {
		name string
		says func(k *kept)
		held int
	}{
		{"the same content", func(k *kept) { k.says(WholeType, "+n@1") }, 0},
		{"other content", func(k *kept) { k.says(WholeType, "+n@2") }, 1},
		{"what did not exist", func(k *kept) { k.says(WholeType, "+gone@1") }, 1},
		{"the first answer", func(k *kept) { k.says(WholeType, "+asked@1") }, 0},
		{"the same content of an alias", func(k *kept) { k.says(WholeType, "+r@1|alias") }, 0},
		{"other content of an alias", func(k *kept) { k.says(WholeType, "+r@2|alias") }, 1},
		{"what is not kept", func(k *kept) { k.says(WholeType, "+n@2!") }, 0},
		{"what an earlier process left", func(k *kept) { k.restores("gone@1") }, 0},
		{"a removal", func(k *kept) { k.says(WholeType, "-n") }, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := asked(t, Source{}, "n", "gone", "asked", "alias")
			k.says(WholeType, "+n@1", "+r@1|alias", "-gone")
			k.freeze()
			tc.says(k)
			if got := k.store.FindTable(cds, ByName).upstream.held.names.Len(); got != tc.held {
				t.Errorf("%d changes are held, want %d", got, tc.held)
			}
		})
	}
}

// The server's word that it removed restored content confirms what an operator holds, since clients have that for as
// long as the operator wants. What the guard holds stays unconfirmed (SUR-1).
func TestHeldRemovalOfRestored_SUR1_GATE4(t *testing.T) {
	for _, tc := range []struct {
		name     string
		hold     func(k *kept)
		restored bool
	}{
		{"frozen", (*kept).freeze, false},
		{"guarded", func(k *kept) { k.store.Session().SetGuard(hold.Guard{Share: 0.5, AtLeast: 1, Hold: time.Hour}) }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKept(t)
			k.restores("n@1")
			k.listener(NeedsStream).watch("n")
			k.demand(WholeType)
			tc.hold(k)
			k.says(WholeType, "-n", "-nobody")
			e := k.named("n")
			if !k.store.FindTable(cds, ByName).upstream.held.removes(e) {
				t.Fatal("the removal is not held")
			}
			if e.Restored() != tc.restored {
				t.Errorf("it is unconfirmed: %t", e.Restored())
			}
		})
	}
}

// While the losses of one glob are held, an assignment elsewhere may lose its endpoints (SUR-3).
func TestHeldLossesOfGlob_SUR3(t *testing.T) {
	k := guarded(t, false, hold.Guard{})
	table := k.store.FindTable(xds.EndpointType, ByName)
	table.upstream.held = &heldBack{colls: with[*Collection](nil, k.store.FindTable(cds, ByName).Collection(glob))}
	k.apply(WholeType, &wire.Response{TypeURL: xds.EndpointType, Resources: []*wire.Resource{assignment(t, "full", "2", false)}})
	if table.upstream.held.any() || table.Find("full").Version() != "2" {
		t.Errorf("it is held, and clients have version %s", table.Find("full").Version())
	}
}

// Content that is held of a name goes with it when the name's ttl runs out, and nothing asks for it any more (TTL-2).
func TestHeldContentExpires_TTL2_GATE4(t *testing.T) {
	for _, tc := range []struct {
		name   string
		leaves bool
		held   int
	}{
		{"while a client has it", false, 1},
		{"idle", true, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKept(t)
			l := k.listener(NeedsStream)
			l.watch("n")
			k.demand(WholeType)
			k.says(WholeType, "+n@1~10s")
			k.freeze()
			k.says(WholeType, "+n@2~10s")
			if tc.leaves {
				l.unwatch("n")
				k.store.Session().Lost(stream(WholeType)) // no unsubscribe is waited for
			}
			k.store.Session().Settle(time.Now().Add(time.Minute))
			k.check()
			if got := k.store.FindTable(cds, ByName).upstream.held.names.Len(); got != tc.held {
				t.Errorf("%d names are held, want %d", got, tc.held)
			}
		})
	}
}

// What a freeze kept from being evicted may be evicted again when the freeze ends, unless a client wants it (GATE-4).
func TestKeptByFreeze_GATE4(t *testing.T) {
	k := newKept(t)
	l := k.listener(NeedsStream)
	l.watch("n")
	l.watch("again")
	k.demand(WholeType)
	k.says(WholeType, "+n@1", "+again@1")
	k.freeze()
	l.unwatch("n")
	l.unwatch("again")
	k.store.cache.Shed()
	if n := k.store.cache.Unwatched(); n != 0 {
		t.Fatalf("%d may be evicted of a frozen table", n)
	}
	l.watch("again")
	k.store.Operator().Freeze(nil, nil)
	k.check()
	if n := k.store.cache.Unwatched(); n != 1 {
		t.Errorf("%d may be evicted, want 1", n)
	}
}

// What is held is listed with the names that clients lose, and with those that change (GATE-4).
func TestHeldNames_GATE4(t *testing.T) {
	k := asked(t, Source{}, "a", "b", "c")
	k.says(WholeType, "+a@1", "+b@1", "+c@1")
	k.freeze()
	k.says(WholeType, "-a", "-b", "+c@2")
	all := k.store.Operator().Held(true)
	if len(all) != 1 || all[0].Lost != 2 || all[0].Changed != 1 || len(all[0].Names) != 3 {
		t.Fatalf("listed is %+v", all)
	}
	last := all[0].Names[2]
	if last.Name != "c" || last.Released.Version != "1" || last.Received.Version != "2" {
		t.Errorf("the last one is %+v", last)
	}
}

// While losses are held, new content goes to clients, but for Listeners that are followed as a whole: they may need the
// address of one that is held (SUR-3).
func TestNewContentWhileHeld_SUR3(t *testing.T) {
	const lds = "type.googleapis.com/envoy.config.listener.v3.Listener"
	for _, tc := range []struct {
		name, typeURL string
		kind          Kind
		want          string
	}{
		{"Listeners", lds, WholeType, "1"},
		{"Listeners by name", lds, ByName, "2"},
		{"Clusters", cds, WholeType, "2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKeptOf(t, Source{Quiet: time.Second, Guard: hold.Guard{Share: 0.5, AtLeast: 2, Hold: time.Hour}})
			l := k.listener(NeedsStream)
			k.store.mu.Lock()
			table := k.store.Table(tc.typeURL, tc.kind)
			if tc.kind == WholeType {
				table.Collection(Wildcard).Follow(&l.cursor, &l.typed, l, l.needs)
			} else {
				for _, name := range []string{"a", "b", "c"} {
					table.Watch(table.Entry(name), l.needs, func(Audience) Audience { return &crowd{l} })
				}
			}
			k.store.mu.Unlock()
			for _, said := range [][]string{{"+a@1", "+b@1", "+c@1"}, {"-a", "-b"}, {"+c@2"}} {
				k.apply(WholeType, words.Response(tc.typeURL, said...))
			}
			if got := table.Find("c").Version(); table.Find("a").State() != Present || got != tc.want {
				t.Errorf("clients have version %q, want %q; what is lost is %s", got, tc.want, table.Find("a").State())
			}
		})
	}
}
