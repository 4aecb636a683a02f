package cache

import (
	"math"
	"testing"
	"time"
)

// The server is asked for "*" anew when it speaks for other authorities, if something was left out before (LOC-3).
func TestSpeaksForOthers_LOC3(t *testing.T) {
	x := func(authority string) bool { return authority == "x" }
	for _, tc := range []struct {
		name  string
		says  string
		asked bool
		left  int // members
	}{
		{"nothing was left out", "+" + name + "@1", false, 0},
		{"something was left out", "+xdstp://y/envoy.config.cluster.v3.Cluster/g/1@1", true, 0},
		{"names that mean something only to this server", "+a@1", false, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKeptOf(t, Source{Quiet: time.Second, Speaks: x})
			k.listener(NeedsStream).follow(Wildcard)
			k.demand(WholeType)
			k.says(WholeType, tc.says)
			k.store.Session().SetSpeaks(func(authority string) bool { return authority == "y" })
			k.check()
			c := k.store.FindTable(cds, WholeType).Collection(Wildcard)
			if c.demand.again != tc.asked {
				t.Errorf("the server is asked anew: %t", c.demand.again)
			}
			if c.Len() != tc.left {
				t.Errorf("there are %d members, want %d", c.Len(), tc.left)
			}
		})
	}
}

// A collection of which there may be more than was restored is to relays like one whose answer broke off, once (RES-2).
func TestHoldsPart_RES2(t *testing.T) {
	for _, tc := range []struct {
		name         string
		whole, empty bool
		before, want uint16
	}{
		{name: "a part", want: 1},
		{name: "a part of which relays were told", before: 3, want: 3},
		{name: "all", whole: true},
		{name: "nothing", empty: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKept(t)
			k.listener(NeedsStream).follow(glob)
			k.demand(WholeType)
			if !tc.empty {
				k.says(WholeType, "+"+name+"@1")
			}
			c := k.store.FindTable(cds, ByName).Collection(glob)
			c.restored.whole, c.quiet.breaks = tc.whole, tc.before
			c.holdsPart()
			if times, _ := c.BrokenOff(); times != tc.want {
				t.Errorf("it broke off %d times, want %d", times, tc.want)
			}
		})
	}
}

// Relays are told each time that an answer broke off. The number goes round, but is never that of a complete
// collection (RES-2).
func TestBrokenOff_RES2(t *testing.T) {
	k := newKept(t)
	k.listener(NeedsStream).follow(glob)
	c := k.store.FindTable(cds, ByName).Collection(glob)
	breaks := func(want uint16) {
		t.Helper()
		k.store.Session().Restart(stream(WholeType), 0)
		k.says(WholeType, "+"+name+"@1")
		k.store.Session().Lost(stream(WholeType))
		if times, err := c.BrokenOff(); times != want || (err != nil) != (want > 0) {
			t.Errorf("it broke off %d times, want %d: %v", times, want, err)
		}
	}
	breaks(1)
	breaks(2)
	c.quiet.breaks = math.MaxUint16
	breaks(1)
	c.quiet.complete()
	breaks(0)
}
