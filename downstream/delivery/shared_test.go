package delivery

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// newSharedBed is a bed whose control plane has the wildcard and the names of virtual
// hosts on one stream.
func newSharedBed(tb testing.TB) *bed {
	tb.Helper()
	return newBedOf(tb, cache.Limits{}, cache.Source{Quiet: quiet, Shared: map[string]bool{vhds: true}})
}

// Two tables of a type share one stream: what somebody names is no wildcard member.
func TestSharedStream(t *testing.T) {
	t.Run("SUB-14 an empty request for virtual hosts costs no second stream", func(t *testing.T) {
		b := newSharedBed(t)
		all, one := b.join(), b.join()
		all.sub(vhds, "*")
		one.sub(vhds, "a")
		if got := b.store.Session().Streams(); !slices.Equal(got, []wire.StreamID{{}}) {
			t.Fatalf("streams %v", got)
		}
		b.expect(b.connect(0), "VHDS +*", "VHDS +a")
		b.says(vhds, "+rc/a@1|a", "+own@1")
		b.expect(all.collect(), "VHDS +own@1")
		b.expect(one.collect(), "VHDS +rc/a@1")
		if b.seen.unsolicited != 0 {
			t.Errorf("%d unsolicited", b.seen.unsolicited)
		}
	})
	t.Run("SUB-14 the wildcard comes first: after names the stream begins anew", func(t *testing.T) {
		b := newSharedBed(t)
		one := b.join()
		one.sub(vhds, "a")
		b.expect(b.connect(0), "VHDS +a")
		b.says(vhds, "+a@1")
		b.expect(one.collect(), "VHDS +a@1")
		all := b.join()
		all.sub(vhds, "*")
		b.expect(b.demand(0), "begin anew")
		b.store.Session().Lost(streamOf(0))
		b.expect(b.connect(0), "VHDS +*", "VHDS +a =a@1")
		b.says(vhds, "+a@1", "+own@1")
		b.expect(all.collect(), "VHDS +own@1")
		b.expect(one.collect())
		b.expect(b.demand(0))
	})
	t.Run("SUB-14 both wanted before the stream speaks of the type: everything first", func(t *testing.T) {
		b := newSharedBed(t)
		b.connect(0)
		one, all := b.join(), b.join()
		one.sub(vhds, "a")
		all.sub(vhds, "*")
		b.expect(b.demand(0), "VHDS +*", "VHDS +a")
	})
	t.Run("SUB-12 a member that somebody names too stays one", func(t *testing.T) {
		b := newSharedBed(t)
		all, one := b.join(), b.join()
		all.sub(vhds, "*")
		b.connect(0)
		b.says(vhds, "+a@1")
		b.expect(all.collect(), "VHDS +a@1")
		one.sub(vhds, "a")
		b.expect(b.demand(0), "VHDS +a")
		b.says(vhds, "+a@1")
		b.expect(one.collect(), "VHDS +a@1")
		b.expect(all.collect())
		b.says(vhds, "+a@2")
		b.expect(one.collect(), "VHDS +a@2")
		b.expect(all.collect(), "VHDS +a@2")
		b.says(vhds, "-a")
		b.expect(one.collect(), "VHDS -a")
		b.expect(all.collect(), "VHDS -a")
	})
	t.Run("SUB-12 the answer to a name that was let go a moment ago is no member", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newSharedBed(t)
			all, one := b.join(), b.join()
			all.sub(vhds, "*")
			one.sub(vhds, "a", "alias")
			b.connect(0)
			one.leave()
			b.letGo()
			b.expect(b.demand(0), "VHDS -a -alias")
			b.says(vhds, "+a@1", "+real@1|alias", "+own@1")
			b.expect(all.collect(), "VHDS +own@1")
			<-time.After(quiet + 1)
			b.says(vhds, "+a@2")
			b.expect(all.collect(), "VHDS +a@2")
		})
	})
	t.Run("RES-2 an answer to a name does not say that there is nothing else", func(t *testing.T) {
		b := newSharedBed(t)
		all, one := b.join(), b.join()
		all.resume(vhds, []string{"x@1"}, "*")
		one.sub(vhds, "a")
		b.connect(0)
		b.says(vhds, "+a@1")
		b.settle()
		b.expect(all.collect())
		b.says(vhds, "-a")
		b.settle()
		b.expect(all.collect())
		b.says(vhds)
		b.settle()
		b.expect(all.collect(), "VHDS -x")
	})
	t.Run("NAME-9 the empty string is a name like others", func(t *testing.T) {
		b := newSharedBed(t)
		all, one := b.join(), b.join()
		all.sub(vhds, "*")
		b.connect(0)
		b.says(vhds, "+@1", "+a@1")
		b.expect(all.collect(), "VHDS +@1 +a@1")
		one.sub(vhds, "", "b")
		b.demand(0)
		b.says(vhds, "+@2", "+b@1")
		b.expect(all.collect(), "VHDS +@2")
		b.expect(one.collect(), "VHDS +@2 +b@1")
		b.says(vhds, "-")
		b.expect(all.collect(), "VHDS -")
		b.expect(one.collect(), "VHDS -")
	})
	t.Run("ERR-1 an error goes to who asked", func(t *testing.T) {
		b := newSharedBed(t)
		all, one := b.join(), b.join()
		all.sub(vhds, "*")
		one.sub(vhds, "a")
		b.connect(0)
		b.fails(vhds, "a", notFound)
		b.expect(all.collect())
		b.expect(one.collect(), "VHDS -a !a")
	})
}

