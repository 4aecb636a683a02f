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
		"the name is in one of two other stores": func(b *bed, c *peer, gone func()) {
			named, other := c.alsoOf(b.source), c.alsoOf(b.source)
			named.sub(cds, nameG1)
			other.sub(cds, nameG2)
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

// goesInSilence removes a member that a client has by a glob and by its name. The server adds an error that leaves open
// what became of it, and stays silent. The client is told once that it is gone.
func goesInSilence(b *bed, c *peer) {
	b.Helper()
	b.says(cds, "-"+nameG1)
	b.demand(0)
	b.fails(cds, nameG1, unavailable)
	b.elapses(absentAfter)
	b.expect(c.collect(), "CDS -"+nameG1+" !"+nameG1)
	b.expect(c.collect())
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
		goesInSilence(b, c)
		b.says(cds, "+"+nameG1+"@1")
		b.expect(c.collect(), "CDS +"+nameG1+"@1")
	})
}

// The same if the client came back with the member, whether it was told of what the server had meanwhile or not.
func TestSilenceOfHeld_RES4_RES11_ERR1(t *testing.T) {
	for _, collects := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, Absent: absentAfter})
			b.join().sub(cds, globG)
			b.connect(0)
			c := b.join()
			c.presents(cds, nameG1+"@0", globG)
			c.sub(cds, nameG1)
			b.demand(0)
			b.says(cds, "+"+nameG1+"@1")
			if collects {
				b.expect(c.collect(), "CDS +"+nameG1+"@1")
			}
			goesInSilence(b, c)
			b.says(cds, "+"+nameG1+"@0")
			b.expect(c.collect(), "CDS +"+nameG1+"@0")
		})
	}
}

// What a client is told that a collection lost, its name under the same spelling does not tell any more.
func TestUnheld_RES4_RES11(t *testing.T) {
	for _, tc := range []struct {
		name, spelling string
		key, told      string
		kept, holds    bool // the version that it holds, and that it may hold the resource
	}{
		{"its name", nameQ, nameQ, nameQ, false, false},
		{"NAME-4 its name in another spelling", nameQ2, nameQ, nameQ, false, true},
		{"another name", nameG1, nameQ, nameQ, true, true},
		{"LOC-5 a name that is spelled like it, of another key", nameQ, altQ, nameQ, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newBed(t, cache.Limits{}).join()
			c.sub(cds, tc.spelling)
			w := c.c.find(cds)
			n := w.subs.names.get(tc.spelling)
			n.holds, n.absenceDue = true, true
			w.held.set(n.entry.Key(), "1")
			new(delivery).unheld(w, tc.key, tc.told)
			if _, kept := w.held.versions[n.entry.Key()]; kept != tc.kept || n.holds != tc.holds || n.absenceDue != tc.holds {
				t.Errorf("the version is kept: %t, it may hold the resource: %t, its absence is due: %t", kept, n.holds, n.absenceDue)
			}
		})
	}
}

// The relay waits for a name no longer. The client is told that something is gone only if it may have that, and
// if no answer has come (RES-7).
func TestLateLoss_RES7(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSilent(t, true)
		c := b.join()
		c.sub(cds, "never", "lost", "kept")
		b.connect(0)
		b.state(cds, "1", "+kept@1")
		b.expect(c.told(), "CDS +kept")
		w := c.c.find(cds)
		lost := w.subs.names.get("lost")
		lost.holds, lost.absenceDue = true, true
		tells := func(want bool) {
			t.Helper()
			for name, want := range map[string]bool{"never": false, "kept": false, "lost": want} {
				if got := w.subs.names.get(name).tellsLost(); got != want {
					t.Errorf("it tells that %s is lost: %t, want %t", name, got, want)
				}
			}
		}
		tells(false)
		for _, name := range []string{"never", "kept", "lost"} {
			n := w.subs.names.get(name)
			n.lateLoss()
			if n.dirty != (name == "lost") {
				t.Errorf("%s is due: %t", name, n.dirty)
			}
		}
		b.elapses(absentAfter)
		tells(true)
	})
}

