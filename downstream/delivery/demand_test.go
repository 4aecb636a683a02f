package delivery

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

func TestDemand(t *testing.T) {
	t.Run("SUB-10 the union of the clients' subscriptions, each name once", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		one, other := b.join(), b.join()
		one.sub(cds, "a", "b")
		other.sub(cds, "b", "c")
		b.expect(b.connect(0), "CDS +a +b +c")
		other.sub(cds, "a", "d")
		b.expect(b.demand(0), "CDS +d")
		b.expect(b.demand(0))
		one.unsub(cds, "a", "b")
		b.expect(b.demand(0))
	})
	t.Run("SUB-1 a whole type, and names beside it", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.sub(eds, "*", "a")
		b.expect(b.connect(0), "EDS +*")
		b.expect(b.connect(1), "EDS +a")
	})
	t.Run("SUB-10 the session is told once that there is demand", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.sub(cds, "a", "b")
		select {
		case <-b.store.Session().DemandChanged():
		default:
			t.Fatal("the session was not told")
		}
		b.connect(0)
		c.sub(cds, "a")
		select {
		case <-b.store.Session().DemandChanged():
			t.Fatal("there is nothing to tell")
		default:
		}
	})
	t.Run("UPS-3 types with something to subscribe to, by stream", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		unasked := func(want ...string) {
			t.Helper()
			got := b.store.Session().Unasked(streamOf(0))
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("unasked %v, want %v", got, want)
			}
		}
		unasked()
		c.sub(cds, "a")
		c.sub(eds, "a")
		unasked(cds, eds)
		b.connect(0)
		unasked()
		c.sub(cds, "b")
		unasked(cds)
		b.demand(0)
		b.says(cds, "-a")
		c.unsub(cds, "a") // it is absent, and so let go at once
		unasked()
		b.expect(b.demand(0), "CDS -a")
	})
	t.Run("UPS-2 who waits, and that somebody came", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		told := func(want bool) {
			t.Helper()
			select {
			case <-b.store.Session().DemandChanged():
				if !want {
					t.Error("told of nothing")
				}
			default:
				if want {
					t.Error("not told")
				}
			}
		}
		awaited := func(want bool) {
			t.Helper()
			if got := b.store.Session().Awaited(); got != want {
				t.Errorf("awaited: %t", got)
			}
		}
		awaited(false)
		c := b.join()
		told(true)
		awaited(true)
		joined := b.join()
		told(false)
		reader := Read(b.store, func() {})
		c.sub(cds, "a")
		b.connect(0)
		c.leave()
		joined.leave()
		reader.Leave()
		told(true) // of the name, too
		awaited(false)
		b.store.Pin(cds, cache.Name{Spelling: "a", Key: "a"})
		told(true)
		awaited(true)
		b.store.Unpin(cds, cache.Name{Spelling: "a", Key: "a"})
		awaited(false)
		Read(b.store, func() {}).Leave()
		told(true)
		awaited(false)
	})
	t.Run("RES-12 a new stream presents what is held and subscribes to everything", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.sub(cds, "a", "b", globG)
		c.sub(lds, "*")
		b.connect(0)
		b.says(cds, "+a@1", "-b", "+"+nameG1+"@7")
		b.says(lds, "+l@3")
		b.store.Session().Lost(streamOf(0))
		c.sub(cds, "c")
		b.expectAll(b.connect(0),
			"CDS +a +b +c +"+globG+" =a@1 ="+nameG1+"@7",
			"LDS +* =l@3")
		b.expect(b.demand(0))
	})
	t.Run("RES-12 after a resume what the server does not mention stays", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(lds, "*")
		b.says(lds, "+a@1", "+b@1", "+c@1")
		c.collect()
		b.store.Session().Lost(streamOf(0))
		b.connect(0)
		b.says(lds, "+b@2", "-c")
		b.settle()
		b.expect(c.collect(), "LDS +b@2 -c")
	})
	t.Run("OPS-1 Lost keeps serving, new clients included", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		old := b.join()
		old.sub(lds, "*")
		old.sub(cds, "a", "gone", "unknown")
		b.connect(0)
		b.says(lds, "+l@1")
		b.says(cds, "+a@1", "-gone")
		old.collect()
		b.store.Session().Lost(streamOf(0))
		b.check()
		b.expect(old.collect())
		late := b.join()
		late.sub(lds, "*")
		late.sub(cds, "a", "gone", "unknown")
		b.expect(late.collect(), "CDS +a@1 -gone", "LDS +l@1")
	})
	t.Run("OPS-1 a collection known to be empty is told so while the server is gone", func(t *testing.T) {
		b, _ := newBed(t, cache.Limits{}).subscribed(lds, "*")
		b.says(lds)
		b.settle()
		b.store.Session().Lost(streamOf(0))
		late := b.join()
		late.sub(lds, "*")
		b.expect(late.collect(), "LDS")
	})
}