// Where the server refuses a second stream the first carries both.
func TestOneStream(t *testing.T) {
	refused := func(t *testing.T, source cache.Source, first, second string) (b *bed, c *peer) {
		t.Helper()
		b = newBedOf(t, cache.Limits{}, source)
		c = b.join()
		c.sub(cds, first)
		b.connect(0)
		other := b.join()
		other.sub(cds, second)
		b.expect(b.connect(1), "CDS +"+second)
		b.store.Session().Lost(streamOf(1))
		b.store.Session().OneStream(streamOf(0), true)
		b.check()
		if b.store.Session().StreamWanted(streamOf(1)) {
			t.Fatal("the second stream is wanted")
		}
		return b, other
	}
	delta := cache.Source{Quiet: quiet}
	t.Run("SUB-14 names behind the wildcard", func(t *testing.T) {
		b, one := refused(t, delta, "*", "a")
		b.expect(b.demand(0), "CDS +a")
		b.says(cds, "+a@1", "+b@1")
		b.expect(one.collect(), "CDS +a@1")
	})
	t.Run("SUB-14 the wildcard, for which the stream begins anew", func(t *testing.T) {
		b, all := refused(t, delta, "a", "*")
		b.expect(b.demand(0), "begin anew")
		b.store.Session().Lost(streamOf(0))
		b.expect(b.connect(0), "CDS +*", "CDS +a")
		b.says(cds, "+a@1", "+b@1")
		b.expect(all.collect(), "CDS +b@1")
	})
	t.Run("SUB-14 another server may take two again", func(t *testing.T) {
		b, _ := refused(t, delta, "*", "a")
		b.store.Session().Lost(streamOf(0))
		b.store.Session().OneStream(streamOf(0), false)
		b.expect(b.connect(0), "CDS +*")
		b.expect(b.connect(1), "CDS +a")
	})
	t.Run("SUB-14 RES-8 a list on a shared stream", func(t *testing.T) {
		b, one := refused(t, cache.Source{Quiet: quiet, State: true, FullState: map[string]bool{cds: true}}, "*", "a")
		b.expect(b.demand(0), "CDS +a")
		all := b.join()
		all.sub(cds, "*")
		lists := func(words ...string) {
			t.Helper()
			r := &wire.Response{State: true, TypeURL: cds, Resources: response(cds, words...).Resources}
			if err := b.store.Session().Apply(streamOf(0), r, time.Now()); err != nil {
				t.Fatal(err)
			}
			b.check()
		}
		lists("+a@1", "+b@1", "+c@1")
		one.collect()
		all.collect()
		lists("+a@1", "+c@1")
		b.expect(one.collect())
		b.expect(all.collect(), "CDS -b")
		lists("+c@1")
		b.expect(one.collect(), "CDS -a")
		b.expect(all.collect())
	})
}
