package delivery

import (
	"testing"
	"testing/synctest"

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
	t.Run("a glob that has a part by their names", func(t *testing.T) {
		b, _ := newBed(t, cache.Limits{}).subscribed(cds, nameG1)
		b.connect(0)
		b.says(cds, "+"+nameG1+"@1")
		r := b.joinAs(Form{Relay: true})
		r.sub(cds, globG)
		b.expect(r.collect(), "CDS +"+nameG1+"@1 !"+globG)
		b.expect(b.demand(0), "CDS +"+globG)
		b.says(cds, "+"+nameG2+"@1")
		b.expect(r.collect(), "CDS +"+nameG2+"@1")
		b.settle()
		r.woken()
		b.expect(r.collect(), "CDS +"+nameG1+"@1") // all is there
		b.expect(r.collect())
	})
	t.Run("a relay that speaks the state of the world", func(t *testing.T) {
		const dir = "xdstp://x/envoy.config.route.v3.RouteConfiguration/r/"
		globR, nameR1, nameR2 := dir+"*", dir+"1", dir+"2"
		b := newBed(t, cache.Limits{})
		r := b.joinAs(Form{State: true, Relay: true})
		r.sub(rds, globR)
		b.connect(0)
		b.says(rds, "+"+nameR1+"@1")
		b.expect(r.lists(), "RDS "+nameR1+"1")
		lost(b)
		r.woken()
		b.expect(r.lists(), "RDS !"+globR)
		other := b.joinAs(Form{State: true, Relay: true})
		other.sub(rds, globR)
		b.expect(other.lists(), "RDS "+nameR1+"1 !"+globR)
		b.connect(0)
		b.says(rds, "+"+nameR2+"@1")
		b.expect(r.lists(), "RDS "+nameR2+"1")
		b.settle()
		r.woken()
		b.expect(r.lists(), "RDS "+nameR1+"1") // all is there
		b.expect(r.lists())
	})
	t.Run("a server that speaks the state of the world", func(t *testing.T) {
		b := newStateBed(t)
		r := b.joinAs(Form{Relay: true})
		r.sub(cds, globG)
		b.connect(0)
		b.state(cds, "1", "+"+nameG1+"@1")
		b.expect(r.told(), "CDS +"+nameG1)
		lost(b)
		r.woken()
		b.expect(r.told(), "CDS !"+globG)
		b.connect(0)
		b.state(cds, "2", "+"+nameG1+"@1", "+"+nameG2+"@1")
		b.expect(r.told(), "CDS +"+nameG2)
		b.settle()
		r.woken()
		b.expect(r.told(), "CDS +"+nameG1) // all is there
		r.sub(lds, "*")
		b.demand(0)
		b.state(lds, "1", "+a@1")
		b.expect(r.told(), "LDS +a")
		lost(b)
		b.expect(r.told()) // a list has everything
	})
	t.Run("a glob that has a part from a peer", func(t *testing.T) {
		other := newBed(t, cache.Limits{})
		other.join().sub(cds, nameG1, nameG2)
		other.connect(0)
		b := newBed(t, cache.Limits{})
		r := b.joinAs(Form{Relay: true})
		r.sub(cds, globG)
		other.says(cds, "+"+nameG1+"@1")
		b.takes(1, b.answersOf(other))
		r.woken()
		b.expect(r.collect(), "CDS +"+nameG1+"@1 !"+globG)
		other.says(cds, "+"+nameG2+"@1")
		b.takes(1, b.answersOf(other))
		b.expect(r.collect(), "CDS +"+nameG2+"@1 !"+globG)
		b.takes(0, b.answersOf(other))
		b.expect(r.collect())
		b.connect(0)
		b.says(cds, "+"+nameG1+"@1")
		b.settle()
		b.expect(r.collect(), "CDS +"+nameG1+"@1")
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

// A server that has nothing to say to the versions of a part says nothing. Then the members are presented in a version
// that no content has, so that it must answer: clients may hold what was not in the part, and has gone.
func TestBrokenOffSilent_RES2_RES12(t *testing.T) {
	for _, gone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, ResumeQuiet: quiet, Absent: 2 * quiet})
			c := b.join()
			c.resume(cds, []string{"a@1", "b@1"}, "*")
			b.connect(0)
			b.says(cds, "+a@1")
			b.store.Session().Lost(streamOf(0))
			b.expect(b.connect(0), "CDS +* =a@1")
			b.runClocks()
			b.expect(c.collect())
			b.expect(b.demand(0), "begin anew")
			b.store.Session().Lost(streamOf(0))
			b.expect(b.connect(0), "CDS +* =a@"+asked)
			b.runClocks()
			b.expect(b.demand(0))
			if gone {
				b.says(cds, "-a")
			} else {
				b.says(cds, "+a@1")
			}
			b.runClocks()
			b.expect(b.demand(0))
			if gone {
				b.expect(c.collect(), "CDS -a -b")
			} else {
				b.expect(c.collect(), "CDS -b")
			}
		})
	}
}

// Nothing is held of a collection without members: its stream does not begin anew.
func TestBrokenOffEmpty_RES2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, ResumeQuiet: quiet, Absent: 2 * quiet})
		b.join().sub(cds, globG)
		b.connect(0)
		b.runClocks()
		b.expect(b.demand(0))
	})
}

// TestPartOfACollection_RES2_RES11: a part from a disk or from a peer is to a relay like an answer that broke off.
func TestPartOfACollection_RES2_RES11(t *testing.T) {
	first := newBed(t, cache.Limits{})
	first.join().sub(cds, globG)
	first.connect(0)
	first.says(cds, "+"+nameG1+"@1") // more may come
	for name, take := range map[string]func() (*bed, *peer){
		"from a peer": func() (*bed, *peer) {
			b := newBed(t, cache.Limits{})
			r := b.joinAs(Form{Relay: true})
			r.sub(cds, globG)
			b.takes(1, b.answersOf(first))
			r.woken()
			return b, r
		},
		"from a disk": func() (*bed, *peer) {
			b := first.restart()
			r := b.joinAs(Form{Relay: true})
			r.sub(cds, globG)
			return b, r
		},
	} {
		t.Run(name, func(*testing.T) {
			b, r := take()
			b.expect(r.collect(), "CDS +"+nameG1+"@1 !"+globG)
			b.connect(0)
			b.says(cds, "+"+nameG1+"@1", "+"+nameG2+"@1")
			b.expect(r.collect(), "CDS +"+nameG2+"@1")
			b.settle()
			r.woken()
			b.expect(r.collect(), "CDS +"+nameG1+"@1") // all is there
			b.expect(r.collect())
		})
	}
}
