package cache

import (
	"strings"
	"testing"
)

// stores are three stores of one cache: "*" begins in the first, a glob or a name that it
// brings too in the second, and "*" may move to the third.
type stores struct {
	*peer // where "*" is

	first, second, third *bed
	place                *peer // in the second
}

func newStores(t *testing.T) *stores {
	t.Helper()
	first := newBed(t, Limits{})
	another := func(scope string) *bed {
		b := &bed{TB: t, cache: first.cache, seen: first.seen}
		b.store = first.cache.Open(Source{Quiet: quiet, Absent: quiet, FullState: map[string]bool{cds: true}, Scope: scope})
		return b
	}
	s := &stores{peer: first.join(), first: first, second: another("second"), third: another("third")}
	s.place = s.second.join()
	return s
}

// says has a control plane say something, and nothing else.
func (s *stores) says(b *bed, words ...string) {
	s.Helper()
	b.connect(0)
	b.says(cds, words...)
	b.settle()
}

// sends holds what the client is told by a place.
func (s *stores) sends(p *peer, want ...string) {
	s.Helper()
	if said := strings.Join(p.collect(), " "); said != strings.Join(want, " ") {
		s.Fatalf("told %q, want %q", said, want)
	}
}

// follow has the client follow "*", and begin and end are what its stream does when
// something begins or ends beside that.
func (s *stores) follow(words ...string) {
	s.Helper()
	s.sub(cds, Wildcard)
	s.says(s.first, words...)
	s.collect()
}

func (s *stores) begin(name string) {
	s.Helper()
	s.place.sub(cds, name)
	if brought := s.c.Brought(cds, names([]string{name})); len(brought) > 0 {
		s.place.c.Update(Change{TypeURL: cds, Answer: brought})
	}
	s.elsewhere(name)
	s.second.check()
}

func (s *stores) elsewhere(name string) {
	s.Helper()
	s.c.Update(Change{TypeURL: cds, Elsewhere: names([]string{name})})
	s.check()
}

func (s *stores) end(name string) {
	s.Helper()
	gone, kept := s.place.c.Update(Change{TypeURL: cds, Unsubscribe: names([]string{name})})
	s.c.Update(Change{TypeURL: cds, Answer: gone, Kept: kept})
	s.check()
}

// move moves "*" to the third store.
func (s *stores) move() {
	s.Helper()
	d := s.c.Depart(cds, names([]string{Wildcard}))
	s.check()
	s.peer = s.third.join()
	s.c.Update(Change{TypeURL: cds, Moved: []*Departed{d}})
	s.check()
}

// As long as "*" has not come to what it has under a glob that another store served
// meanwhile, nobody knows whether the client still holds what it held when "*" began.
func TestElsewhere_SUB8_LOC3_EndsBeforeStarAnswers(t *testing.T) {
	const x, y, told = "+" + nameG1 + "@1:x", "+" + nameG1 + "@1:y", "CDS +" + nameG1 + "@1"
	served := func(s *stores, glob string) {
		s.begin(glob)
		s.says(s.second, y)
		s.sends(s.place, told)
	}
	for _, tt := range []struct {
		name string
		run  func(s *stores, glob string) (star *bed)
	}{
		{"it begins, \"*\" moves, it ends", func(s *stores, glob string) *bed {
			s.follow(x)
			served(s, glob)
			s.move()
			s.elsewhere(glob)
			s.end(glob)
			return s.third
		}},
		{"\"*\" moves, it begins and ends", func(s *stores, glob string) *bed {
			s.follow(x)
			s.move()
			served(s, glob)
			s.end(glob)
			return s.third
		}},
		{"it begins, and ends while \"*\" moves", func(s *stores, glob string) *bed {
			s.follow(x)
			served(s, glob)
			s.move()
			return s.third
		}},
		{"it begins and ends, and \"*\" moves on", func(s *stores, glob string) *bed {
			s.follow(x)
			s.move()
			served(s, glob)
			s.end(glob)
			s.move()
			return s.third
		}},
		{"it begins and ends, of a client that has come back", func(s *stores, glob string) *bed {
			s.resume(cds, []string{nameG1 + "@1"}, Wildcard)
			served(s, glob)
			s.end(glob)
			return s.first
		}},
	} {
		for _, name := range []string{globG, nameG1} {
			t.Run(tt.name+": "+name, func(t *testing.T) {
				s := newStores(t)
				star := tt.run(s, name)
				s.says(star, x)
				s.sends(s.peer, told)
				s.sends(s.peer)
			})
		}
	}
}

// What "*" brought, and has not taken back yet, is the glob's to take back that begins in
// another store: "*" says nothing of it any more.
func TestElsewhere_GLOB5_LOC3_BeginsBeforeStarRemoves(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  func(s *stores)
	}{
		{"gone, and the client was not told", func(s *stores) {
			s.follow("+" + nameG1 + "@1")
			s.first.says(cds, "-"+nameG1)
		}},
		{"of another scope, and nobody has answered in this one", func(s *stores) {
			s.follow("+" + nameG1 + "@1")
			s.move()
		}},
		{"of another scope, and not in this one", func(s *stores) {
			s.follow("+" + nameG1 + "@1")
			s.move()
			s.third.connect(0)
			s.third.says(cds, "+a@1")
			s.collect()
		}},
		{"presented by a client that has come back", func(s *stores) {
			s.resume(cds, []string{nameG1 + "@1"}, Wildcard)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStores(t)
			tt.run(s)
			s.begin(globG)
			s.says(s.second, "+"+nameG2+"@1")
			s.sends(s.place, "CDS +"+nameG2+"@1 -"+nameG1)
			for _, b := range []*bed{s.first, s.third} {
				b.connect(0)
				b.settle()
			}
			s.sends(s.peer)
		})
	}
}

// A glob that has moved, and parts from "*" by that, sends what "*" brought even if it is
// the same, and takes back what is not there.
func TestElsewhere_GLOB5_SUB6_PartsByMoving(t *testing.T) {
	s := newStores(t)
	s.sub(cds, globG)
	s.connect(0)
	s.says(s.first, "+"+nameG1+"@1")
	s.sends(s.peer, "CDS +"+nameG1+"@1")
	s.place.c.Update(Change{TypeURL: cds, Moved: []*Departed{s.c.Depart(cds, names([]string{globG}))}})
	s.place.c.Update(Change{TypeURL: cds, Answer: names([]string{nameG1, nameG2})})
	s.second.check()
	s.says(s.second, "+"+nameG1+"@1")
	s.sends(s.place, "CDS +"+nameG1+"@1 -"+nameG2)
}
