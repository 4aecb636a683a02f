package cache

import (
	"slices"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// On a stream that carries the wildcard and names, a resource belongs to those that asked for it, under any of its
// names (SUB-14).
func TestOwners_SUB14(t *testing.T) {
	k := newKeptOf(t, Source{Quiet: time.Second, Shared: map[string]bool{cds: true}})
	k.listener(NeedsStream).follow(Wildcard)
	l := k.listener(NeedsStream)
	for _, name := range []string{"n", "idle", "left"} {
		l.watch(name)
	}
	k.demand(WholeType)
	k.says(WholeType, "+n@1", "+a@1", "+idle@1", "-left")
	l.unwatch("idle")
	l.unwatch("left")
	k.store.Session().TakeDemand(stream(WholeType))
	whole, named := k.store.FindTable(cds, WholeType), k.store.FindTable(cds, ByName)
	for _, tc := range []struct {
		name, key string
		aliases   []string
		want      []*Table
	}{
		{"of nobody", "x", nil, []*Table{whole}},
		{"a member", "a", nil, []*Table{whole}},
		{"named", "n", nil, []*Table{named}},
		{"kept for a client that may return", "idle", nil, []*Table{named}},
		{"unsubscribed just now", "left", nil, []*Table{named}},
		{"by an alias", "x", []string{"n"}, []*Table{named}},
		{"by an alias of nobody", "x", []string{"y"}, []*Table{whole}},
		{"by a bad alias", "x", []string{"xdstp://"}, []*Table{whole}},
		{"with a bad name", badKey, []string{"n"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := owners(whole, named, tc.key, tc.aliases); !slices.Equal(got, tc.want) {
				t.Errorf("it belongs to %d tables, want %d", len(got), len(tc.want))
			}
		})
	}
}

// A response says something to a table that has a part of it. To both it says something if it is empty, or a list
// (SUB-14).
func TestConcerns_SUB14(t *testing.T) {
	resource := response("+a@1").Resources
	removed := []string{"b"}
	failing := make([]wire.ResourceError, 1)
	for _, tc := range []struct {
		name     string
		all      wire.Response // of all types
		part     wire.Response
		fullList bool
		want     bool
	}{
		{name: "an empty response", want: true},
		{name: "resources and removals elsewhere", all: wire.Response{Resources: resource, Removed: removed}},
		{name: "resources and errors elsewhere", all: wire.Response{Resources: resource, Errors: failing}},
		{name: "a resource and a removal", all: wire.Response{Resources: resource, Removed: removed}, part: wire.Response{Resources: resource, Removed: removed}, want: true},
		{name: "a resource and an error", all: wire.Response{Resources: resource, Errors: failing}, part: wire.Response{Resources: resource, Errors: failing}, want: true},
		{name: "a list elsewhere", all: wire.Response{State: true, Resources: resource}, fullList: true, want: true},
		{name: "a list elsewhere of a type that has no complete ones", all: wire.Response{State: true, Resources: resource}},
		{name: "an incremental response elsewhere", all: wire.Response{Resources: resource}, fullList: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table := &Table{typeURL: cds, store: &Store{source: Source{FullState: map[string]bool{cds: tc.fullList}}}}
			if got := (&update{response: &tc.all}).concerns(table, &tc.part); got != tc.want {
				t.Errorf("it says something: %t", got)
			}
		})
	}
}

// Of many clients so many are asked whether they are sent something (OPS-1).
func TestAsked_OPS1(t *testing.T) {
	var asked Asked
	for i := range maxAsked {
		if asked.Enough() {
			t.Fatalf("%d are enough", i+1)
		}
	}
	if !asked.Enough() {
		t.Error("more are asked")
	}
}
