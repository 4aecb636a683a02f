package delivery

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// presents subscribes with what the client says it holds, to the letter and in this
// order: names may come twice.
func (p *peer) presents(typeURL, held string, spellings ...string) {
	p.Helper()
	ch := Change{TypeURL: typeURL, Subscribe: names(spellings)}
	for word := range strings.FieldsSeq(held) {
		name, v, _ := strings.Cut(word, "@")
		ch.Versions.Add(name, v)
	}
	p.c.Update(&ch)
	p.check()
}

// What a client presents that is here is compared at once, and nothing of it is kept; of
// what differs it is told, whatever else it presents.
func TestRES11Presented(t *testing.T) {
	ofG := func(words string) string {
		return strings.NewReplacer("a@", nameG1+"@", "b@", nameG2+"@").Replace(words)
	}
	for _, tc := range []struct {
		name string
		held string // of a@1 and b@2
		kept int    // claims that wait until they are compared
		want []string
	}{
		{"RES-11 all of it", "a@1 b@2", 0, nil},
		{"RES-11 all of it in another order", "b@2 a@1", 0, nil},
		{"RES-11 another version", "a@1 b@1", 2, []string{"CDS +b@2"}},
		{"RES-11 the versions of each other", "a@2 b@1", 2, []string{"CDS +a@1 +b@2"}},
		{"RES-11 a part of it", "b@2", 1, []string{"CDS +a@1"}},
		{"RES-11 more than that", "a@1 b@2 c@3", 3, []string{"CDS -c"}},
		{"RES-11 something else", "a@1 c@2", 2, []string{"CDS +b@2 -c"}},
		{"RES-11 one twice, and not the other", "a@1" + " a@1", 1, []string{"CDS +b@2"}},
		{"RES-11 the last one counts, which is old", "a@1 b@2 b@1", 2, []string{"CDS +b@2"}},
		{"RES-11 the last one counts, which is current", "b@1 a@1 b@2", 2, nil},
		{"RES-15 without a version", "a@ b@2", 2, []string{"CDS +a@1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			first := b.join()
			first.sub(cds, "*", globG)
			b.connect(0)
			b.connect(1)
			b.says(cds, "+a@1", "+b@2")
			b.saysOn(1, cds, "+"+nameG1+"@1", "+"+nameG2+"@2")
			b.settle()
			first.collect()

			c := b.join()
			c.presents(cds, tc.held, "*")
			if w := c.c.find(cds); tc.kept == 0 && !w.subs.wildcard.held.none() || tc.kept > 0 && w.subs.wildcard.held.left != tc.kept {
				t.Errorf("%v is kept of what is presented, want %d", w.subs.wildcard.held, tc.kept)
			}
			b.expect(c.collect(), tc.want...)
			if c.c.find(cds).subs.wildcard.held != nil {
				t.Error("versions are kept that were compared")
			}
			b.says(cds, "+b@3", "-a")
			b.expect(c.collect(), "CDS +b@3 -a")

			named := b.join() // the same with a glob in place of "*"
			if strings.Contains(tc.held, "c@") {
				return
			}
			named.presents(cds, ofG(tc.held), globG)
			var want []string
			for _, line := range tc.want {
				want = append(want, strings.NewReplacer("+a@", "+"+nameG1+"@", "+b@", "+"+nameG2+"@").Replace(line))
			}
			b.expect(named.collect(), want...)
			b.saysOn(1, cds, "+"+nameG2+"@3", "-"+nameG1)
			b.expect(named.collect(), "CDS +"+nameG2+"@3 -"+nameG1)
		})
	}
}

