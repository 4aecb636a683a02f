package cache

import (
	"fmt"
	"testing"
	"time"
)

// The server is asked once more for what it was asked for and still is to be (SUB-6).
func TestAskAgain_SUB6(t *testing.T) {
	for _, tc := range []struct {
		name                        string
		subscribed, again, evicting bool
		repeats, asks               bool
	}{
		{name: "subscribed", subscribed: true, repeats: true, asks: true},
		{name: "not subscribed yet"},
		{name: "to be asked for anew already", subscribed: true, again: true, asks: true},
		{name: "evicted", subscribed: true, evicting: true},
		{name: "evicted before it was subscribed", evicting: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKept(t)
			k.listener(NeedsStream).watch("n")
			k.demand(WholeType)
			of := func() *demand {
				i := *k.store.FindTable(cds, ByName).Find("n").extra.demand
				i.subscribed, i.again, i.evicting = tc.subscribed, tc.again, tc.evicting
				return &i
			}
			i := of()
			if i.repeat(); i.repeats != tc.repeats || (i.pending > 0) != tc.repeats {
				t.Errorf("repeated without an unsubscribe: %t, the session is told: %t", i.repeats, i.pending > 0)
			}
			i = of()
			if i.ask(); (i.pending > 0) != tc.asks || i.again != (tc.again || tc.asks) {
				t.Errorf("asked for again: %t, the session is told: %t", i.again, i.pending > 0)
			}
		})
	}
}

// An eviction frees what nothing else keeps: the content of a name that is no member, and the members of a
// collection.
func TestLeaving_LIM3(t *testing.T) {
	k := newKept(t)
	l := k.listener(NeedsStream)
	l.follow(glob)
	l.watch(name)
	l.watch("n")
	l.watch("unknown")
	k.demand(WholeType)
	k.says(WholeType, "+"+name+"@1", "+"+globTwo+"@1", "+n@1")
	table := k.store.FindTable(cds, ByName)
	size := func(key string) int64 { return table.Find(key).Size() }
	for _, tc := range []struct {
		i    *demand
		want weight
	}{
		{table.Find("n").extra.demand, weight{1, size("n")}},
		{table.Find("unknown").extra.demand, weight{}},
		{table.Find(name).extra.demand, weight{}},
		{table.Collection(glob).demand, weight{2, size(name) + size(globTwo)}},
	} {
		if got := tc.i.weigh(); got != tc.want {
			t.Errorf("%q: %v, want %v", tc.i.name(), got, tc.want)
		}
	}
}

// Responses for what was unsubscribed are expected for the quiet time. Longer than that it is only remembered as long
// as there are few (SUB-13).
func TestUnsubscribedLately_SUB13(t *testing.T) {
	const quiet = time.Second
	now := time.Now()
	var q demandQueue
	q.unsubscribe("old", now.Add(-quiet-1))
	q.unsubscribe("just", now.Add(-quiet))
	look := func(key string, wantUnsubscribed, wantLately bool) {
		t.Helper()
		if unsubscribed, lately := q.lately(key, quiet, now); unsubscribed != wantUnsubscribed || lately != wantLately {
			t.Errorf("%q was unsubscribed: %t, lately: %t", key, unsubscribed, lately)
		}
	}
	look("old", true, false)
	look("just", true, true)
	look("never", false, false)
	q.tidy(quiet, now)
	look("old", true, false)
	for i := len(q.unsubscribed); i < maxUnsubscribed; i++ {
		q.unsubscribe(fmt.Sprint("n", i), now)
	}
	q.tidy(quiet, now)
	look("old", false, false)
	look("just", true, true)
}
