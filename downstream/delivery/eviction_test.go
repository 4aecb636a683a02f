package delivery

import (
	"fmt"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

func TestEviction(t *testing.T) {
	// warm gives a bed with name a held and watched by nobody.
	warm := func(t *testing.T, limits cache.Limits) *bed {
		t.Helper()
		b := newBed(t, limits)
		c := b.join()
		c.sub(cds, "a")
		b.connect(0)
		b.says(cds, "+a@1")
		c.leave()
		return b
	}
	t.Run("SUB-11 the last client's leaving tears nothing down", func(t *testing.T) {
		b := warm(t, cache.Limits{})
		b.expect(b.demand(0))
		b.says(cds, "+a@2")
		c := b.join()
		c.sub(cds, "a")
		b.expect(c.collect(), "CDS +a@2")
		b.expect(b.demand(0))
	})
	t.Run("SUB-11 exactly one unsubscribe, and the entry is dropped when it is taken", func(t *testing.T) {
		b := warm(t, cache.Limits{})
		b.letGo()
		b.letGo()
		if b.cache.Resources() != 1 {
			t.Fatal("dropped before the unsubscribe was taken")
		}
		b.expect(b.demand(0), "CDS -a")
		if b.cache.Resources() != 0 || b.cache.Bytes() != 0 || b.store.Session().Wanted() != 0 {
			t.Fatalf("left: %d resources, %d bytes", b.cache.Resources(), b.cache.Bytes())
		}
		b.expect(b.demand(0))
	})
	// eviction            client          session
	// marks a
	//                     subscribes a
	//                                     takes demand
	t.Run("SUB-11 interest before the unsubscribe is taken cancels the eviction", func(t *testing.T) {
		b := warm(t, cache.Limits{})
		b.letGo()
		c := b.join()
		c.sub(cds, "a")
		b.expect(c.collect(), "CDS +a@1")
		b.expect(b.demand(0))
		if b.leaving() {
			t.Fatal("it counts as leaving")
		}
	})
	// eviction            client          session
	// marks a
	//                                     takes demand: -a
	//                     subscribes a
	//                                     takes demand: +a
	t.Run("SUB-11 asking again for a dropped name always subscribes", func(t *testing.T) {
		b := warm(t, cache.Limits{})
		b.letGo()
		b.expect(b.demand(0), "CDS -a")
		c := b.join()
		c.sub(cds, "a")
		b.expect(c.collect())
		b.expect(b.demand(0), "CDS +a")
		b.says(cds, "+a@1")
		b.expect(c.collect(), "CDS +a@1")
	})
	// eviction            client A        client B        session
	// marks a
	//                     subscribes a
	//                     leaves
	// marks a again
	//                                     subscribes a
	//                                                     takes demand
	t.Run("SUB-11 marked, cancelled, marked, cancelled: nothing is said", func(t *testing.T) {
		b := warm(t, cache.Limits{})
		for range 2 {
			b.letGo()
			c := b.join()
			c.sub(cds, "a")
			defer c.leave()
			b.expect(c.collect(), "CDS +a@1")
			if b.leaving() {
				t.Fatal("it counts as leaving")
			}
			c.unsub(cds, "a")
		}
		b.expect(b.demand(0))
	})
	t.Run("RES-17 names known absent are not kept", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "a", "b", "c")
		b.says(cds, "-a", "-b", "+c@1")
		b.fails(cds, "b", notFound)
		b.expect(b.demand(0))
		c.leave()
		b.expect(b.demand(0), "CDS -a -b")
		b.says(cds, "-c")
		b.expect(b.demand(0), "CDS -c")
		if got := b.seen.evicted[cache.ReasonAbsent]; got != 3 {
			t.Fatalf("%d evicted as absent", got)
		}
	})
	t.Run("RES-17 an absent name that is wanted again at once is known", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "a")
		b.says(cds, "-a")
		c.leave()
		late := b.join()
		late.sub(cds, "a")
		b.expect(late.collect(), "CDS -a")
		b.expect(b.demand(0))
	})
	t.Run("GLOB-6 when a glob is let go, names still wanted are subscribed first", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		all, one := b.join(), b.join()
		all.sub(cds, globG)
		b.connect(0)
		b.says(cds, "+"+nameG1+"@1", "+"+nameG2+"@1")
		b.settle()
		one.sub(cds, nameG1)
		b.expect(b.demand(0))
		all.leave()
		b.letGo()
		b.expect(b.demand(0), "CDS +"+nameG1, "CDS -"+globG)
		if b.cache.Resources() != 1 {
			t.Fatalf("%d resources", b.cache.Resources())
		}
		b.expect(one.collect(), "CDS +"+nameG1+"@1")
	})
	t.Run("GLOB-6 also where the stream begins anew instead", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		all, one := b.join(), b.join()
		all.sub(cds, globG)
		b.connect(0)
		b.says(cds, "+"+nameG1+"@1", "+"+nameG2+"@1")
		b.settle()
		one.sub(cds, nameG1)
		all.leave()
		b.letGo()
		b.store.Session().Lost(streamOf(0))
		b.expect(b.connect(0), "CDS +"+nameG1+" ="+nameG1+"@1")
	})
	t.Run("OPS-1 what is held stays while the server is gone, what is not is dropped at once", func(t *testing.T) {
		b := warm(t, cache.Limits{})
		b.store.Session().Lost(streamOf(0))
		c := b.join()
		for i := range 100 {
			c.sub(cds, fmt.Sprint("made up ", i))
			c.sub(cds, fmt.Sprintf("xdstp://x/envoy.config.cluster.v3.Cluster/%d/*", i))
		}
		c.leave()
		b.letGo()
		if got := b.store.Session().Wanted(); got != 1 {
			t.Fatalf("%d interests", got)
		}
		if u := b.upkeep(cds, cache.ByName); u.Entries != 1 || u.Pending != 1 {
			t.Fatalf("%d entries, %d pending", u.Entries, u.Pending)
		}
		c = b.join()
		c.sub(cds, "a")
		b.expect(c.collect(), "CDS +a@1")
		b.expect(b.connect(0), "CDS +a =a@1")
	})
	// A server that never answers must not let its collections pile up either.
	t.Run("OPS-5 collections that come and go unanswered leave nothing", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		b.connect(0)
		for i := range 100 {
			c := b.join()
			c.sub(cds, fmt.Sprintf("xdstp://x/envoy.config.cluster.v3.Cluster/%d/*", i))
			b.demand(0)
			c.leave()
			b.letGo()
			b.demand(0)
		}
		if u := b.upkeep(cds, cache.ByName); u != (cache.Upkeep{Unsubscribed: u.Unsubscribed}) {
			t.Fatalf("kept: %+v", u)
		}
	})
	t.Run("SUB-11 a closed store leaves nothing behind", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.sub(cds, "a", globG)
		c.sub(lds, "*")
		b.connect(0)
		b.says(cds, "+a@1", "+"+nameG1+"@1")
		b.says(lds, "+l@1")
		c.leave()
		b.store.Close()
		if b.cache.Resources() != 0 || b.cache.Bytes() != 0 || b.cache.Unwatched() != 0 || b.leaving() {
			t.Fatalf("left: %d resources, %d bytes, %d unwatched, leaving %t",
				b.cache.Resources(), b.cache.Bytes(), b.cache.Unwatched(), b.leaving())
		}
	})
}
