package delivery

import (
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

// Check finds what is wrong with a place: each case breaks one thing.
func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		breakIt    func(w *typeSub)
	}{
		{"owed", "is to be told that is no more", func(w *typeSub) { w.changed.errors.add(w.subs.names.get("n")) }},
		{"watcher", "broken audience", func(w *typeSub) { w.subs.names.get("n").pos = 7 }},
		{"watcher at the end", "broken audience", func(w *typeSub) { w.subs.names.get("n").pos = 1 }},
		{"ended name", "subscription to \"n\" is broken", func(w *typeSub) { w.subs.names.get("n").ended = true }},
		{"name of another type", "subscription to \"n\" is broken", func(w *typeSub) { w.subs.names.get("n").typeSub = &typeSub{place: w.place} }},
		{"dirty", "dirty true, listed false", func(w *typeSub) { w.subs.names.get("n").dirty = true }},
		{"ended", "ended, counted", func(w *typeSub) { w.changed.ended++ }},
		{"respelled", "not listed", func(w *typeSub) { w.subs.names.respelled = nil }},
		{"respelled under another key", "is broken", func(w *typeSub) {
			w.subs.names.respelled = map[string][]*nameSub{"other": w.subs.names.respelled[nameQ]}
		}},
		{"heartbeat of a name", "did not come", func(w *typeSub) { w.subs.names.get("n").heartbeat = true }},
		{"heartbeat that is not due", "did not come", func(w *typeSub) { w.subs.names.get("t").heartbeat = true }},
		{"heartbeat without a ttl", "did not come", func(w *typeSub) {
			n := w.subs.names.get("n")
			n.makeDue()
			n.heartbeat = true
		}},
		{"version in the bytes of a resource", "lies in what may go", func(w *typeSub) {
			w.held.set("a", w.subs.wildcard.Collection().First().Resource().Shown())
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, c := newBed(t, cache.Limits{}).subscribed(cds, "*", "n", "t", nameQ2)
			b.connect(1)
			slow := b.join() // the store keeps what it was not told of
			slow.sub(cds, "*")
			b.says(cds, "+a@1", "+b@1")
			b.saysOn(1, cds, "+n@1", "+t@1~1h")
			slow.collect()
			c.collect()
			b.says(cds, "-b")
			c.collect()
			tc.breakIt(c.c.types[0])
			if err := b.store.Check(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("found %v, want %q", err, tc.want)
			}
		})
	}
}

func TestInspect(t *testing.T) {
	b := newBed(t, cache.Limits{})
	c := b.join()
	c.sub(cds, "a", "gone", "unknown", globG)
	c.sub(lds, "*")
	b.connect(0)
	b.says(cds, "+a@1", "-gone", "+"+nameG1+"@7", "+"+nameG2+"@7")
	b.says(lds, "+l@1")
	c.collect()
	b.says(cds, "-"+nameG2)

	if n := len(b.store.Resources("", "")); n != 5 {
		t.Errorf("%d entries", n)
	}
	for name, state := range map[string]string{"a": "present", "gone": "absent", "unknown": "unknown", nameG1: "present"} {
		if got := b.infoOf(cds, name).State; got != state {
			t.Errorf("%s is %s, want %s", name, got, state)
		}
	}
	if i := b.infoOf(cds, nameG1); i.Version != "7" || i.Collection != globG || i.Watchers != 0 || i.Bytes == 0 || i.Updated.IsZero() {
		t.Errorf("got %+v", i)
	}
	if got := b.store.Resources(cds, nameG2); got != nil {
		t.Errorf("a removed member is shown: %+v", got)
	}
	for _, st := range b.store.Stats() {
		want := cache.TypeStats{TypeURL: lds, Kind: "wildcard", Stream: "ads", Subscriptions: 1, Collections: 1, Resources: 1, Followers: 1}
		if st.TypeURL == cds {
			want = cache.TypeStats{
				TypeURL: cds, Kind: "named", Stream: "ads", Subscriptions: 4, Collections: 1, Resources: 2,
				Tombstones: 1, Followers: 1, Watchers: 3,
			}
		}
		st.Bytes, st.Upkeep = 0, cache.Upkeep{}
		if st != want {
			t.Errorf("got %+v, want %+v", st, want)
		}
	}
	if c.c.Watches(cds) != 4 || c.c.Watches(lds) != 1 || c.c.Watches(eds) != 0 || !c.c.Subscribed(lds, "*") || c.c.Subscribed(cds, "*") {
		t.Error("the client's subscriptions are counted wrongly")
	}
	if b.store.Session().Wanted() != 5 || b.store.Clients() != 1 {
		t.Errorf("%d wanted by %d clients", b.store.Session().Wanted(), b.store.Clients())
	}
}
