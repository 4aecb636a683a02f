package delivery

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

// A client may have everything that it showed a version of, until it has a list (RES-2).
func TestListStateMayHaveAll_RES2(t *testing.T) {
	for _, tc := range []struct {
		list             listState
		awaited, haveAll bool
	}{
		{listState{full: true}, true, false},
		{listState{full: true, presented: "1"}, true, true},
		{listState{full: true, presented: "1", listed: true}, false, false},
		{listState{full: true, listed: true}, false, false},
		{listState{presented: "1"}, false, false},
		{listState{}, false, false},
	} {
		if tc.list.awaited() != tc.awaited || tc.list.mayHaveAll() != tc.haveAll {
			t.Errorf("%+v: a list is awaited: %t, it may have all: %t", tc.list, tc.list.awaited(), tc.list.mayHaveAll())
		}
	}
	l := listState{full: true, presented: "1", relist: true}
	if l.sent(); l.awaited() || l.mayHaveAll() || l.relist {
		t.Errorf("after a list it is %+v", l)
	}
}

// What the client was sent of a type is known up to the last change, unless a removal that waits for nothing is left
// (ADS-4).
func TestProgressSent_ADS4(t *testing.T) {
	for _, tc := range []struct {
		name, url string
		says      []string
		parts     int
		all       bool
	}{
		{"additions", cds, []string{"+a@2", "+c@1"}, 8, true},
		{"additions of routes", rds, []string{"+a@2", "+c@1"}, 8, true},
		{"additions without room", rds, []string{"+a@2", "+c@1"}, 1, false},
		{"removals that wait", cds, []string{"-a", "+c@1"}, 1, true},
		{"removals that wait for nothing", rds, []string{"-a", "+c@1"}, 8, true},
		{"removals without room", rds, []string{"-a", "+c@1"}, 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, c := newBed(t, cache.Limits{}).subscribed(tc.url, "*")
			b.says(tc.url, "+a@1", "+b@1")
			c.collect()
			b.says(tc.url, tc.says...)
			if _, _, err := collectFrom(c.c, never, 1, tc.parts); err != nil {
				t.Fatal(err)
			}
			if all := c.c.find(tc.url).progress.sent == b.store.Revision(); all != tc.all {
				t.Errorf("it was sent everything: %t, want %t", all, tc.all)
			}
		})
	}
}

// A stream has something left while an acknowledgement holds it up, and only then (ADS-2).
func TestHeld_ADS2(t *testing.T) {
	for _, tc := range []struct {
		name string
		form Form
		says func(b *bed, c *peer)
		busy string
		want bool
	}{
		{"nothing changed", Form{}, func(*bed, *peer) {}, cds, false},
		{"a change of the type that waits", Form{}, func(b *bed, _ *peer) { b.says(cds, "+a@2") }, cds, true},
		{"a change of another type", Form{}, func(b *bed, _ *peer) { b.says(eds, "+a@2") }, cds, false},
		{"a removal", Form{}, func(b *bed, _ *peer) { b.says(cds, "-a") }, cds, true},
		{"a change that nothing holds up", Form{}, func(b *bed, _ *peer) { b.says(cds, "+a@2") }, "", false},
		{"the first of two types", Form{}, func(b *bed, _ *peer) { b.says(cds, "+a@2"); b.says(lds, "+x@1") }, cds, false},
		{"a list", bareForm, func(b *bed, _ *peer) { b.says(cds, "+a@2") }, cds, true},
		{"a list that is due though nothing changed", bareForm, func(_ *bed, c *peer) { c.c.Update(&Change{TypeURL: cds, Relist: true}) }, cds, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			c := b.joinAs(tc.form)
			c.sub(cds, "*")
			c.sub(eds, "*")
			c.sub(lds, "*")
			b.connect(0)
			for _, url := range []string{cds, eds, lds} {
				b.says(url, "+a@1")
			}
			collect := c.collect
			if tc.form.State {
				collect = c.lists
			}
			if collect(); c.s.Held() {
				t.Fatal("something is left")
			}
			c.busy[tc.busy] = true
			tc.says(b, c)
			if collect(); c.s.Held() != tc.want {
				t.Errorf("something is left: %t, want %t", c.s.Held(), tc.want)
			}
			c.busy[tc.busy] = false
			if collect(); c.s.Held() {
				t.Error("something is left after the acknowledgement")
			}
		})
	}
}

// What was renewed of a TTL is forgotten once it is told (TTL-2).
func TestTTLPosition_TTL2(t *testing.T) {
	var p, o ttlPosition
	p.settle("a")
	p.owe("a")
	p.owe("b")
	p.settle("a")
	if o.inherit(&p); len(p.untoldExpiry) != 1 || !p.untoldExpiry["b"] || !o.untoldExpiry["b"] {
		t.Errorf("it owes %v, and who inherits it %v", p.untoldExpiry, o.untoldExpiry)
	}
	if p.settle("b"); len(p.untoldExpiry) != 0 {
		t.Errorf("it owes %v", p.untoldExpiry)
	}
}