// The removal of a member goes with an error of its name only if all of the client's spellings are of that name, and
// none may have something else to tell (ERR-1).
func TestToldGone_ERR1(t *testing.T) {
	for _, tc := range []struct {
		name      string
		spellings []string
		holds     int // one of them, from 1: it may hold the resource; 0: none
		other     bool
		want      bool
	}{
		{"no name", []string{nameG1}, 0, false, false},
		{"a name", []string{nameQ}, 0, false, true},
		{"a name that may hold it", []string{nameQ}, 1, false, false},
		{"two spellings", []string{nameQ, nameQ2}, 0, false, true},
		{"two spellings, of which one may hold it", []string{nameQ, nameQ2}, 2, false, false},
		{"the name is in another table", []string{nameQ}, 0, true, false},
		{"the name is in another table and may hold it", []string{nameQ}, 1, true, false},
	} {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.sub(cds, tc.spellings...)
		if tc.holds > 0 {
			c.c.find(cds).subs.names.get(tc.spellings[tc.holds-1]).holds = true
		}
		k := cache.ByName
		if tc.other {
			k = cache.WholeType
		}
		var got bool
		b.store.Edit(func() { got = c.c.find(cds).subs.names.toldGone(b.store.Table(cds, k).Entry(nameQ)) })
		if got != tc.want {
			t.Errorf("%s: the name tells the removal: %t", tc.name, got)
		}
	}
}

// named applies a list of clusters on the stream of names.
func (b *bed) named(version string, words ...string) {
	b.Helper()
	if err := b.apply(1, stateOf(cds, version, words...)); err != nil {
		b.Fatal(err)
	}
}

// A name that neither its own list nor that of "*" has does not exist, if its list cannot be the answer to an older
// request. One of both lists says nothing of it.
func TestUnlisted_RES7_SUB12(t *testing.T) {
	for name, run := range map[string]func(b *bed, c *peer){
		"its own list lacks it first": func(b *bed, c *peer) {
			c.sub(cds, "*", "x")
			b.connect(0)
			b.connect(1)
			b.named("1")
			b.expect(c.told())
			b.state(cds, "1", "+y@1")
			b.expect(c.told(), "CDS -x", "CDS +y")
		},
		"the list of * lacks it first": func(b *bed, c *peer) {
			c.sub(cds, "*", "x")
			b.connect(0)
			b.state(cds, "1", "+y@1")
			b.expect(c.told(), "CDS +y")
			b.connect(1)
			b.named("1")
			b.expect(c.told(), "CDS -x")
			b.named("2", "+x@1")
			b.expect(c.told(), "CDS +x")
		},
		"it was not in the first request": func(b *bed, c *peer) {
			c.sub(cds, "*", "z")
			b.connect(0)
			b.connect(1)
			c.sub(cds, "x")
			b.expect(b.demand(1), "CDS +x")
			b.state(cds, "1", "+y@1")
			b.expect(c.told(), "CDS +y")
			b.named("1", "+z@1")
			b.expect(c.told(), "CDS +z")
			b.elapses(absentAfter)
			b.expect(c.told(), "CDS !x")
		},
		"the list of * has it": func(b *bed, c *peer) {
			c.sub(cds, "*", "x")
			b.connect(0)
			b.connect(1)
			b.state(cds, "1", "+x@1")
			b.expect(c.told(), "CDS +x")
			b.named("1")
			b.expect(c.told())
		},
		"it is never a member of *": func(b *bed, c *peer) {
			c.sub(cds, "*", nameG1)
			b.connect(0)
			b.connect(1)
			b.named("1")
			b.state(cds, "1", "+y@1")
			b.expect(c.told(), "CDS +y")
			b.elapses(absentAfter)
			b.expect(c.told(), "CDS !"+nameG1)
		},
		"there is no *": func(b *bed, c *peer) {
			c.sub(cds, "x")
			b.connect(0)
			b.state(cds, "1")
			b.expect(c.told())
			b.elapses(absentAfter)
			b.expect(c.told(), "CDS !x")
		},
		"its stream began anew and has not answered": func(b *bed, c *peer) {
			c.sub(cds, "*", "x")
			b.connect(0)
			b.connect(1)
			b.named("1")
			b.connect(1)
			b.state(cds, "1", "+y@1")
			b.expect(c.told(), "CDS +y")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newSilent(t, true)
				run(b, b.join())
			})
		})
	}
}
