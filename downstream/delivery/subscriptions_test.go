package delivery

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

// What a client subscribes to decides which tables it has to do with, and whether it is told a name twice.
func TestSubscribed_SUB12_RES4(t *testing.T) {
	for _, tc := range []struct {
		name      string
		spellings []string
		kind      cache.Kind
		all       bool // "*" is all of it
		respelled bool
	}{
		{"*", []string{"*"}, cache.WholeType, true, false},
		{"* and a name", []string{"*", "a"}, cache.ByName, false, false},
		{"* and a glob", []string{"*", globG}, cache.ByName, false, false},
		{"a name", []string{"a"}, cache.ByName, false, false},
		{"a glob", []string{globG}, cache.ByName, false, false},
		{"as many names as globs", []string{"*", "a", globG}, cache.ByName, false, false},
		{"NAME-4 a name in another spelling", []string{"a", nameQ2}, cache.ByName, false, true},
		{"NAME-4 a glob in another spelling", []string{globG, globQ2}, cache.ByName, false, true},
		{"NAME-4 both", []string{nameQ2, globQ2}, cache.ByName, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newBed(t, cache.Limits{}).join()
			c.sub(cds, tc.spellings...)
			s := &c.c.find(cds).subs
			if s.anyKind() != tc.kind || s.wildcardOnly() != tc.all || s.respelled() != tc.respelled {
				t.Errorf("it has to do with %s, with * only: %t, with two spellings: %t", s.anyKind(), s.wildcardOnly(), s.respelled())
			}
		})
	}
}

// A client has what it was sent under a name, by the name or by a collection, and may have (WARM-4, ACC-3).
func TestSubscribedHas_WARM4_ACC3(t *testing.T) {
	for _, spelling := range []string{"*", globG, nameG1} {
		t.Run(spelling[:1], func(t *testing.T) {
			b, c := newBed(t, cache.Limits{}).subscribed(eds, spelling)
			has := func(want bool) {
				t.Helper()
				if got := c.c.find(eds).subs.has(nameG1); got != want {
					t.Errorf("%s: it has the name: %t, want %t", spelling, got, want)
				}
			}
			has(false)
			b.says(eds, "+"+nameG1+"@1")
			has(false)
			c.collect()
			has(true)
			b.says(eds, "+"+nameG1+"@2")
			has(false)
			c.collect()
			has(true)
			c.s.JudgedBy(denying{names: map[string]bool{nameG1: true}, off: everyUse}, true)
			has(false)
		})
	}
}

// Nothing is known to a client that may not have all, before the server has answered, but what was restored.
func TestSubscribedAnyKnown_ABS3_ACC3_SUR1(t *testing.T) {
	none := denying{off: everyUse}
	known := func(b *bed, spelling string, want bool) {
		b.Helper()
		c := b.join()
		c.s.JudgedBy(none, false)
		c.sub(cds, spelling)
		if got := c.c.find(cds).subs.anyKnown(); got != want {
			b.Errorf("of %s something is known: %t, want %t", spelling, got, want)
		}
	}
	b := newBed(t, cache.Limits{})
	b.join().sub(cds, "*", globG)
	b.connect(0)
	known(b, "*", false)
	known(b, globG, false)
	b.connect(1)
	b.says(cds, "+a@1")
	b.settle()
	known(b, "*", true)

	next := b.restart()
	known(next, "*", true)
	known(next, globG, false)
	known(newBed(t, cache.Limits{}), "*", false)
}

// Where a name has ended, a glob answers for it: with what it has, or that there is nothing, once it is complete. A
// removal that the glob is still to tell is told once.
func TestAnswerOfCollections_SUB8_GLOB5_RES14(t *testing.T) {
	t.Run("a glob that is not complete", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, globG, nameG1)
		b.says(cds, "+"+nameG2+"@1")
		b.expect(c.collect(), "CDS +"+nameG2+"@1")
		c.c.find(cds).subs.names.get(nameG1).holds = true
		c.unsub(cds, nameG1)
		b.expect(c.collect())
		if c.s.Held() {
			t.Error("something is held up")
		}
		b.settle()
		b.expect(c.collect(), "CDS -"+nameG1)
	})
	t.Run("a name that was absent, and a glob that is not complete", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, globG)
		b.join().sub(cds, nameG1)
		b.demand(0)
		b.says(cds, "-"+nameG1)
		b.says(cds, "+"+nameG2+"@1")
		b.expect(c.collect(), "CDS +"+nameG2+"@1")
		c.sub(cds, nameG1)
		c.unsub(cds, nameG1)
		b.expect(c.collect())
		if c.s.Held() {
			t.Error("something is held up")
		}
	})
	t.Run("* that is not complete", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(eds, "*", "a")
		b.connect(1)
		b.says(eds, "+b@1")
		b.saysOn(1, eds, "+a@1")
		c.collect()
		c.unsub(eds, "a")
		b.expect(c.collect())
		if c.s.Held() {
			t.Error("something is held up")
		}
		b.settle()
		b.expect(c.collect(), "EDS -a")
	})
	t.Run("ACC-3 a member that the client may not have, of a glob that is not complete", func(t *testing.T) {
		b := resolvedBed(t)
		c := b.join()
		c.s.JudgedBy(denying{names: map[string]bool{altH1: true}, off: everyUse}, false)
		c.subResolved(globG, globG)
		b.demand(0)
		b.resolves("+" + nameG1 + " " + altH1 + "@1")
		b.expect(c.collect())
		c.subResolved(nameG1, nameG1)
		c.unsubResolved(nameG1, nameG1)
		b.expect(c.collect())
	})
	t.Run("TTL-5 content that is not to be cached", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		list, c := b.joinAs(bareForm), b.join()
		for _, p := range []*peer{list, c} {
			p.sub(cds, "a", "*")
		}
		b.connect(0)
		b.connect(1)
		b.says(cds, "+a@name")
		b.saysOn(1, cds, "+a@all!")
		b.settle()
		b.expect(list.lists(), "CDS aname")
		b.expect(c.collect(), "CDS +a@name")
		for _, p := range []*peer{list, c} {
			p.unsub(cds, "a")
		}
		b.expect(list.lists(), "CDS aall")
		b.expect(c.collect(), "CDS +a@all")
	})
	// Another client has not collected: the store goes on holding the tombstone.
	for _, first := range []bool{false, true} {
		b := newBed(t, cache.Limits{})
		c, slow := b.join(), b.join()
		c.sub(cds, "*", "a")
		slow.sub(cds, "*")
		b.connect(0)
		b.connect(1)
		b.says(cds, "+a@1", "+b@1")
		b.saysOn(1, cds, "+a@1")
		b.settle()
		b.expect(c.collect(), "CDS +a@1", "CDS +b@1")
		slow.collect()
		b.says(cds, "-a")
		if first {
			b.expect(c.collect())
		}
		c.unsub(cds, "a")
		b.expect(c.collect(), "CDS -a")
		b.expect(c.collect())
		b.expect(slow.collect(), "CDS -a")
	}
}
