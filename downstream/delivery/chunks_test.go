package delivery

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// begin has a client subscribe, and tells what it is sent first.
func (b *bed) begin(form Form, spellings ...string) (*peer, []string) {
	b.Helper()
	p := b.joinAs(form)
	p.sub(cds, spellings...)
	said := p.collect()
	b.check()
	return p, said
}

// parts collects in parts of a size, and tells how many there were, of how many members.
func (p *peer) parts(size int) (parts, members int) {
	p.Helper()
	for {
		batches, more, err := collectFrom(p.c, never, size, 8)
		if err != nil {
			p.Fatal(err)
		}
		for _, b := range batches {
			if n := b.Body.Size(); n == 0 || n > size || b.Last == 0 {
				p.Errorf("a part of %d bytes, of %d, up to change %d", n, size, b.Last)
			}
			members += b.Body.Resources()
		}
		p.check()
		if parts += len(batches); !more {
			return parts, members
		}
	}
}

// chunked is the number of members in runs of "*".
func (b *bed) chunked() int {
	return b.upkeep(cds, cache.WholeType).Chunked
}

// Whoever begins shares what was chunked for the one before, and is sent what there is
// now: whatever changes, also without another content, is not in a run any more.
func TestChunksRES1_change(t *testing.T) {
	for _, tc := range []struct {
		name  string
		says  []string
		left  int // in runs
		plain []string
		timed []string // nil: the same
	}{
		{name: "nothing", left: 3, plain: []string{"CDS +a@1 +b@1 +c@1"}},
		{name: "a change", says: []string{"+b@2"}, plain: []string{"CDS +a@1 +c@1 +b@2"}},
		{name: "an addition", says: []string{"+d@1"}, plain: []string{"CDS +a@1 +b@1 +c@1 +d@1"}},
		{name: "a removal", says: []string{"-b"}, plain: []string{"CDS +a@1 +c@1"}},
		{name: "the same again", says: []string{"+b@1"}, plain: []string{"CDS +a@1 +b@1 +c@1"}},
		{
			name: "TTL-1 a ttl for the same", says: []string{"+b@1~1h"},
			plain: []string{"CDS +b@1 +a@1 +c@1"}, timed: []string{"CDS +b@1~1h0m0s +a@1 +c@1"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, cache.Limits{})
				first := b.join()
				first.sub(cds, "*")
				b.connect(0)
				b.says(cds, "+a@1", "+b@1", "+c@1")
				first.collect()
				b.begin(Form{}, "*")
				if n := b.chunked(); n != 3 {
					t.Fatalf("%d members chunked", n)
				}
				if len(tc.says) > 0 {
					b.says(cds, tc.says...)
				}
				if n := b.chunked(); n != tc.left {
					t.Errorf("%d members chunked after %s, want %d", n, tc.says, tc.left)
				}
				_, plain := b.begin(Form{}, "*")
				b.expectAll(plain, tc.plain...)
				if tc.timed == nil {
					tc.timed = tc.plain
				}
				_, able := b.begin(timed, "*")
				b.expectAll(able, tc.timed...)
			})
		})
	}
}

// Clients of whom more is known than that they begin are sent what they lack, whatever was
// chunked.
func TestChunks_whoIsNoBeginner(t *testing.T) {
	for _, tc := range []struct {
		name string
		join func(b *bed) *peer
		want []string
	}{
		{"RES-11 it holds some already", func(b *bed) *peer {
			p := b.join()
			p.resume(cds, []string{"b@1"}, "*")
			return p
		}, []string{"CDS +a@1 +c@1"}},
		{"GLOB-5 it names one too", func(b *bed) *peer {
			p := b.join()
			p.sub(cds, "*", "b")
			b.demand(0)
			b.connect(1)
			b.saysOn(1, cds, "+b@1")
			return p
		}, []string{"CDS +b@1", "CDS +a@1 +c@1"}},
		{"SUB-6 it subscribes again", func(b *bed) *peer {
			p, _ := b.begin(Form{}, "*")
			p.sub(cds, "*")
			return p
		}, []string{"CDS +a@1 +b@1 +c@1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			b.begin(Form{}, "*")
			b.connect(0)
			b.says(cds, "+a@1", "+b@1", "+c@1")
			b.begin(Form{}, "*")
			b.expect(tc.join(b).collect(), tc.want...)
		})
	}
}