// A collection is unsubscribed and wanted again while responses to the first
// subscription may be on their way.
func TestBeginAnew(t *testing.T) {
	gone := func(t *testing.T, name string) *bed {
		t.Helper()
		b, c := newBed(t, cache.Limits{}).subscribed(cds, name)
		b.says(cds, "+"+nameG1+"@1")
		c.leave()
		b.letGo()
		b.expect(b.demand(0), "CDS -"+name)
		return b
	}
	// relay                   server
	// -*  ───────────────╮
	//                    ╎    sends x@1, y@1 (to the first subscription)
	// +*  ───────────────╎─╮  removes y: says so, or not, depending on what it read
	//                    ╰─╎─ reads -*
	//                      ╰─ reads +*: sends x@1 only
	// x@1, y@1 arrive, and would be taken for the answer: y would stay for ever.
	for _, name := range []string{"*", globG} {
		t.Run("SUB-12 wanted again right after its unsubscribe: the stream begins anew "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := gone(t, name)
				c := b.join()
				c.sub(cds, name)
				c.sub(lds, "*")
				b.expect(b.demand(0), "begin anew")
				b.expect(b.demand(0), "begin anew") // it was not taken
				b.store.Session().Lost(streamOf(0))
				b.expectAll(b.connect(0), "CDS +"+name, "LDS +*")
				b.expect(b.demand(0))
			})
		})
	}
	t.Run("LIM-2 what others want is asked for meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := gone(t, globG)
			c, other := b.join(), b.join()
			c.sub(cds, globG)
			other.sub(cds, "x")
			other.sub(lds, "*")
			subs, ok := b.store.Session().TakeDemand(streamOf(0))
			var said []string
			for _, sub := range subs {
				said = append(said, renderSub(sub))
			}
			if b.expect(said, "CDS +x", "LDS +*"); ok || !b.store.Session().Shared() {
				t.Error("the stream need not begin anew, or nobody shares it")
			}
			b.check()
			if got := b.store.Session().Unasked(streamOf(0)); len(got) > 0 {
				t.Errorf("UPS-3: %v are to be asked for at once, and nothing can be", got)
			}
			other.unsub(cds, "x")
			other.leave()
			<-time.After(quiet + time.Nanosecond)
			b.expect(b.demand(0), "CDS +"+globG)
			if b.store.Session().Shared() {
				t.Error("a client shares its store with itself")
			}
		})
	})
	t.Run("SUB-12 wanted again after the quiet time: nothing can be on its way", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := gone(t, globG)
			<-time.After(quiet + time.Nanosecond)
			c := b.join()
			c.sub(cds, globG)
			b.expect(b.demand(0), "CDS +"+globG)
		})
	})
	t.Run("SUB-12 wanted again after the quiet time, and members came before anybody asked: the stream begins anew", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := gone(t, globG)
			<-time.After(quiet + time.Nanosecond)
			c := b.join()
			c.sub(cds, globG)
			b.says(cds, "+"+nameG1+"@1") // to the first subscription, however late
			b.expect(b.demand(0), "begin anew")
		})
	})
	t.Run("SUB-12 a member that a client names is no such member", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := gone(t, globG)
			<-time.After(quiet + time.Nanosecond)
			named, c := b.join(), b.join()
			named.sub(cds, nameG1)
			b.expect(b.demand(0), "CDS +"+nameG1)
			b.says(cds, "+"+nameG1+"@1")
			c.sub(cds, globG)
			b.expect(b.demand(0), "CDS +"+globG)
		})
	})
	t.Run("SUB-14 the wildcard is the first request of its type, however late it is wanted again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := gone(t, "*")
			<-time.After(quiet + time.Nanosecond)
			c := b.join()
			c.sub(cds, "*")
			b.expect(b.demand(0), "begin anew")
			b.store.Session().Lost(streamOf(0))
			b.expect(b.connect(0), "CDS +*")
		})
	})
	t.Run("SUB-12 wanted and let go again before anybody asks", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := gone(t, "*")
			c := b.join()
			c.sub(cds, "*")
			c.leave()
			b.letGo()
			b.expect(b.demand(0))
		})
	})
	t.Run("SUB-12 names need no such care, since each is answered", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "a")
		c.leave()
		b.letGo()
		b.expect(b.demand(0), "CDS -a")
		c = b.join()
		c.sub(cds, "a")
		b.expect(b.demand(0), "CDS +a")
		b.says(cds, "+a@1") // to the first subscription
		b.says(cds, "-a")   // to the second
		c.collect()
		if got := b.infoOf(cds, "a").State; got != "absent" {
			t.Fatalf("a is %s", got)
		}
	})
	// The removal of the member that was let go by name cannot be told from its
	// absence in the answer for the glob.
	t.Run("SUB-12 a glob whose member was let go by name a moment ago", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := newBed(t, cache.Limits{}).subscribed(cds, nameG1)
			b.says(cds, "+"+nameG1+"@1")
			c.leave()
			b.letGo()
			b.expect(b.demand(0), "CDS -"+nameG1)
			c = b.join()
			c.sub(cds, globG)
			b.expect(b.demand(0), "begin anew")
		})
	})
	t.Run("OPS-5 farewells do not pile up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			b.connect(0)
			for range 5 {
				c := b.join()
				c.sub(cds, many("xdstp://x/envoy.config.cluster.v3.Cluster/", time.Now().Format("150405"), 0, 1000, "/*")...)
				b.demand(0)
				c.leave()
				b.letGo()
				b.demand(0)
				<-time.After(2 * quiet)
			}
			if n := b.upkeep(cds, cache.ByName).Unsubscribed; n > 1024+1000 {
				t.Fatalf("%d farewells", n)
			}
		})
	})
}

// infoOf is what the admin port shows of one name.
func (b *bed) infoOf(typeURL, name string) cache.Info {
	b.Helper()
	infos := b.store.Resources(typeURL, keyOf(name))
	if len(infos) != 1 {
		b.Fatalf("%d entries of %q", len(infos), name)
	}
	return infos[0]
}

// What is asked for first is likely to be answered first: so types are asked for in
// the order in which clients are sent them.
func TestDemand_ADS1_TypesInOrder(t *testing.T) {
	b := newBed(t, cache.Limits{})
	c := b.join()
	for _, typeURL := range []string{rds, lds, eds, cds} {
		c.sub(typeURL, "x")
	}
	var asked []string
	for _, sub := range b.store.Session().Restart(streamOf(0), 1<<20) {
		asked = append(asked, short[sub.TypeURL])
	}
	if want := []string{"CDS", "EDS", "LDS", "RDS"}; !slices.Equal(asked, want) {
		t.Errorf("asked for in the order %v, want %v", asked, want)
	}
}
