package cache

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// mover is two scopes of one cache, and a client that is moved from the first to the second.
type mover struct {
	*peer

	to *bed
}

func newMover(t *testing.T, form Form) *mover {
	t.Helper()
	from := newBed(t, Limits{})
	to := &bed{TB: t, cache: from.cache, seen: from.seen}
	to.store = from.cache.Open(Source{Quiet: quiet, Absent: quiet, FullState: map[string]bool{cds: true, lds: true}, Scope: "to"})
	return &mover{from.joinAs(form), to}
}

// move moves subscriptions, and the client's place with them.
func (p *mover) move(typeURL string, spellings ...string) {
	p.Helper()
	d := p.c.Depart(typeURL, names(spellings))
	p.check()
	if len(d.Names()) != len(spellings) {
		p.Fatalf("%v departed, want %v", d.Names(), spellings)
	}
	there := p.to.joinAs(p.c.form)
	there.c.Update(Change{TypeURL: typeURL, Moved: []*Departed{d}})
	p.to.check()
	p.c.Leave()
	p.peer = there
	p.to.connect(0)
}

// arranged collects as a stream does that has acknowledged everything, and tells what is left.
func (p *mover) arranged() (said []string, left int) {
	p.Helper()
	for {
		before := Arrange([]*Client{p.c}, func(_ string, given bool) bool { return given })
		if p.c.form.State {
			said = append(said, p.lists()...)
		} else {
			said = append(said, p.collect()...)
		}
		if after := Arrange([]*Client{p.c}, func(_ string, given bool) bool { return given }); after == before {
			return said, after.Left
		}
	}
}

func (p *mover) wants(left int, want ...string) {
	p.Helper()
	said, still := p.arranged()
	p.expect(said, want...)
	if still != left {
		p.Errorf("%d things of the old scope are left, want %d", still, left)
	}
}