// Responses of another size share what fits, and what was chunked for all sizes does not
// grow without bounds. It goes with the last who follows.
func TestChunksRES9_OPS3_sizes(t *testing.T) {
	const members = 100
	b := newBed(t, cache.Limits{})
	first, _ := b.begin(Form{}, "*")
	b.connect(0)
	b.says(cds, many("+", "m", 0, members, "@1")...)
	one := int(b.store.FindTable(cds, cache.WholeType).Collection(cache.Wildcard).First().Size())
	var all []*peer
	for n := members; n > 0; n-- {
		p := b.join()
		p.sub(cds, "*")
		if parts, got := p.parts(n * one); got != members || parts != (members+n-1)/n {
			t.Errorf("%d members in %d parts, with %d in one", got, parts, n)
		}
		if got := b.chunked(); got > 3*members {
			t.Fatalf("%d members chunked", got)
		}
		all = append(all, p)
	}
	for _, p := range append(all, first) {
		p.c.Leave()
	}
	if got := b.chunked(); got != 0 {
		t.Errorf("%d members are chunked for nobody", got)
	}
	b.check()
}

// Who begins costs no more memory with many members than with few.
func TestAllocationsOfBeginners(t *testing.T) {
	c := newCrowd(t, 1, 10_000)
	got := testing.AllocsPerRun(100, func() {
		p := c.join()
		p.c.Update(&Change{TypeURL: cds, Subscribe: names([]string{"*"})})
		if n := p.take(1 << 30); n != 10_000 {
			t.Fatalf("sent %d", n)
		}
		p.c.Leave()
	})
	if got > 25 {
		t.Errorf("%v allocations", got)
	}
}

// Members of different sizes, and some that are not sent alike to all, leave gaps at the
// ends of responses: what is behind a gap is shared again.
func TestChunksRES9_mixedSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const members = 300
		b := newBed(t, cache.Limits{})
		b.begin(Form{}, "*")
		b.connect(0)
		var words []string
		for i := range members {
			ttl := ""
			if i%100 == 50 {
				ttl = "~1h"
			}
			words = append(words, fmt.Sprintf("+m%05d@%s%s", i, strings.Repeat("v", 1+i*37%200), ttl))
		}
		b.says(cds, words...)
		for range 2 {
			p := b.join()
			p.sub(cds, "*")
			if _, got := p.parts(4 << 10); got != members {
				t.Errorf("%d members sent", got)
			}
			if got := b.chunked(); got < members-10 || got > members {
				t.Errorf("%d members chunked", got)
			}
		}
	})
}

// A client that is sent all clusters waits for their endpoints, and has forgotten those that it said it holds (WARM-3).
func TestChunksAfresh_WARM3(t *testing.T) {
	for url, want := range map[string][]string{cds: {"EDS +e@1"}, lds: nil} {
		b := newBed(t, cache.Limits{})
		b.join().sub(url, "*")
		b.connect(0)
		b.says(url, "+a@1", "+b@1")
		c := b.join()
		c.sub(url, "*")
		c.presents(eds, "e@1", "e")
		b.expect(c.collect(), short[url]+" +a@1 +b@1")
		b.demand(0)
		b.says(eds, "+e@1")
		b.expect(c.collect(), want...)
	}
}

// A Collect takes as many members as it looks at and no more, in however many responses, none of which is empty (OPS-3).
func TestChunksRES9_OPS3_lookedAt(t *testing.T) {
	const members = cache.MaxLooked + 5000
	b := newBed(t, cache.Limits{})
	b.join().sub(cds, "*")
	b.connect(0)
	if err := b.store.Session().Apply(streamOf(0), response(cds, many("+", "m", 0, members, "@1")...), time.Now()); err != nil {
		t.Fatal(err)
	}
	each := int(b.store.FindTable(cds, cache.WholeType).Find("m00000").Size())
	for _, perResponse := range []int{members, 20_000, cache.MaxLooked / 2} {
		c := b.join()
		c.c.Update(&Change{TypeURL: cds, Subscribe: names([]string{"*"})})
		batches, more, err := collectFrom(c.c, never, perResponse*each, 8)
		if err != nil {
			t.Fatal(err)
		}
		sent := 0
		for _, batch := range batches {
			if n := batch.Body.Resources(); n == 0 || n > perResponse {
				t.Errorf("a response has %d members, of at most %d", n, perResponse)
			}
			sent += batch.Body.Resources()
		}
		if sent != cache.MaxLooked || !more {
			t.Errorf("%d members are sent in one Collect, want %d; more: %t", sent, cache.MaxLooked, more)
		}
	}
}
