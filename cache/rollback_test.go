package cache

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache/hold"
)

// rollsBack goes back to the first state that is remembered.
func (k *kept) rollsBack() (changed int) {
	k.Helper()
	f := hold.Freeze{Since: k.store.cache.Now()}
	n, err := k.store.Operator().Rollback(0, func(string, time.Time) hold.Freeze { return f }, func(string) bool { return true })
	if err != nil {
		k.Fatal(err)
	}
	k.check()
	return n
}

// What comes back by a rollback comes before what goes, and what clients have instead of the server's word is no loss, unless
// the server has removed it (GATE-4, ADS-1).
func TestRollbackOrder_GATE4_ADS1(t *testing.T) {
	k, at := newRemembering(t, Limits{Generations: 3})
	k.listener(NeedsStream).follow(Wildcard)
	k.demand(WholeType)
	k.saysAt(*at, cds, "+gone@1", "+changed@1")
	k.store.Session().Settle(at.Add(time.Minute))
	k.saysAt(at.Add(time.Minute), cds, "-gone", "+changed@2", "+a-new@1")
	if n := k.rollsBack(); n != 3 {
		t.Fatalf("%d names changed", n)
	}
	table := k.store.FindTable(cds, WholeType)
	back, gone := table.Find("gone"), table.Find("a-new")
	if back.res == nil || gone.res != nil || back.changed > gone.changed {
		t.Errorf("what comes back is change %d, what goes %d", back.changed, gone.changed)
	}
	if h := table.upstream.held; h.names.Len() != 3 || h.names.Losses() != 1 {
		t.Errorf("%d names are held, with %d losses", h.names.Len(), h.names.Losses())
	}
}

// A name is given again under its key, however the server spells it (NAME-3, GATE-4).
func TestRollbackSpelling_NAME3_GATE4(t *testing.T) {
	const key, spelled = "xdstp://x/envoy.config.cluster.v3.Cluster/m?a=1&b=2", "xdstp://x/envoy.config.cluster.v3.Cluster/m?b=2&a=1"
	k, at := newRemembering(t, Limits{Generations: 3})
	k.listener(NeedsStream).watch(key)
	k.demand(WholeType)
	k.saysAt(*at, cds, "+"+spelled+"@1")
	k.saysAt(*at, cds, "+"+spelled+"@2")
	if n := k.rollsBack(); n != 1 || k.store.FindTable(cds, ByName).Find(key).res.Version != "1" {
		t.Errorf("%d names changed", n)
	}
}

// A rollback leaves out what nobody asks for any more: types, and names (GATE-4).
func TestRollbackOfNothing_GATE4(t *testing.T) {
	session := func(k *kept) Session { return k.store.Session() }
	for name, tc := range map[string]struct {
		leave func(k *kept)
		want  int
	}{
		"types": {func(k *kept) {
			session(k).Shed(stream(WholeType), cds, 1)
			k.demand(WholeType)
			session(k).Lost(stream(WholeType))
		}, 0},
		"names": {func(k *kept) { session(k).Lost(stream(WholeType)) }, 1},
	} {
		k, at := newRemembering(t, Limits{Generations: 3})
		l := k.listener(NeedsStream)
		l.watch("a")
		k.demand(WholeType)
		k.saysAt(*at, cds, "-a")
		k.saysAt(*at, cds, "+a@1")
		l.unwatch("a")
		tc.leave(k)
		if n := k.rollsBack(); n != tc.want {
			t.Errorf("%s: %d names changed, want %d", name, n, tc.want)
		}
		if table := k.store.FindTable(cds, ByName); table != nil && (table.Find("a") != nil || table.upstream.held.any()) {
			t.Errorf("%s: something is held that nobody asks for", name)
		}
	}
}
