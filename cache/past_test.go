package cache

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"google.golang.org/grpc/codes"
)

// newRemembering has a store that remembers states, with a clock that tests set.
func newRemembering(tb testing.TB, limits Limits) (*kept, *time.Time) {
	tb.Helper()
	at := time.Unix(1_000_000, 0)
	c := New(limits, nil)
	c.Now = func() time.Time { return at }
	return &kept{tb, c.Open(Source{Quiet: time.Second})}, &at
}

// saysAt applies a response that is received at a time.
func (k *kept) saysAt(at time.Time, typeURL string, said ...string) {
	k.Helper()
	k.applyAt(at, WholeType, words.Response(typeURL, said...))
}

// changes are how many names there were not, and how many others changed, in all states that are remembered.
func (k *kept) changes() (fresh, changed int) {
	for _, g := range k.store.Operator().Generations() {
		for _, x := range g.Changes {
			fresh, changed = fresh+x.New, changed+x.Changed
		}
	}
	return fresh, changed
}

// A burst ends when nothing has changed for a time, and when it has lasted for long (GATE-4).
func TestBurst_GATE4(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	for name, tc := range map[string]struct {
		changes []time.Duration
		want    int
	}{
		"quiet for less":    {[]time.Duration{0, burstQuiet - 1, 2*burstQuiet - 2}, 1},
		"quiet for so long": {[]time.Duration{0, burstQuiet}, 2},
		"long": {[]time.Duration{
			0, burstQuiet - 1, 2*burstQuiet - 2, 3*burstQuiet - 3, 4*burstQuiet - 4, 5*burstQuiet - 5, burstMost - 1,
		}, 1},
		"too long": {[]time.Duration{
			0, burstQuiet - 1, 2*burstQuiet - 2, 3*burstQuiet - 3, 4*burstQuiet - 4, 5*burstQuiet - 5, burstMost,
		}, 2},
	} {
		var p past
		for _, at := range tc.changes {
			p.burst(begin.Add(at))
		}
		if len(p.bursts) != tc.want || p.number != uint64(tc.want) {
			t.Errorf("%s: %d bursts, and the state %d, want %d", name, len(p.bursts), p.number, tc.want)
		}
	}
}

// Remembered are changes of what clients had, and what they must not be given again is not (GATE-4).
func TestRecord_GATE4(t *testing.T) {
	fails := func(code codes.Code) func(*kept, time.Time) {
		return func(k *kept, _ time.Time) {
			k.apply(WholeType, &wire.Response{TypeURL: cds, Errors: []wire.ResourceError{{Name: "a", Code: code}}})
		}
	}
	says := func(said ...string) func(*kept, time.Time) {
		return func(k *kept, at time.Time) { k.saysAt(at, cds, said...) }
	}
	for name, tc := range map[string]struct {
		change         func(k *kept, at time.Time)
		fresh, changed int
	}{
		"content":                  {says("+a@2"), 0, 1},
		"content of several":       {says("+a@2", "+timed@2~10s"), 0, 2},
		"a resource with an alias": {says("+served@2|alias"), 0, 1},
		"a removal":                {says("-a"), 0, 1},
		"a removal with an error":  {fails(codes.NotFound), 0, 1},
		"a removal of an alias":    {says("-served"), 0, 1},
		"access that is withdrawn": {fails(codes.PermissionDenied), 0, 0},
		"an error beside content":  {fails(codes.Unavailable), 0, 0},
		"the first answer":         {says("+unknown@1"), 0, 0},
		"that there is nothing":    {says("-unknown"), 0, 0},
		"what there was not":       {says("+absent@1"), 1, 0},
		"what there still is not":  {says("-absent"), 0, 0},
		"a ttl that runs out": {func(k *kept, at time.Time) {
			k.store.Session().Settle(at.Add(time.Hour))
			k.check()
		}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, generations := range []int{3, 0} {
				k, at := newRemembering(t, Limits{Generations: generations})
				l := k.listener(NeedsStream | NeedsTTL)
				for _, watched := range []string{"a", "timed", "served", "alias", "unknown", "absent"} {
					l.watch(watched)
				}
				k.demand(WholeType)
				k.saysAt(*at, cds, "+a@1", "+timed@1~10s", "+served@1|alias", "-absent")
				if fresh, changed := k.changes(); fresh+changed != 0 {
					t.Fatalf("of first answers %d new names and %d changes are remembered", fresh, changed)
				}
				tc.change(k, *at)
				wantFresh, wantChanged := tc.fresh, tc.changed
				if generations == 0 {
					wantFresh, wantChanged = 0, 0
				}
				if fresh, changed := k.changes(); fresh != wantFresh || changed != wantChanged {
					t.Errorf("with %d states %d new names and %d changes are remembered, want %d and %d", generations, fresh, changed, wantFresh, wantChanged)
				}
				if number := k.store.Operator().Generations()[0].Number; (number > 0) != (wantFresh+wantChanged > 0) {
					t.Errorf("with %d states the present one is number %d", generations, number)
				}
			}
		})
	}
}