// Of names that are answered nothing is kept.
func TestRES11PresentedNames(t *testing.T) {
	for _, tc := range []struct {
		name string
		held string // of a@1 and b@2; nobody knows c
		kept int
		want []string
	}{
		{"RES-11 all of it", "a@1 b@2 other@7", 0, nil},
		{"RES-11 another version", "a@1 b@1", 1, []string{"EDS +b@2"}},
		{"RES-11 the last one counts, which is old", "b@2 a@1 b@1", 1, []string{"EDS +b@2"}},
		{"RES-11 the last one counts, which is current", "b@1 a@1 b@2", 0, nil},
		{"RES-11 what is not answered yet", "a@1 b@2 c@1", 1, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			first := b.join()
			first.sub(eds, "a", "b")
			b.connect(0)
			b.says(eds, "+a@1", "+b@2")
			first.collect()
			c := b.join()
			c.presents(eds, tc.held, "a", "b", "c")
			if w := c.c.find(eds); len(w.held.versions) != tc.kept || len(w.changed.names) != len(tc.want) {
				t.Errorf("%v is kept of what is presented, %d names are due", w.held.versions, len(w.changed.names))
			}
			b.expect(c.collect(), tc.want...)
			b.says(eds, "+a@3", "-b", "+c@2")
			b.expectAll(strings.Fields(strings.Join(c.collect(), " ")), "EDS", "+a@3", "-b", "+c@2")
		})
	}
	t.Run("RES-11 NAME-4 under another spelling it is another one", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		b.join().sub(cds, nameQ)
		b.connect(0)
		b.says(cds, "+"+nameQ+"@1")
		c := b.join()
		c.presents(cds, nameQ+"@1", nameQ2, nameQ)
		b.expect(c.collect(), "CDS +"+nameQ+"@1")
	})
	t.Run("TTL-5 what came in between and was not kept does not wait for it", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(eds, "a")
		b.once(eds, "a@1")
		b.says(eds, "+a@2")
		var held wire.Versions
		held.Add("a", "2")
		w := c.c.find(eds)
		p := presentation{typeSub: w, subs: &w.subs, versions: &held, begun: true}
		p.take()
		b.expect(c.collect())
		b.check()
	})
	t.Run("RES-15 asked for again it is sent", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		b.join().sub(eds, "a")
		b.connect(0)
		b.says(eds, "+a@1")
		c := b.join()
		c.presents(eds, "a@1", "a")
		b.expect(c.collect())
		c.sub(eds, "a")
		b.expect(c.collect(), "EDS +a@1")
	})
}

// The sum of the versions is not all that counts.
// A client that is told that a glob is empty drops its members, those that it names too. One that comes
// back in the version that the client presented is sent, though its name was not answered before.
func TestRES11PresentedOfEmptyGlob_GLOB4(t *testing.T) {
	b := newBed(t, cache.Limits{})
	c := b.join()
	c.resume(cds, []string{nameG1 + "@1"}, globG, nameG1)
	b.connect(0)
	b.says(cds, "-"+globG)
	b.settle()
	b.expect(c.collect(), "CDS -"+globG)
	b.says(cds, "+"+nameG1+"@1")
	b.expect(c.collect(), "CDS +"+nameG1+"@1")
}

func TestRES11PresentedWithCare(t *testing.T) {
	t.Run("ACK-4 a version that stood for something else is not taken for it", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		b.join().sub(lds, "*")
		b.connect(0)
		b.says(lds, "+a@1:x")
		b.says(lds, "+a@2:y")
		b.says(lds, "+a@1:z")
		for _, held := range []string{"a@1", "a@\x00"} { // whatever version is presented of it
			c := b.join()
			c.presents(lds, held, "*")
			b.expect(c.collect(), "LDS +a@1")
		}
	})
	t.Run("TTL-3 who can do ttl is told it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			b.join().sub(lds, "*")
			b.connect(0)
			b.says(lds, "+a@1~1m")
			able, plain := b.joinAs(timed), b.join()
			able.presents(lds, "a@1", "*")
			plain.presents(lds, "a@1", "*")
			b.expect(able.collect(), "LDS =a@1~1m0s")
			b.expect(plain.collect())
		})
	})
	t.Run("RES-11 who names something too", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		b.join().sub(cds, "*")
		b.connect(0)
		b.says(cds, "+a@1", "+b@1")
		c := b.join()
		c.presents(cds, "a@1 b@1", "*", "a")
		b.expect(c.collect())
		b.connect(1)
		b.saysOn(1, cds, "+a@2")
		b.expect(c.collect(), "CDS +a@2")
	})
	t.Run("RES-11 several globs, and each has what it has", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		b.join().sub(cds, globG, globQ)
		b.connect(0)
		b.says(cds, "+"+nameG1+"@1", "+"+nameG2+"@1", "+"+nameQ+"@1")
		c, other := b.join(), b.join()
		c.presents(cds, nameQ+"@1 "+nameG2+"@1 "+nameG1+"@1", globG, globQ)
		if w := c.c.find(cds); w.subs.globs.all[globG].Sent() == 0 || w.subs.globs.all[globQ].Sent() == 0 {
			t.Error("not compared at once")
		}
		b.expect(c.collect())
		other.presents(cds, nameQ+"@1 "+nameG2+"@1 "+nameG1+"@2", globG, globQ)
		b.expect(other.collect(), "CDS +"+nameG1+"@1")
	})
	t.Run("GLOB-4 an empty one beside it is told", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		b.join().sub(cds, globG, globQ)
		b.connect(0)
		b.says(cds, "+"+nameG1+"@1", "-"+globQ)
		c := b.join()
		c.presents(cds, nameG1+"@1", globG, globQ)
		b.expect(c.collect(), "CDS -"+globQ)
	})
	t.Run("RES-11 before a cold store has it, and in two parts", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.presents(lds, "a@1 b@1 c@1 d@1", "*")
		b.connect(0)
		b.says(lds, "+a@1", "+b@2")
		b.expect(c.collect(), "LDS +b@2")
		b.says(lds, "+c@1")
		b.expect(c.collect())
		b.settle()
		b.expect(c.collect(), "LDS -d")
	})
}

