package cache

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// What still comes of a stream that broke answers no question: the server may not have said all (RES-14).
func TestAnswerOfBrokenStream_RES14(t *testing.T) {
	k := newKept(t)
	k.listener(NeedsStream).follow(glob)
	k.demand(WholeType)
	k.store.Session().Lost(stream(WholeType))
	k.says(WholeType, "+"+name+"@1")
	k.store.Session().Settle(time.Now().Add(time.Hour))
	if k.store.FindTable(cds, ByName).Collection(glob).Synced() {
		t.Error("the collection counts as complete")
	}
}

// An answer rings for followers if it changes something, or is the first word that there is nothing (RES-2).
func TestAnswerRings_RES2(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before []string
		key    string
		says   []string
		want   bool
	}{
		{"nothing, where nothing was known", nil, Wildcard, nil, true},
		{"nothing new of what there is", []string{"+a@1"}, Wildcard, nil, false},
		{"the same again", []string{"+a@1"}, Wildcard, []string{"+a@1"}, false},
		{"something new", []string{"+a@1"}, Wildcard, []string{"+b@1"}, true},
		{"nothing, of a glob whose members may come later", nil, glob, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKept(t)
			l := k.listener(NeedsStream)
			l.follow(tc.key)
			k.demand(WholeType)
			if tc.before != nil {
				k.says(WholeType, tc.before...)
				k.store.Session().Restart(stream(WholeType), 0)
			}
			if got := l.rung(func() { k.says(WholeType, tc.says...) }); got != tc.want {
				t.Errorf("it rings: %t", got)
			}
		})
	}
}

// A list that says the same once more changes nothing that a disk would have to keep (SUR-1).
func TestSameListAgain_SUR1(t *testing.T) {
	for _, tc := range []struct {
		name string
		key  string
		list wire.Response
	}{
		{"of all", Wildcard, wire.Response{State: true}},
		{"of names and globs, which is complete", glob, wire.Response{State: true, Complete: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKeptOf(t, Source{Quiet: time.Second, State: true})
			k.listener(NeedsStream).follow(tc.key)
			k.demand(WholeType)
			list := tc.list
			list.TypeURL, list.Resources = cds, response("+"+name+"@1").Resources
			k.apply(WholeType, &list)
			before := k.store.Snapshots().Mark()
			if before.completed != 1 {
				t.Errorf("%d collections are complete", before.completed)
			}
			k.apply(WholeType, &list)
			if after := k.store.Snapshots().Mark(); after != before {
				t.Errorf("from %v to %v", before, after)
			}
		})
	}
}

// A name that is not in a complete list does not exist, whatever was known of it. It is removed once (RES-8).
func TestNotInCompleteList_RES8(t *testing.T) {
	k := newKeptOf(t, Source{Quiet: time.Second, State: true})
	l := k.listener(NeedsStream)
	for _, name := range []string{"there", "failed", "unknown"} {
		l.watch(name)
	}
	k.demand(WholeType)
	k.apply(WholeType, &wire.Response{
		TypeURL: cds, State: true, Resources: response("+there@1").Resources,
		Errors: []wire.ResourceError{{Name: "failed", Code: codes.Internal}},
	})
	complete := &wire.Response{TypeURL: cds, State: true, Complete: true}
	k.apply(WholeType, complete)
	table := k.store.FindTable(cds, ByName)
	for _, name := range []string{"there", "failed", "unknown"} {
		if is := table.Find(name).State(); is != Absent {
			t.Errorf("%q is %s", name, is)
		}
	}
	before := k.store.Snapshots().Mark()
	k.apply(WholeType, complete)
	if after := k.store.Snapshots().Mark(); after != before {
		t.Errorf("what is gone was removed again: from %v to %v", before, after)
	}
}

// A glob that the server says is empty is complete, once (GLOB-4).
func TestEmptyGlob_GLOB4(t *testing.T) {
	k := newKept(t)
	k.listener(NeedsStream).follow(glob)
	k.demand(WholeType)
	k.says(WholeType, "+"+name+"@1")
	for range 2 {
		k.says(WholeType, "-"+glob)
		if mark := k.store.Snapshots().Mark(); mark.completed != 1 {
			t.Errorf("%d collections are complete", mark.completed)
		}
	}
}

// A removed name is shown as the server spelled it in its content. Without content that is how it spells the removal
// (NAME-3).
func TestSpellingOfRemoved_NAME3(t *testing.T) {
	const key, other = globless, "xdstp://x/envoy.config.cluster.v3.Cluster/q/m?b=2&a=1"
	for _, tc := range []struct {
		name string
		says [][]string
		want string
	}{
		{"without content", [][]string{{"-" + other}}, other},
		{"with content", [][]string{{"+" + other + "@1"}, {"-" + key}}, other},
		{"with content under its key", [][]string{{"+" + key + "@1"}, {"-" + other}}, key},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKept(t)
			k.listener(NeedsStream).watch(key)
			k.demand(WholeType)
			for _, said := range tc.says {
				k.says(WholeType, said...)
			}
			if e := k.store.FindTable(cds, ByName).Find(key); e.State() != Absent || e.Name() != tc.want {
				t.Errorf("%q is %s", e.Name(), e.State())
			}
		})
	}
}
