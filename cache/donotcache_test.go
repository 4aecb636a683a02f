package cache

import (
	"slices"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
)

// Content that is not to be cached goes to clients that join while one subscribes. With the last one the relay drops it
// and unsubscribes. Other content stays (TTL-5, SUB-11).
func TestDoNotCache_TTL5_SUB11(t *testing.T) {
	for key, kind := range map[string]Kind{"n": ByName, glob: ByName, Wildcard: WholeType} {
		for said, gone := range map[string]bool{"@1!": true, "@1~1h!": true, "@1": false} {
			t.Run(key+said, func(t *testing.T) {
				k := newKept(t)
				resource := map[string]string{"n": "n", glob: name, Wildcard: "w"}[key]
				join := func() (leave func()) {
					l := k.listener(NeedsStream)
					if key == "n" {
						l.watch(key)
						return func() { l.unwatch(key) }
					}
					l.follow(key)
					return func() {
						k.store.mu.Lock()
						defer k.store.mu.Unlock()
						l.cursor.Unfollow()
					}
				}
				first := join()
				k.demand(WholeType)
				k.demand(ByName)
				k.says(WholeType, "+"+resource+said)
				table := k.store.FindTable(cds, kind)
				second := join()
				first()
				if e := table.Find(resource); e == nil || e.Resource() == nil {
					t.Fatal("it is gone with the first client")
				}
				second()
				k.check()
				_, unsubscribed := k.demand(WholeType)
				_, others := k.demand(ByName)
				if n := len(unsubscribed) + len(others); n == 1 != gone {
					t.Errorf("%d names are unsubscribed", n)
				}
				if table = k.store.FindTable(cds, kind); table == nil || (table.Find(resource) == nil) != gone {
					t.Errorf("it is gone: %t", !gone)
				}
			})
		}
	}
}

// While the control plane is away, such content goes at once with its last client: nobody gets it later (TTL-5).
func TestDoNotCacheInOutage_TTL5(t *testing.T) {
	k := asked(t, Source{})
	l := k.listener(NeedsStream)
	l.watch("n")
	k.demand(WholeType)
	k.says(WholeType, "+n@1!")
	k.store.Session().Lost(stream(WholeType))
	l.unwatch("n")
	k.check()
	if table := k.store.FindTable(cds, ByName); table != nil && table.Find("n") != nil {
		t.Error("it is still there")
	}
}

// What nobody waits for any more when it comes is dropped (TTL-5).
func TestDoNotCacheComesLate_TTL5(t *testing.T) {
	k := newKept(t)
	l := k.listener(NeedsStream)
	l.watch("n")
	k.demand(WholeType)
	l.unwatch("n")
	k.says(WholeType, "+n@1!")
	if _, unsubscribed := k.demand(WholeType); len(unsubscribed) != 1 || k.store.FindTable(cds, ByName).Find("n") != nil {
		t.Errorf("%q is unsubscribed", unsubscribed)
	}
}

// Neither a snapshot nor a peer has any of it (package snapshot), and its name is none that a later relay asks for.
func TestDoNotCacheStaysHere_TTL5(t *testing.T) {
	k := asked(t, Source{}, "n", "other")
	k.listener(NeedsStream).follow(glob)
	k.demand(WholeType)
	k.apply(WholeType, words.Response(cds, "+n@1!", "+other@1", "+"+name+"@1!", "+"+name+"2@1"))
	k.store.Session().Settle(time.Now().Add(time.Minute))
	for _, table := range imageOfAll(k).Tables {
		if slices.Contains(table.Names, "n") {
			t.Error("a relay that starts from the image would ask for its name")
		}
	}
}

