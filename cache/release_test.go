package cache

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
)

// What a rollback replaced is as restored as it was when it is released before the server has said anything: no clock runs
// for it, and nothing confirms it (GATE-4, SUR-1).
func TestReleasedBeforeStream_GATE4_SUR1(t *testing.T) {
	for name, tc := range map[string]struct {
		kind        Kind
		collections []string
		names       []string
	}{
		"name":   {ByName, nil, []string{"a"}},
		"member": {WholeType, []string{Wildcard}, nil},
	} {
		c := New(Limits{Generations: 3}, nil)
		k := &kept{t, c.Open(Source{Quiet: time.Second, Absent: time.Minute})}
		k.store.Snapshots().Restore(&Image{
			Tables: []TableImage{{
				TypeURL: cds, Kind: tc.kind, Collections: tc.collections, Names: tc.names,
				Resources: []ResourceImage{{Resource: words.Resource(cds, "a@2").AsRestored()}},
			}},
			Past: PastImage{Number: 1, Bursts: []BurstImage{{
				Before: []BeforeImage{{cds, tc.kind, "a", words.Resource(cds, "a@1")}},
			}}},
		}, time.Now())
		if n := k.rollsBack(); n != 1 {
			t.Fatalf("%s: %d changed", name, n)
		}
		k.store.Operator().Freeze(nil, nil)
		k.check()
		e := k.store.FindTable(cds, tc.kind).Find("a")
		if e.res.Version != "2" || !e.Restored() || len(k.store.due.clocks) != 0 {
			t.Errorf("%s: released is version %q, restored: %t, and %d clocks run", name, e.res.Version, e.Restored(), len(k.store.due.clocks))
		}
	}
}
