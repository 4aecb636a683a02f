package delivery

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

// What a client's form needs of the store: no more, since the store works for it.
func TestNeeds_TTL1_RES2(t *testing.T) {
	for _, tc := range []struct {
		name    string
		form    Form
		typeURL string
		want    cache.Needs
	}{
		{"incremental", Form{}, cds, cache.NeedsStream},
		{"incremental, with TTLs", timed, cds, cache.NeedsStream | cache.NeedsTTL},
		{"incremental, a relay", Form{Relay: true}, cds, cache.NeedsStream | cache.NeedsBreaks},
		{"lists", Form{State: true}, cds, cache.NeedsStream | cache.NeedsDigests},
		{"lists, with TTLs", Form{State: true, TTL: true}, cds, cache.NeedsStream | cache.NeedsTTL | cache.NeedsDigests},
		{"lists, a relay", Form{State: true, Relay: true}, cds, cache.NeedsStream | cache.NeedsDigests},
		{"state of the world, by what changed", Form{State: true}, eds, cache.NeedsStream | cache.NeedsDigests},
		{"the same with TTLs", Form{State: true, TTL: true}, eds, cache.NeedsStream | cache.NeedsTTL | cache.NeedsDigests},
		{"the same of a relay", Form{State: true, Relay: true}, eds, cache.NeedsStream | cache.NeedsDigests | cache.NeedsBreaks},
	} {
		c := newBed(t, cache.Limits{}).joinAs(tc.form)
		c.sub(tc.typeURL, "*")
		if got := c.c.find(tc.typeURL).needs(); got != tc.want {
			t.Errorf("%s: it needs %b, want %b", tc.name, got, tc.want)
		}
	}
	r := Read(newBed(t, cache.Limits{}).store, func() {})
	r.Update(&Change{TypeURL: cds, Subscribe: names([]string{globG})})
	if got := r.find(cds).needs(); got != 0 {
		t.Errorf("a reader needs %b, want nothing", got)
	}
}

// A client waits for a collection to be complete as long as something of it depends on that (RES-14).
func TestAwaitsMembers_RES14(t *testing.T) {
	for name, awaits := range map[string]func(f *follower){
		"":                            func(*follower) {},
		"what the client holds":       func(f *follower) { f.mayHold("a") },
		"what is withheld":            func(f *follower) { f.withheld = withheld{"a": {}} },
		"a name that ended":           func(f *follower) { f.typeSub.answers.owe(nameOf("a")) },
		"the first word":              func(f *follower) { f.answered = false },
		"the end of what broke off":   func(f *follower) { f.broken = 1 },
		"a reader, which is told all": func(f *follower) { f.typeSub.place.own = true },
	} {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "*")
		b.says(cds, "+b@1")
		c.collect()
		f := c.c.find(cds).subs.wildcard
		awaits(f)
		if got := f.AwaitsMembers(); got != (name != "") {
			t.Errorf("with %q it waits: %t", name, got)
		}
	}
}