// A pin is no client. It ends when the server sends such content, also if a client subscribes then; and such content gets
// no pin (TTL-5, LIST-2).
func TestDoNotCachePinned_TTL5_LIST2(t *testing.T) {
	for key, resource := range map[string]string{"n": "n", glob: name} {
		for when, order := range map[string][]string{
			"no client":    {"pin", "says"},
			"pinned first": {"pin", "join", "says", "leave"},
			"pinned last":  {"join", "says", "pin", "leave"},
			"twice":        {"pin", "join", "says", "pin", "leave"},
		} {
			t.Run(key+" "+when, func(t *testing.T) {
				k := newKept(t)
				k.listener(NeedsStream).watch("other") // or the table would go
				l := k.listener(NeedsStream)
				for _, step := range order {
					switch {
					case step == "pin":
						k.store.Pin(cds, Name{Key: key})
					case step == "says":
						k.says(WholeType, "+"+resource+"@1!")
					case step == "join" && key == glob:
						l.follow(key)
					case step == "join":
						l.watch(key)
					case key == glob:
						k.store.Edit(l.cursor.Unfollow)
					default:
						l.unwatch(key)
					}
					k.demand(WholeType)
				}
				if k.store.FindTable(cds, ByName).Find(resource) != nil {
					t.Error("it is still there")
				}
				k.store.Unpin(cds, Name{Key: key}) // what the pin's owner does in the end
				k.check()
			})
		}
	}
}

// A glob of which clients name members is pinned while they have such content: the pin does not keep it (TTL-5, LIST-2).
func TestDoNotCacheMemberPinned_TTL5_LIST2(t *testing.T) {
	k := asked(t, Source{}, "other")
	l := k.listener(NeedsStream)
	l.watch(name)
	k.demand(WholeType)
	k.says(WholeType, "+"+name+"@1!")
	k.store.Pin(cds, Name{Key: glob})
	k.demand(WholeType)
	k.is(name, Present, "1")
	l.unwatch(name)
	if _, gone := k.demand(WholeType); !slices.Contains(gone, name) || k.store.FindTable(cds, ByName).Find(name) != nil {
		t.Errorf("%q are unsubscribed", gone)
	}
}

// An idle glob does not keep such content of a member that a client has named (TTL-5, SUB-11).
func TestDoNotCacheInIdleGlob_TTL5_SUB11(t *testing.T) {
	k := asked(t, Source{}, "other", name)
	k.says(WholeType, "+"+name+"@1")
	l := k.listener(NeedsStream)
	l.follow(glob)
	k.demand(WholeType)
	k.store.Edit(l.cursor.Unfollow)
	if _, gone := k.demand(WholeType); len(gone) > 0 {
		t.Fatalf("%q are unsubscribed", gone)
	}
	k.says(WholeType, "+"+name+"@2!")
	if _, gone := k.demand(WholeType); !slices.Equal(gone, []string{glob}) {
		t.Errorf("%q are unsubscribed", gone)
	}
	k.is(name, Present, "2")
}

// A glob that goes in an outage leaves a client the member that it names, and the server is asked for that. So if the
// last client leaves before the outage, and the unsubscribe was not taken (TTL-5, GLOB-6).
func TestDoNotCacheGlobInOutage_TTL5_GLOB6(t *testing.T) {
	for _, lostFirst := range []bool{true, false} {
		k := asked(t, Source{}, "other")
		l := k.listener(NeedsStream)
		l.follow(glob)
		k.demand(WholeType)
		k.says(WholeType, "+"+name+"@1!", "+"+name+"2@1!")
		k.store.Session().Settle(time.Now().Add(time.Minute))
		k.listener(NeedsStream).watch(name)
		k.demand(WholeType)
		lose := func() { k.store.Session().Lost(stream(WholeType)) }
		if lostFirst {
			lose()
		}
		k.store.Edit(l.cursor.Unfollow)
		if !lostFirst {
			lose()
		}
		k.check()
		k.is(name, Present, "1")
		if k.store.FindTable(cds, ByName).Find(name+"2") != nil {
			t.Errorf("lost first %t: it is still there", lostFirst)
		}
		subs := k.store.Session().Restart(stream(WholeType), 0)
		if len(subs) != 1 || !slices.Contains(subs[0].Subscribe, name) || slices.Contains(subs[0].Subscribe, glob) {
			t.Errorf("lost first %t: it asks for %v", lostFirst, subs)
		}
	}
}
