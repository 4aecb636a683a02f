package delivery

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

// TestBrokenOff_RES2_RES11: a relay behind this one learns that it has a part of a collection, and
// when it has all. Its clients may hold what is missing, and lose nothing meanwhile.
func TestBrokenOff_RES2_RES11(t *testing.T) {
	lost := func(b *bed) {
		b.store.Session().Lost(streamOf(0))
		b.check()
	}
	// relay is a relay that follows a collection, of which the server has sent a part.
	relay := func(t *testing.T, collection, part string) (*bed, *peer) {
		t.Helper()
		b := newBed(t, cache.Limits{})
		r := b.joinAs(Form{Relay: true})
		r.sub(cds, collection)
		b.connect(0)
		b.says(cds, "+"+part+"@1")
		b.expect(r.collect(), "CDS +"+part+"@1")
		return b, r
	}
	t.Run("the rest comes on the next stream", func(t *testing.T) {
		b, r := relay(t, "*", "a")
		lost(b)
		r.woken()
		b.expect(r.collect(), "CDS !*")
		b.connect(0)
		b.says(cds, "+b@1")
		b.expect(r.collect(), "CDS +b@1")
		b.settle()
		r.woken()
		b.expect(r.collect(), "CDS +a@1") // all is there
		b.expect(r.collect())
		lost(b)
		b.expect(r.collect())
	})
	t.Run("the next stream breaks too", func(t *testing.T) {
		b, r := relay(t, "*", "a")
		for range 2 {
			lost(b)
			b.expect(r.collect(), "CDS !*")
			lost(b) // it never answered
			b.expect(r.collect())
			b.connect(0)
			b.says(cds, "+a@1")
		}
		b.settle()
		b.expect(r.collect(), "CDS +a@1")
	})
	t.Run("a relay that comes meanwhile", func(t *testing.T) {
		b, _ := relay(t, "*", "a")
		lost(b)
		r := b.joinAs(Form{Relay: true})
		r.sub(cds, "*")
		b.expect(r.collect(), "CDS +a@1 !*")
		b.connect(0)
		b.says(cds, "-a")
		b.settle()
		b.expect(r.collect(), "CDS", "CDS -a")
	})
	t.Run("a relay that may not have the first member", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		r := b.joinAs(Form{Relay: true})
		r.s.JudgedBy(denying{names: map[string]bool{"a": true}, off: everyUse}, false)
		r.sub(cds, "*")
		b.connect(0)
		b.says(cds, "+a@1", "+b@1")
		b.expect(r.collect(), "CDS +b@1")
		lost(b)
		b.expect(r.collect(), "CDS !*")
		b.connect(0)
		b.says(cds, "+a@1", "+b@1")
		b.settle()
		b.expect(r.collect(), "CDS +b@1") // all is there
		b.says(cds, "-b")
		b.expect(r.collect(), "CDS -b")
	})
	t.Run("a relay that may not have any member", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		r := b.joinAs(Form{Relay: true})
		r.s.JudgedBy(denying{names: map[string]bool{"a": true}, off: everyUse}, false)
		r.sub(cds, "*")
		b.connect(0)
		b.says(cds, "+a@1")
		b.expect(r.collect(), "CDS")
		lost(b)
		b.expect(r.collect(), "CDS !*")
		b.connect(0)
		b.says(cds, "+a@1")
		b.settle()
		b.expect(r.collect(), "CDS")
	})
	t.Run("a glob", func(t *testing.T) {
		b, r := relay(t, globG, nameG1)
		lost(b)
		b.expect(r.collect(), "CDS !"+globG)
		b.connect(0)
		b.says(cds, "+"+nameG1+"@1")
		b.settle()
		b.expect(r.collect(), "CDS +"+nameG1+"@1")
	})
	t.Run("a relay that names a member is told again", func(t *testing.T) {
		b, r := relay(t, globG, nameG1)
		lost(b)
		b.expect(r.collect(), "CDS !"+globG)
		other := b.joinAs(Form{Relay: true})
		other.sub(cds, globG)
		b.expect(other.collect(), "CDS +"+nameG1+"@1 !"+globG)
		other.sub(cds, nameG1) // the answer is a member, too
		b.expect(other.collect(), "CDS +"+nameG1+"@1 !"+globG)
		b.expect(other.collect())
		b.expect(r.collect())
		b.connect(0)
		b.says(cds, "+"+nameG1+"@1")
		b.settle()
		b.expect(other.collect(), "CDS +"+nameG1+"@1")
		b.expect(other.collect())
	})
	t.Run("a collection that is complete, or was not answered", func(t *testing.T) {
		b, r := relay(t, "*", "a")
		b.settle()
		lost(b)
		b.expect(r.collect())
		other := b.joinAs(Form{Relay: true})
		other.sub(lds, "*")
		b.connect(0)
		lost(b)
		b.expect(other.collect())
	})
	t.Run("other clients wait for the server without a word", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c, state := b.join(), b.joinAs(Form{State: true, Relay: true})
		c.resume(cds, []string{"a@1", "b@1"}, "*")
		state.sub(cds, "*")
		b.connect(0)
		b.says(cds, "+a@1")
		c.collect()
		state.collect()
		lost(b)
		b.expect(c.collect())
		b.expect(state.collect())
	})
	t.Run("the clients of that relay", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.resume(cds, []string{"a@1", "b@1", "c@1"}, "*")
		b.connect(0)
		b.says(cds, "+a@1")
		b.respond(cds, "!*")
		b.settle()
		b.expect(c.collect(), "CDS !*")
		b.says(cds, "+b@1")
		b.respond(cds, "!*")
		b.settle()
		b.expect(c.collect(), "CDS !*")
		b.says(cds, "+a@1")
		b.settle()
		b.expect(c.collect(), "CDS -c")
	})
}
