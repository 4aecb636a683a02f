package cache

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache/hold"
)

// A resource that lists its own name among its aliases is no alias of itself (RES-10).
func TestOwnNameAsAlias_RES10(t *testing.T) {
	const other = "xdstp://x/envoy.config.cluster.v3.Cluster/q/m?b=2&a=1"
	k := asked(t, Source{}, globless, "alias")
	k.says(WholeType, "+"+other+"@1|"+globless+",alias")
	e := k.named(globless)
	if e.Marks().Alias || e.Name() != other {
		t.Errorf("it is an alias: %t, and called %q", e.Marks().Alias, e.Name())
	}
	if served := k.store.FindTable(cds, ByName).aliases.of(globless); len(served) != 1 || served[0] != k.named("alias") {
		t.Errorf("it serves %d aliases", len(served))
	}
	k.says(WholeType, "+"+other+"@1")
	k.is("alias", Absent, "")
	k.is(globless, Present, "1")
}

// A name whose removal is held may be an alias of another resource. Then clients are told of that one (RES-10, SUR-3).
func TestAliasOfHeldRemoval_RES10_SUR3(t *testing.T) {
	k := asked(t, Source{Guard: hold.Guard{Share: 0.5, AtLeast: 1, Hold: time.Hour}}, "n", "r")
	k.says(WholeType, "+n@1")
	k.says(WholeType, "-n")
	k.is("n", Present, "1")
	k.says(WholeType, "+r@2|n,unknown")
	k.is("n", Present, "2")
	if got := k.named("n").ServedName(); got != "r" {
		t.Errorf("%q serves it", got)
	}
}

// An alias that would belong to a glob by its name is no member of it (RES-10, GLOB-6).
func TestAliasInGlob_RES10_GLOB6(t *testing.T) {
	k := asked(t, Source{}, name, globTwo, "r")
	k.says(WholeType, "+r@1|"+name, "+"+globTwo+"@1")
	k.listener(NeedsStream).follow(glob)
	k.check()
	if k.named(name).Collection() != nil {
		t.Error("the alias is a member")
	}
	if k.named(globTwo).Collection() == nil {
		t.Error("a name of the glob is no member")
	}
}

// For names that nobody asks for any more there is neither room nor lack of it (RES-17).
func TestLeaveOutNobodys_RES17(t *testing.T) {
	k := asked(t, Source{State: true, Absent: time.Hour}, "n")
	table := k.store.FindTable(cds, ByName)
	leave := func(out, in []string, want bool) {
		t.Helper()
		k.store.Session().LeaveOut(stream(WholeType), cds, out, in)
		k.check()
		if got := k.named("n").extra.demand.leftOut; got != want || (table.demands.leftOut == 1) != want {
			t.Errorf("it is left out: %t, of %d", got, table.demands.leftOut)
		}
	}
	clocks := table.demands.clocks.started
	leave(nil, []string{"n", "nobody"}, false) // there was room all along
	if got := table.demands.clocks.started; got != clocks {
		t.Error("its clock begins anew")
	}
	leave([]string{"n", "nobody"}, nil, true)
	leave([]string{"n"}, nil, true)
	leave(nil, []string{"n"}, false)
	k.store.Session().Lost(stream(WholeType))
	leave([]string{"n"}, nil, false) // it is not asked for now
}
