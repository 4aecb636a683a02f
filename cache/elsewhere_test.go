package cache

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// What "*" has of a glob of another store is known whatever becomes of it, and is answered
// when the glob ends there.
func TestElsewhere_LOC3_SUB8_GLOB5(t *testing.T) {
	b := newBed(t, Limits{})
	p := b.join()
	p.sub(cds, "*")
	b.connect(0)
	b.says(cds, "+a@1", "+"+nameG1+"@1", "+"+nameQ+"@1")
	b.settle()
	b.expect(p.collect(), "CDS +a@1 +"+nameG1+"@1 +"+nameQ+"@1")
	glob := names([]string{globG, globG, "a"})
	brought := func(want ...string) {
		t.Helper()
		var got []string
		for _, n := range p.c.Brought(cds, glob) {
			got = append(got, n.Key)
		}
		b.expectAll(got, want...)
		b.check()
	}
	brought(nameG1)
	for _, step := range []struct {
		says string
		want []string
	}{
		{"+" + nameG2 + "@1", []string{nameG1, nameG2}},
		{"-" + nameG1, []string{nameG2}},
		{"+" + nameG1 + "@2", []string{nameG1, nameG2}},
		{"+" + nameG1 + "@3", []string{nameG1, nameG2}},
		{"-" + nameQ, []string{nameG1, nameG2}},
		{"-" + nameG2, []string{nameG1}},
	} {
		b.says(cds, step.says)
		p.collect()
		brought(step.want...)
	}
	p.c.Update(Change{TypeURL: cds, Elsewhere: glob})
	b.says(cds, "+"+nameG1+"@4", "+"+nameG2+"@4")
	b.expect(p.collect())
	p.c.Update(Change{TypeURL: cds, Answer: glob[:1]})
	got := strings.Join(p.collect(), "")
	if !strings.Contains(got, "+"+nameG1+"@4") || !strings.Contains(got, "+"+nameG2+"@4") || strings.Contains(got, " -") {
		t.Errorf("told %q when the glob ended elsewhere", got)
	}
	b.expect(p.collect())
}

// A rule may give an opaque name a scope of its own, and so another store than that of "*":
// what "*" has under this name is not told until the name has ended there.
func TestElsewhere_AGG1_SUB8_OpaqueName(t *testing.T) {
	b := newBed(t, Limits{})
	p := b.join()
	p.sub(cds, "*")
	b.connect(0)
	b.says(cds, "+a@1", "+b@1")
	b.settle()
	b.expect(p.collect(), "CDS +a@1 +b@1")
	p.c.Update(Change{TypeURL: cds, Elsewhere: names([]string{"a"})})
	b.says(cds, "+a@2", "+b@2")
	b.expect(p.collect(), "CDS +b@2")
	b.says(cds, "-a")
	b.expect(p.collect())
	b.says(cds, "+a@3")
	b.expect(p.collect())
	p.c.Update(Change{TypeURL: cds, Answer: names([]string{"a"})})
	b.expect(p.collect(), "CDS +a@3")
	b.says(cds, "-a")
	b.expect(p.collect(), "CDS -a")
	b.check()
}

// A glob with so many members that others have their turn in between.
func TestElsewhere_SUB8_ManyMembers(t *testing.T) {
	const members = 2*atOnce + 1
	p := newStarred(t, members, members)
	p.c.Update(Change{TypeURL: cds, Elsewhere: names([]string{globG})})
	p.c.Update(Change{TypeURL: cds, Answer: names([]string{globG})})
	p.check()
	if got := p.take(1 << 30); got != members {
		t.Errorf("SUB-8: %d members answered, want %d", got, members)
	}
}

// BenchmarkElsewhere is a client that follows "*", and for which a glob begins and ends in
// the store of an authority. Others wait meanwhile: it must not cost what "*" holds.
func BenchmarkElsewhere(b *testing.B) {
	for _, of := range []struct{ members, under int }{{100, 10}, {100_000, 10}, {100_000, 100_000}} {
		b.Run(fmt.Sprintf("members=%d, under the glob %d", of.members, of.under), func(b *testing.B) {
			p := newStarred(b, of.members, of.under)
			b.ReportAllocs()
			for b.Loop() {
				p.moves(b, of.under)
			}
		})
	}
}

// newStarred is a client that has all members of "*", of which some belong to a glob.
func newStarred(tb testing.TB, members, under int) *peer {
	tb.Helper()
	b := newBed(tb, Limits{})
	p := b.join()
	p.c.Update(Change{TypeURL: cds, Subscribe: names([]string{"*"})})
	b.store.Restart(wire.StreamID{}, 0)
	words := many("+", globG[:len(globG)-1], 0, under, "@1")
	words = append(words, many("+", "m", 0, members-under, "@1")...)
	if err := b.store.Apply(wire.StreamID{}, response(cds, words...), time.Now()); err != nil {
		tb.Fatal(err)
	}
	p.take(1 << 30)
	return p
}

// moves has the glob begin elsewhere and end again, as its stream does.
func (p *peer) moves(tb testing.TB, under int) {
	tb.Helper()
	glob := []Name{{globG, globG}}
	if got := len(p.c.Brought(cds, glob)); got != under {
		tb.Fatalf("%d members brought, want %d", got, under)
	}
	p.c.Update(Change{TypeURL: cds, Elsewhere: glob})
	p.c.Update(Change{TypeURL: cds, Answer: glob})
}