func TestMove_RES7_RES11_TTL3_DYN1_SUB6(t *testing.T) {
	for _, tt := range []struct {
		name string
		form Form
		run  func(p *mover)
	}{
		{"RES-11 equal is what has the same version and the same bytes", Form{}, func(p *mover) {
			p.sub(rds, "same", "bytes", "version", "gone")
			p.connect(0)
			p.says(rds, "+same@1", "+bytes@1:x", "+version@1:x", "+gone@1")
			p.collect()
			p.move(rds, "same", "bytes", "version", "gone")
			p.to.says(rds, "+same@1", "+bytes@1:y", "+version@2:x", "-gone")
			p.wants(0, "RDS +bytes@1 +version@2 -gone")
		}},
		{"RES-11 what the client was not sent yet is uncertain", Form{}, func(p *mover) {
			p.sub(rds, "*", "n")
			p.connect(0)
			p.connect(1)
			p.says(rds, "+n@1")
			p.collect()
			p.says(rds, "+n@2")
			p.move(rds, "n")
			p.to.says(rds, "+n@2") // it has 1 still
			p.wants(0, "RDS +n@2")
		}},
		{"RES-7 a name that nobody answers", Form{}, func(p *mover) {
			p.sub(rds, "n")
			p.connect(0)
			p.says(rds, "+n@1")
			p.collect()
			p.move(rds, "n")
			p.wants(1)
			p.to.settle()
			p.wants(0, "RDS -n")
			p.to.says(rds, "+n@1")
			p.wants(0, "RDS +n@1")
		}},
		{"RES-7 a name that is waited for no longer when the client comes", Form{}, func(p *mover) {
			first := p.to.join()
			first.sub(rds, "n")
			p.to.connect(0)
			p.to.settle()
			first.collect()
			p.sub(rds, "n")
			p.connect(0)
			p.says(rds, "+n@1")
			p.collect()
			there := p.to.join()
			there.c.Update(Change{TypeURL: rds, Moved: []*Departed{p.c.Depart(rds, names([]string{"n"}))}})
			p.to.check()
			p.to.expect(there.collect(), "RDS -n")
			there.leave()
			first.leave()
		}},
		{"RES-14 \"*\" that nobody answers takes nothing away", Form{}, func(p *mover) {
			p.sub(rds, "*")
			p.connect(0)
			p.says(rds, "+a@1", "+b@1")
			p.collect()
			p.move(rds, "*")
			p.wants(3)
			p.to.settle()
			p.wants(3)
			p.to.says(rds, "+a@1")
			p.to.settle()
			p.wants(0, "RDS -b")
		}},
		{"RES-7 members that a state-of-the-world server has no word for", Form{}, func(p *mover) {
			p.sub(rds, "*")
			p.connect(0)
			p.says(rds, "+a@1")
			p.collect()
			source := p.to.store.source
			source.State, source.Scope = true, "of lists"
			p.to.store = p.to.cache.Open(source)
			p.move(rds, "*")
			p.wants(2)
			p.to.settle()
			p.wants(0, "RDS -a")
		}},
		{"RES-2 a list that nobody answers takes nothing away", Form{State: true}, func(p *mover) {
			p.sub(cds, "*")
			p.connect(0)
			p.says(cds, "+a@1", "+b@1")
			p.lists()
			p.move(cds, "*")
			p.wants(4)
			p.to.settle()
			p.wants(4)
			p.to.says(cds, "+a@1")
			p.wants(4)
			p.to.settle()
			p.wants(0, "CDS a1")
		}},
		{"RES-11 members come and go while the client has not heard of them", Form{}, func(p *mover) {
			p.sub(rds, "*")
			p.connect(0)
			p.says(rds, "+a@1", "+b@1", "+c@1")
			p.collect()
			p.says(rds, "-c", "+d@1")
			p.move(rds, "*")
			p.to.says(rds, "+a@2", "+b@1")
			p.to.says(rds, "-a")
			said, _ := p.arranged()
			p.expect(said, "RDS -a")
			p.to.settle()
			p.wants(0, "RDS -c")
		}},
		{"SUB-6 asked for again it is sent even if it is the same", Form{}, func(p *mover) {
			p.sub(rds, "*", "n")
			p.connect(0)
			p.connect(1)
			p.says(rds, "+a@1")
			p.saysOn(1, rds, "+n@1")
			p.collect()
			p.move(rds, "*", "n")
			p.sub(rds, "*", "n")
			p.to.connect(1)
			p.to.says(rds, "+a@1")
			p.to.saysOn(1, rds, "+n@1")
			said, _ := p.arranged()
			p.expect(said, "RDS +n@1", "RDS +a@1")
			p.to.settle()
			p.wants(0)
		}},
		{"SUB-8 what \"*\" still owed it owes in the new scope", Form{}, func(p *mover) {
			p.sub(rds, "*", "n")
			p.connect(0)
			p.connect(1)
			p.saysOn(1, rds, "+n@1")
			p.collect()
			p.unsub(rds, "n")
			p.move(rds, "*")
			p.to.settle()
			said, _ := p.arranged()
			p.to.says(rds, "+n@1")
			more, left := p.arranged()
			p.expect(append(said, more...), "RDS +n@1")
			if left != 0 {
				p.Errorf("%d left", left)
			}
		}},
		{"RES-11 versions that the client said itself are no word of content", Form{}, func(p *mover) {
			p.resume(rds, []string{"n@1", "m@1"}, "*")
			p.move(rds, "*")
			p.to.says(rds, "+n@1")
			said, _ := p.arranged()
			p.expect(said, "RDS +n@1")
			p.to.settle()
			p.wants(0, "RDS -m")
		}},
		{"RES-11 all that the client said it holds is here, and nobody knows what else is", Form{}, func(p *mover) {
			p.resume(rds, []string{"n@1"}, "*")
			p.move(rds, "*")
			p.to.says(rds, "+n@1")
			p.wants(0, "RDS +n@1")
			p.to.settle()
			p.wants(0)
		}},
		{"TTL-3 what has a ttl is sent again", Form{TTL: true}, func(p *mover) {
			p.sub(rds, "n")
			p.connect(0)
			p.says(rds, "+n@1~1h0m0s")
			p.collect()
			p.move(rds, "n")
			p.to.says(rds, "+n@1")
			p.wants(0, "RDS +n@1")
		}},
		{"GLOB-4 a glob of which the new scope has nothing", Form{}, func(p *mover) {
			p.sub(cds, globG)
			p.connect(0)
			p.says(cds, "+"+nameG1+"@1", "+"+nameG2+"@1")
			p.collect()
			p.move(cds, globG)
			p.to.says(cds, "-"+globG)
			p.wants(0, "CDS -"+nameG1+" -"+nameG2)
		}},
		{"GLOB-5 a name begins and ends while its glob is on its way", Form{}, func(p *mover) {
			p.sub(cds, globG)
			p.connect(0)
			p.says(cds, "+"+nameG1+"@1")
			p.collect()
			p.move(cds, globG)
			p.sub(cds, nameG1)
			p.unsub(cds, nameG1)
			p.to.says(cds, "+"+nameG2+"@1")
			said, _ := p.arranged()
			p.to.settle()
			more, left := p.arranged()
			p.expect(append(said, more...), "CDS +"+nameG2+"@1", "CDS -"+nameG1)
			if left != 0 {
				p.Errorf("%d left", left)
			}
		}},
		{"SUB-6 GLOB-5 what a name still owed when it ended its glob owes in the new scope", Form{}, func(p *mover) {
			p.sub(cds, globG, nameG1)
			p.connect(0)
			p.says(cds, "+"+nameG1+"@1", "+"+nameG2+"@1")
			p.collect()
			p.sub(cds, nameG1)
			p.unsub(cds, nameG1)
			p.move(cds, globG)
			p.to.says(cds, "+"+nameG1+"@1", "+"+nameG2+"@1")
			said, _ := p.arranged()
			p.expect(said, "CDS +"+nameG1+"@1")
			p.to.settle()
			p.wants(0)
		}},
		{"RES-2 ADS-1 the list of the new scope, and then one without what is not there", Form{State: true}, func(p *mover) {
			p.sub(cds, "*")
			p.connect(0)
			p.says(cds, "+a@1", "+b@1")
			p.lists()
			p.move(cds, "*")
			p.to.says(cds, "+a@1", "+c@1")
			said, left := p.arranged()
			if len(said) != 0 || left == 0 {
				p.Errorf("a list before it was complete: %v, %d left", said, left)
			}
			p.to.settle()
			p.wants(0, "CDS a1 c1")
		}},
		{"RES-2 lists go on holding what later types may need", Form{State: true}, func(p *mover) {
			p.sub(cds, "*", "n")
			p.connect(0)
			p.connect(1)
			p.says(cds, "+a@1")
			p.saysOn(1, cds, "+n@1")
			p.lists()
			p.move(cds, "*", "n")
			p.to.connect(1)
			p.to.says(cds, "+c@1")
			p.to.saysOn(1, cds, "-n")
			p.to.settle()
			never := func(string, bool) bool { return false }
			p.c.Update(Change{TypeURL: eds, Subscribe: names([]string{"e"})})
			Arrange([]*Client{p.c}, never)
			p.expect(p.lists(), "CDS a1 c1 n1")
			p.wants(0, "CDS c1")
		}},
		{"RES-3 there is no word for it", Form{State: true}, func(p *mover) {
			p.sub(eds, "gone", "never")
			p.connect(0)
			p.says(eds, "+gone@1", "-never")
			p.lists()
			p.move(eds, "gone", "never")
			p.to.says(eds, "-gone", "-never")
			p.wants(1)
			if typeURL, name, found := p.c.Stranded(); typeURL != eds || name != "gone" || !found {
				p.Errorf("stranded: %s %q %t", typeURL, name, found)
			}
			p.unsub(eds, "gone")
			if _, name, found := p.c.Stranded(); found {
				p.Errorf("stranded with %q", name)
			}
			p.wants(0)
		}},
		{"RES-3 members that went without a word", Form{State: true}, func(p *mover) {
			p.sub(eds, "*")
			p.connect(0)
			p.says(eds, "+a@1", "+b@1")
			p.lists()
			p.says(eds, "-b")
			p.lists()
			p.move(eds, "*")
			p.to.says(eds, "+a@1")
			p.to.settle()
			p.wants(1)
			if _, name, found := p.c.Stranded(); name != "*" || !found {
				p.Errorf("stranded: %q %t", name, found)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newMover(t, tt.form)
			tt.run(p)
			p.c.Leave()
			p.check()
			p.to.check()
		})
	}
}

// What a client holds of a variant is removed under its constraints, in the new scope too.
func TestMove_DYN1_Variants(t *testing.T) {
	p := newMover(t, Form{})
	p.c.Update(Change{TypeURL: eds, Subscribe: locators([]string{"a{env=prod}", "b{env=prod}"})})
	p.connect(0)
	p.sends(eds, "+a[env=prod]@1", "+b[env=prod]@1")
	p.take(1 << 20)
	d := p.c.Depart(eds, locators([]string{"a{env=prod}", "b{env=prod}"}))
	if !d.Holds(locators([]string{"a{env=prod}"})[0].Spelling) || d.Holds("b") {
		t.Error("what was sent is not held, or what was not is")
	}
	there := p.to.join()
	there.c.Update(Change{TypeURL: eds, Moved: []*Departed{d}})
	p.to.connect(0)
	p.to.sends(eds, "+a[env=prod,!x]@1", "-b")
	batches, _, err := there.c.Collect(never, 1<<20, 8)
	if err != nil {
		t.Fatal(err)
	}
	resources, removed := 0, 0
	for _, b := range batches {
		resources, removed = resources+b.Body.Resources(), removed+b.Body.Removed()
	}
	if resources != 1 || removed < 2 {
		t.Errorf("%d resources and %d removed, want another variant of one, and the removal of both that were sent", resources, removed)
	}
	there.leave()
	p.c.Leave()
	p.check()
}

// Two scopes with equal names and versions are never called the same.
func TestScope_ACK4_ACK5(t *testing.T) {
	versions := make(map[string]string)
	for _, scope := range []string{"", "a", "b"} {
		b := newBedOf(t, Limits{}, Source{Quiet: quiet, FullState: map[string]bool{cds: true}, Scope: scope})
		c := b.joinAs(Form{State: true})
		c.sub(cds, "*")
		b.connect(0)
		b.says(cds, "+n@1")
		b.settle()
		c.lists()
		for label, v := range map[string]string{
			"version": StateVersion([]*Client{c.c}, cds), "digest": TakeSnapshot([]*Client{c.c}, cds).Digest,
		} {
			if before, twice := versions[v]; twice && before != scope {
				t.Errorf("ACK-4: the %s of scope %q is that of %q", label, scope, before)
			}
			versions[v] = scope
		}
		if s := TakeSnapshot([]*Client{c.c}, cds); s.Scoped != (scope != "") {
			t.Errorf("ACK-4: the digest says of what scope it is: %t, of scope %q", s.Scoped, scope)
		}
		b.says(cds, "-n")
		c.lists()
		if !TakeSnapshot([]*Client{c.c}, cds).Scoped {
			t.Errorf("ACK-4: nothing is not the same in scope %q", scope)
		}
		if v := StateVersion([]*Client{c.c}, cds); v != EmptyVersion() {
			t.Errorf("the empty list of scope %q is called %q", scope, v)
		}
		c.leave()
	}
}

// BenchmarkMove moves clients that have everything to another scope, half of which is the
// same, and tells what each takes meanwhile and afterwards.
func BenchmarkMove(b *testing.B) {
	const clients, members = 1000, 1000
	for _, kind := range []string{"of a collection", "by name"} {
		b.Run(fmt.Sprintf("%d clients of %d resources %s", clients, members, kind), func(b *testing.B) {
			typeURL, subs := rds, names([]string{"*"})
			if kind == "by name" {
				subs = names(many("", "m", 0, members, ""))
			}
			var during, after int64
			for b.Loop() {
				b.StopTimer()
				from := newBed(b, Limits{})
				to := &bed{TB: b, cache: from.cache, seen: from.seen}
				to.store = from.cache.Open(Source{Quiet: quiet, Absent: quiet})
				peers := make([]*peer, clients)
				fill := func(on *bed, version string) {
					on.store.Restart(wire.StreamID{}, 0)
					said := slices.Concat(many("+", "m", 0, members/2, "@1"), many("+", "m", members/2, members, version))
					if err := on.store.Apply(wire.StreamID{}, response(typeURL, said...), time.Now()); err != nil {
						b.Fatal(err)
					}
					on.store.Settle(time.Now().Add(2 * quiet))
				}
				for i := range peers {
					peers[i] = from.join()
					peers[i].c.Update(Change{TypeURL: typeURL, Subscribe: subs})
					if i == 0 {
						fill(from, "@1")
					}
					peers[i].take(1 << 30)
				}
				first := to.join()
				first.c.Update(Change{TypeURL: typeURL, Subscribe: subs})
				fill(to, "@2")
				before := heap()
				b.StartTimer()
				for i, p := range peers {
					there := to.join()
					there.c.Update(Change{TypeURL: typeURL, Moved: []*Departed{p.c.Depart(typeURL, subs)}})
					p.c.Leave()
					peers[i] = there
				}
				b.StopTimer()
				during = (heap() - before) / clients
				b.StartTimer()
				for _, p := range peers {
					Arrange([]*Client{p.c}, func(_ string, given bool) bool { return given })
					if got := p.take(1 << 30); got != members/2 {
						b.Fatalf("%d resources, want %d", got, members/2)
					}
				}
				b.StopTimer()
				after = (heap() - before) / clients
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*clients), "ns/client")
			b.ReportMetric(float64(during), "B/client-during")
			b.ReportMetric(float64(after), "B/client-after")
		})
	}
}
