package delivery

import (
	"testing"
	"testing/synctest"

	"github.com/xdsrelay/xdsrelay/cache"
)

// newSilent is a bed with a server of the state of the world, which stays silent of what it does not have.
func newSilent(t *testing.T, full bool) *bed {
	t.Helper()
	return newBedOf(t, cache.Limits{}, cache.Source{
		Quiet: quiet, Absent: absentAfter, State: true, FullState: map[string]bool{cds: full},
	})
}

// A client has a resource by "*" and names it too, and "*" loses it before the name is answered. The
// client is told that it is gone, however silent the server is of the name.
func TestSilence_RES7_SUB12_GLOB5_LOC3(t *testing.T) {
	for name, lose := range map[string]func(b *bed, c *peer, gone func()){
		"the client names it": func(b *bed, c *peer, gone func()) {
			c.sub(cds, nameG1)
			b.connect(1)
			gone()
			b.expect(c.collect())
			b.elapses(absentAfter)
			b.expect(c.collect(), "CDS -"+nameG1+" !"+nameG1)
		},
		"it collects when all is over": func(b *bed, c *peer, gone func()) {
			c.sub(cds, nameG1)
			b.connect(1)
			gone()
			b.elapses(absentAfter)
			b.expect(c.collect(), "CDS !"+nameG1, "CDS -"+nameG1)
		},
		"it follows a glob too": func(b *bed, c *peer, gone func()) {
			c.sub(cds, nameG1, globG)
			b.connect(1)
			gone()
			b.elapses(absentAfter)
			b.expect(c.collect(), "CDS !"+nameG1, "CDS -"+nameG1+" !"+nameG1)
		},
		"the name is in another store": func(b *bed, c *peer, gone func()) {
			named := c.alsoOf(b.source)
			named.sub(cds, nameG1)
			named.connect(0)
			gone()
			b.expect(c.collect())
			named.elapses(absentAfter)
			b.expect(c.collect(), "CDS -"+nameG1+" !"+nameG1)
		},
		"the name is in another store, and the client collects when all is over": func(b *bed, c *peer, gone func()) {
			named := c.alsoOf(b.source)
			named.sub(cds, nameG1)
			named.connect(0)
			gone()
			named.elapses(absentAfter)
			b.expect(c.collect(), "CDS !"+nameG1, "CDS -"+nameG1+" !"+nameG1)
		},
		"the name is in another store, and is answered": func(b *bed, c *peer, gone func()) {
			named := c.alsoOf(b.source)
			named.sub(cds, nameG1)
			named.connect(0)
			gone()
			b.expect(c.collect())
			named.state(cds, "1", "+"+nameG1+"@2")
			b.expect(c.told(), "CDS +"+nameG1)
			named.elapses(absentAfter)
			b.expect(c.collect())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newSilent(t, true)
				c := b.join()
				c.sub(cds, "*")
				b.connect(0)
				b.state(cds, "1", "+"+nameG1+"@1")
				b.expect(c.told(), "CDS +"+nameG1)
				lose(b, c, func() { b.state(cds, "2") })
			})
		})
	}
}

// A list goes on holding what "*" has of a name that is not answered in another store, and no longer.
func TestSilenceList_RES2_RES7_LOC3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSilent(t, true)
		c := b.joinAs(Form{State: true})
		c.sub(cds, "*")
		b.connect(0)
		b.state(cds, "1", "+a@1", "+b@1")
		b.expect(c.lists(), "CDS a1 b1")
		named := c.alsoOf(b.source)
		named.sub(cds, "a")
		named.connect(0)
		named.elapses(absentAfter)
		b.expect(c.lists(), "CDS a1 b1 !a")
		b.state(cds, "2", "+b@1")
		b.expect(c.lists(), "CDS b1 !a")
		b.expect(c.lists())
		named.state(cds, "1", "+a@2")
		b.expect(c.lists(), "CDS a2 b1")
		b.state(cds, "3", "+a@3", "+b@1")
		b.state(cds, "4", "+b@1")
		b.expect(c.lists())
	})
}

// A client that has a member by a glob and by its name is told once in a response that it is gone, if
// the server adds an error that leaves open what became of it, and then stays silent.
func TestSilence_RES4_ERR1_GLOB5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, Absent: absentAfter})
		c := b.join()
		c.sub(cds, globG, nameG1)
		b.connect(0)
		b.says(cds, "+"+nameG1+"@1")
		b.elapses(quiet)
		b.expect(c.collect(), "CDS +"+nameG1+"@1")
		b.says(cds, "-"+nameG1)
		b.demand(0)
		b.fails(cds, nameG1, unavailable)
		b.elapses(absentAfter)
		b.expect(c.collect(), "CDS -"+nameG1+" !"+nameG1)
		b.expect(c.collect())
		b.says(cds, "+"+nameG1+"@1")
		b.expect(c.collect(), "CDS +"+nameG1+"@1")
	})
}
