package cache

import (
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Check finds what is wrong: each case breaks one thing.
func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		breakIt    func(star, named *table, w *watch)
	}{
		{"resources", "counted 3 resources", func(star, _ *table, _ *watch) { star.store.resources++ }},
		{"bytes of a table", "counted 1 resources", func(star, _ *table, _ *watch) { star.bytes++ }},
		{"watchers", "3 watchers", func(_, named *table, _ *watch) { named.watchers++ }},
		{"interests", "interests", func(_, named *table, _ *watch) { named.interests++ }},
		{"stream", "on no stream", func(star, _ *table, _ *watch) { star.assigned = false }},
		{"order", "out of order", func(star, _ *table, _ *watch) { star.entries["a"].changed = 0 }},
		{"future", "in the future", func(_, named *table, _ *watch) { named.entries["n"].changed = 99 }},
		{"list", "list of", func(star, _ *table, _ *watch) { star.colls["*"].live.len++ }},
		{"state", "resource held", func(_, named *table, _ *watch) { named.entries["n"].state = absent }},
		{"error", "in spite of its error", func(_, named *table, _ *watch) {
			named.entries["n"].err = &wire.ResourceError{Code: notFound}
		}},
		{"failed", "without an error", func(_, named *table, _ *watch) { named.entries["n"].state = failed }},
		{"excused", "excused for nothing", func(star, _ *table, _ *watch) {
			star.excuses.add(star.entries["a"])
		}},
		{"failing", "with errors counted as 1", func(star, _ *table, _ *watch) { star.excuses.collections++ }},
		{"failure", "is out of order", func(star, _ *table, _ *watch) {
			c := star.colls["*"]
			c.addError("x", &wire.ResourceError{})
			c.errors.byKey["x"].number = 1 << 40
		}},
		{"owed", "is to be told that is no more", func(_, _ *table, w *watch) { w.errors.add(w.names.get("n")) }},
		{"watcher", "broken watcher", func(_, named *table, _ *watch) { named.entries["n"].subs[0].pos = 7 }},
		{"nobody asked", "nobody is asked", func(_, named *table, _ *watch) { named.entries["n"].interest = nil }},
		{"follower", "broken follower", func(star, _ *table, _ *watch) { star.colls["*"].followers[0].pos = 7 }},
		{"stale", "stale members", func(star, _ *table, _ *watch) { star.colls["*"].quiet.stale++ }},
		{"collection", "stands under", func(star, _ *table, _ *watch) { star.colls["*"].key = "x" }},
		{"entry", "stands under", func(star, _ *table, _ *watch) { star.entries["a"].key = "x" }},
		{"pending", "pending", func(_, named *table, _ *watch) { named.entries["n"].interest.pending = 1 }},
		{"leaving", "leaving", func(_, named *table, _ *watch) { named.entries["n"].interest.leaving = true }},
		{"parked", "parked", func(_, named *table, _ *watch) { named.entries["n"].interest.parked = true }},
		{"dirty", "dirty true, listed false", func(_, _ *table, w *watch) { w.names.get("n").dirty = true }},
		{"ended", "ended, counted", func(_, _ *table, w *watch) { w.ended++ }},
		{"respelled", "not listed", func(_, _ *table, w *watch) { w.respelledNames = nil }},
		{"loose", "loose", func(_, named *table, _ *watch) { named.entries["n"].loose = true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, Limits{})
			c := b.join()
			c.sub(cds, "*", "n", nameQ2)
			b.connect(0)
			b.connect(1)
			b.says(cds, "+a@1")
			b.saysOn(1, cds, "+n@1")
			c.collect()
			tables := b.store.tables
			tc.breakIt(tables[tableKey{cds, wholeType}], tables[tableKey{cds, byName}], c.c.watches[0])
			if err := b.store.Check(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("found %v, want %q", err, tc.want)
			}
		})
	}
}

func TestInspect(t *testing.T) {
	b := newBed(t, Limits{})
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
		want := TypeStats{TypeURL: lds, Kind: "wildcard", Stream: "ads", Subscriptions: 1, Collections: 1, Resources: 1, Followers: 1}
		if st.TypeURL == cds {
			want = TypeStats{
				TypeURL: cds, Kind: "named", Stream: "ads", Subscriptions: 4, Collections: 1, Resources: 2,
				Tombstones: 1, Followers: 1, Watchers: 3,
			}
		}
		st.Bytes = 0
		if st != want {
			t.Errorf("got %+v, want %+v", st, want)
		}
	}
	if c.c.Watches(cds) != 4 || c.c.Watches(lds) != 1 || c.c.Watches(eds) != 0 || !c.c.Subscribed(lds, "*") || c.c.Subscribed(cds, "*") {
		t.Error("the client's subscriptions are counted wrongly")
	}
	if b.store.Wanted() != 5 || b.store.Clients() != 1 {
		t.Errorf("%d wanted by %d clients", b.store.Wanted(), b.store.Clients())
	}
}