// Endpoints of before may be gone: they are not given again (GATE-4).
func TestRecordOfEndpoints_GATE4(t *testing.T) {
	k, at := newRemembering(t, Limits{Generations: 3})
	k.store.mu.Lock()
	for _, typeURL := range []string{cds, xds.EndpointType} {
		table := k.store.Table(typeURL, ByName)
		table.Watch(table.Entry("a"), NeedsStream, func(Audience) Audience { return &crowd{k.listener(NeedsStream)} })
	}
	k.store.mu.Unlock()
	k.demand(WholeType)
	for _, typeURL := range []string{cds, xds.EndpointType} {
		k.saysAt(*at, typeURL, "+a@1")
		k.saysAt(*at, typeURL, "+a@2")
		k.saysAt(*at, typeURL, "-a")
	}
	all := k.store.Operator().Generations()
	if len(all) != 2 || len(all[1].Changes) != 1 || all[1].Changes[0].TypeURL != cds {
		t.Errorf("remembered are %+v", all)
	}
}

// Past content of all stores has a limit, to the byte. Each store forgets its own oldest states first, as soon as it
// remembers another one (GATE-4).
func TestPastLimit_GATE4(t *testing.T) {
	size := func(text string) int64 { return pastOverhead + int64(words.Resource(cds, text).Size()) }
	two := size("a@1") + size("a@2")
	for _, tc := range []struct {
		limit  int64
		states int
		bytes  int64
	}{{0, 3, two}, {two, 3, two}, {two - 1, 2, size("a@2")}, {size("a@2"), 2, size("a@2")}, {1, 1, 0}} {
		k, at := newRemembering(t, Limits{Generations: 3, MaxBytes: tc.limit * pastShare})
		k.listener(NeedsStream).watch("a")
		k.demand(WholeType)
		for i, said := range []string{"+a@1", "+a@2", "+a@3"} {
			k.saysAt(at.Add(time.Duration(i)*burstMost), cds, said)
		}
		if states, bytes := len(k.store.Operator().Generations()), k.store.cache.Past(); states != tc.states || bytes != tc.bytes {
			t.Errorf("with room for %d bytes there are %d states of %d, want %d of %d", tc.limit, states, bytes, tc.states, tc.bytes)
		}
	}
}

// A store that has forgotten all of its own states leaves those of others (GATE-4).
func TestPastOfOthers_GATE4(t *testing.T) {
	k, at := newRemembering(t, Limits{Generations: 3})
	other := &kept{t, k.store.cache.Open(Source{})}
	for _, x := range []*kept{k, other} {
		x.listener(NeedsStream).watch("a")
		x.demand(WholeType)
		x.saysAt(*at, cds, "+a@1")
	}
	k.saysAt(*at, cds, "+a@2")
	before := k.store.cache.Past()
	k.store.cache.SetLimits(Limits{Generations: 3, MaxBytes: pastShare})
	other.saysAt(*at, cds, "+a@2")
	if n := len(other.store.Operator().Generations()); n != 1 || k.store.cache.Past() != before {
		t.Errorf("the other store has %d states, and %d bytes are remembered, want %d", n, k.store.cache.Past(), before)
	}
}

// States of an earlier process are taken over if states are remembered, and by a store that has none yet (GATE-4, SUR-1).
func TestPastRestored_GATE4_SUR1(t *testing.T) {
	image := &Image{Past: PastImage{Number: 7, Since: time.Unix(20, 0), Bursts: []BurstImage{{
		Number: 6, Since: time.Unix(10, 0), Began: time.Unix(20, 0), Ended: time.Unix(21, 0),
		Before: []BeforeImage{{cds, ByName, "a", words.Resource(cds, "a@1")}, {cds, ByName, "b", nil}},
	}}}}
	size := 2*pastOverhead + int64(words.Resource(cds, "a@1").Size())
	for _, tc := range []struct {
		generations int
		own         bool
		number      uint64
		states      int
		bytes       int64
	}{{3, false, 7, 2, size}, {0, false, 0, 1, 0}, {3, true, 1, 2, pastOverhead + int64(words.Resource(cds, "a@1").Size())}} {
		k, at := newRemembering(t, Limits{Generations: tc.generations})
		if tc.own {
			k.listener(NeedsStream).watch("a")
			k.demand(WholeType)
			k.saysAt(*at, cds, "+a@1")
			k.saysAt(*at, cds, "+a@2")
		}
		k.store.Snapshots().Restore(image, *at)
		all := k.store.Operator().Generations()
		if all[0].Number != tc.number || len(all) != tc.states || k.store.cache.Past() != tc.bytes {
			t.Errorf("%+v: there are %+v, and %d bytes", tc, all, k.store.cache.Past())
		}
	}
}
