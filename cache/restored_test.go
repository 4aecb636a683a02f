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
	witness := table.upstream.restored.witness
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