// What a client presents that has everything costs no memory, however much it is
// (RES-11).
func TestRES11PresentedAllocations(t *testing.T) {
	b := newBed(t, cache.Limits{})
	b.join().sub(lds, "*")
	b.connect(0)
	const n = 2000
	var words []string
	var few, many wire.Versions
	for i := range n {
		name := "listener-with-a-name-of-some-length-" + strconv.Itoa(i)
		words = append(words, "+"+name+"@1")
		many.Add(name, "1")
	}
	few.Add("one", "1")
	b.says(lds, words...)
	c := b.join()
	of := func(v wire.Versions) float64 {
		return testing.AllocsPerRun(50, func() {
			c.c.Update(&Change{TypeURL: lds, Subscribe: []cache.Name{{Spelling: cache.Wildcard, Key: cache.Wildcard}}, Versions: v})
			if f := c.c.find(lds).subs.wildcard; v.Len() == n && (f.Sent() == 0 || f.held != nil) {
				t.Fatal("not compared at once")
			}
			c.c.Update(&Change{TypeURL: lds, Unsubscribe: []cache.Name{{Spelling: cache.Wildcard, Key: cache.Wildcard}}})
		})
	}
	if of(many) > of(few) {
		t.Errorf("%.0f allocations for %d versions, %.0f for one that differs", of(many), n, of(few))
	}
}

// The sum of a large collection is worked out in several goes, and of one that changes
// all the time never.
func TestOPS3_sumsAreBounded(t *testing.T) {
	p := newPool(t, 2*cache.MaxLooked+10)
	c := p.store.FindTable(lbEndpoint, cache.ByName).Collection(poolGlob)
	for want := range 3 {
		looked := 0
		if _, complete := c.VersionSum(&looked); complete != (want == 2) {
			t.Fatalf("go %d is complete: %t", want, complete)
		}
	}
	if err := p.store.Check(); err != nil {
		t.Error(err)
	}
}

// BenchmarkReturn is a client that comes back with all that there is.
func BenchmarkReturn(b *testing.B) {
	bed := newBed(b, cache.Limits{})
	bed.join().sub(lds, "*")
	bed.connect(0)
	var words []string
	var current, other wire.Versions
	for i := range 1000 {
		name := "listener-" + strconv.Itoa(i)
		words = append(words, "+"+name+"@0123456789abcdef")
		current.Add(name, "0123456789abcdef")
		other.Add(name, "0123456789abcdef")
	}
	other.Add("one more", "1")
	bed.says(lds, words...)
	for name, versions := range map[string]wire.Versions{"current": current, "nearly": other} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c := Join(bed.store, func() {}, Form{})
				c.Update(&Change{TypeURL: lds, Subscribe: []cache.Name{{Spelling: cache.Wildcard, Key: cache.Wildcard}}, Versions: versions})
				if _, _, err := collectFrom(c, never, 1<<20, 8); err != nil {
					b.Fatal(err)
				}
				c.Leave()
			}
		})
	}
}

// A version that a client presents is enough, unless it takes ttls and the content has one: then it is told the
// ttl (TTL-1).
func TestRES11PresentedTTL_TTL1(t *testing.T) {
	for _, ttls := range []bool{false, true} {
		for content, needs := range map[string]bool{"@1": false, "@1~60s": ttls} {
			b, first := newBed(t, cache.Limits{}).subscribed(cds, "*")
			first.sub(eds, "a")
			b.demand(0)
			b.says(cds, "+a"+content)
			b.says(eds, "+a"+content)
			b.settle()
			c := b.joinAs(Form{TTL: ttls})
			c.presents(cds, "a@1", "*")
			c.presents(eds, "a@1", "a")
			if kept := !c.c.find(cds).subs.wildcard.held.none(); kept != needs {
				t.Errorf("takes ttls: %t, of %s: what it presents of all is kept: %t", ttls, content, kept)
			}
			if kept := len(c.c.find(eds).held.versions) > 0; kept != needs {
				t.Errorf("takes ttls: %t, of %s: what it presents of a name is kept: %t", ttls, content, kept)
			}
			if told := len(c.collect()) > 0; told != needs {
				t.Errorf("takes ttls: %t, of %s: it is told: %t", ttls, content, told)
			}
		}
	}
}

// To have no version is not to have what the server gave no version (RES-15).
func TestRES11PresentedNothing_RES15(t *testing.T) {
	b, first := newBed(t, cache.Limits{}).subscribed(eds, "a")
	b.says(eds, "+a@")
	first.collect()
	c := b.join()
	c.presents(eds, "a@", "a")
	if got := c.collect(); len(got) != 1 {
		t.Errorf("it is told %q", got)
	}
}
