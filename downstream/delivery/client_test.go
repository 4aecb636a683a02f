package delivery

import (
	"fmt"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

func TestSubscriptions(t *testing.T) {
	t.Run("SUB-1 * has what the server chose, names beside it", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(eds, "*", "n")
		b.connect(1)
		b.says(eds, "+a@1")
		b.saysOn(1, eds, "+n@1")
		b.expect(c.collect(), "EDS +n@1", "EDS +a@1")
	})
	t.Run("SUB-1 where * and a name overlap the name wins, and the resource goes once", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(eds, "*", "n")
		b.connect(1)
		b.says(eds, "+n@1", "+a@1")
		b.saysOn(1, eds, "+n@1")
		b.expect(c.collect(), "EDS +n@1", "EDS +a@1")
	})
	t.Run("SUB-1 a type without resources is answered, once", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(lds, "*")
		b.expect(c.collect())
		b.says(lds)
		c.woken()
		b.expect(c.collect(), "LDS")
		b.expect(c.collect())
		b.says(lds)
		b.expect(c.collect())
	})
	t.Run("SUB-5 WARM-1 what is known is sent at once, also if it was sent before", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c, late := b.join(), b.join()
		c.sub(eds, "*")
		b.connect(0)
		b.says(eds, "+a@1")
		b.expect(c.collect(), "EDS +a@1")
		c.sub(eds, "a")
		b.expect(b.connect(1), "EDS +a")
		b.saysOn(1, eds, "+a@1")
		b.expect(c.collect(), "EDS +a@1")
		late.sub(eds, "a")
		b.expect(late.collect(), "EDS +a@1")
		if b.seen.hits != 1 || b.seen.misses != 2 {
			t.Fatalf("%d hits, %d misses", b.seen.hits, b.seen.misses)
		}
	})
	t.Run("SUB-6 WARM-1 subscribing again sends it again, from the cache", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(eds, "a", "gone")
		b.says(eds, "+a@1", "-gone")
		b.expect(c.collect(), "EDS +a@1 -gone")
		b.expect(c.collect())
		c.sub(eds, "a", "gone")
		b.expect(c.collect(), "EDS +a@1 -gone")
		b.expect(b.demand(0))
		b.store.Session().Lost(streamOf(0))
		c.sub(eds, "a")
		b.expect(c.collect(), "EDS +a@1")
	})
	t.Run("SUB-6 subscribing to * and to a glob again sends everything again", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "*", globG)
		b.connect(1)
		b.says(cds, "+a@1")
		b.saysOn(1, cds, "+"+nameG1+"@1")
		want := []string{"CDS +" + nameG1 + "@1", "CDS +a@1"}
		b.expect(c.collect(), want...)
		c.sub(cds, "*", globG)
		b.expect(c.collect(), want...)
		b.expect(c.collect())
	})
	t.Run("SUB-7 unsubscribing from what never was subscribed is ignored", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.unsub(cds, "never", "*", globG)
		if n := c.c.Watches(cds); n != 0 {
			t.Fatalf("%d subscriptions", n)
		}
		c.sub(cds, "a", "*")
		c.unsub(cds, "never", "*", "a", "a")
		if n := c.c.Watches(cds); n != 0 {
			t.Fatalf("%d subscriptions", n)
		}
		b.expect(c.collect())
	})
	t.Run("SUB-8 a pure unsubscribe needs no response", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(eds, "a", "b")
		b.says(eds, "+a@1", "+b@1")
		c.collect()
		c.unsub(eds, "a")
		b.expect(c.collect())
		b.says(eds, "+a@2", "+b@2")
		b.expect(c.collect(), "EDS +b@2")
	})
	t.Run("SUB-8 with * it is answered with the resource if the wildcard holds it, else as removed", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(eds, "*", "in", "out")
		b.connect(1)
		b.says(eds, "+in@star")
		b.saysOn(1, eds, "+in@named", "+out@named")
		b.settle()
		b.expect(c.collect(), "EDS +in@named +out@named")
		c.unsub(eds, "in", "out")
		b.expect(c.collect(), "EDS +in@star -out")
		b.expect(c.collect())
	})
	t.Run("SUB-8 a member that comes while the answer waits is the answer", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(eds, "*", "a")
		b.connect(1)
		b.saysOn(1, eds, "+a@1")
		c.collect()
		c.unsub(eds, "a")
		b.expect(c.collect())
		b.says(eds, "+a@1")
		b.expect(c.collect(), "EDS +a@1")
		b.expect(c.collect())
	})
	t.Run("SUB-8 an answer is not owed any more when its collection ends", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, globG, nameG1, "keep")
		b.says(cds, "+"+nameG1+"@1", "+keep@1")
		c.collect()
		c.sub(cds, nameG1)
		c.unsub(cds, nameG1)
		c.unsub(cds, globG)
		b.expect(c.collect())
		if n := len(c.c.find(cds).answers); n != 0 {
			t.Fatalf("%d answers are owed by nobody", n)
		}
	})
	t.Run("SUB-11 leaving ends everything, and only the own", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c, other := b.join(), b.join()
		for _, p := range []*peer{c, other} {
			p.sub(cds, "*", "a", globG)
		}
		b.connect(0)
		b.connect(1)
		c.leave()
		b.says(cds, "+x@1")
		b.saysOn(1, cds, "+a@1")
		if c.rang() || !other.rang() {
			t.Fatal("the wrong one was woken")
		}
		other.leave()
		if b.store.Clients() != 0 || b.cache.Unwatched() != 3 {
			t.Fatalf("%d clients, %d unwatched", b.store.Clients(), b.cache.Unwatched())
		}
	})
}

func TestResume(t *testing.T) {
	t.Run("RES-11 skips what the client has, sends what differs, removes what is known not to exist", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		first := b.join()
		first.sub(eds, "same", "other", "gone", "later")
		b.connect(0)
		b.says(eds, "+same@1", "+other@2", "-gone")
		c := b.join()
		c.resume(eds, []string{"same@1", "other@1", "gone@1", "later@1", "stranger@1"}, "same", "other", "gone", "later")
		b.expect(c.collect(), "EDS +other@2 -gone")
		b.says(eds, "+later@1")
		b.expect(c.collect())
		b.says(eds, "+same@2", "+later@2")
		b.expect(c.collect(), "EDS +same@2 +later@2")
	})
	t.Run("RES-11 the same for * and for globs", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		first := b.join()
		first.sub(cds, "*", globQ)
		b.connect(0)
		b.connect(1)
		b.says(cds, "+same@1", "+other@2", "+new@1")
		b.saysOn(1, cds, "+"+nameQ+"@1")
		b.settle()
		c := b.join()
		const gone = "xdstp://x/envoy.config.cluster.v3.Cluster/q/gone?"
		c.resume(cds, []string{"same@1", "other@1", "gone@1", nameQ2 + "@1", gone + "a=1&b=2@1"}, "*", globQ2)
		b.expectAll(c.collect(), "CDS +other@2 +new@1", "CDS -"+gone+"b=2&a=1", "CDS -gone")
	})
	t.Run("RES-15 listed when the stream began, subscribed explicitly later: sent though unchanged", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.resume(eds, []string{"a@1", "b@1"}, "*")
		b.connect(0)
		b.says(eds, "+a@1", "+b@1")
		b.expect(c.collect())
		c.sub(eds, "a")
		b.connect(1)
		b.saysOn(1, eds, "+a@1")
		b.expect(c.collect(), "EDS +a@1")
	})
	t.Run("RES-15 subscribed again before it was answered", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.resume(eds, []string{"a@1"}, "a")
		c.sub(eds, "a")
		b.connect(0)
		b.says(eds, "+a@1")
		b.expect(c.collect(), "EDS +a@1")
	})
	t.Run("RES-15 also where * is repeated before it was answered", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.resume(eds, []string{"a@1", "gone@1"}, "*")
		c.sub(eds, "*")
		b.connect(0)
		b.says(eds, "+a@1")
		b.expect(c.collect(), "EDS +a@1")
		b.settle()
		b.expect(c.collect(), "EDS -gone")
	})
	t.Run("RES-11 NAME-3 what is held under one spelling is compared under another", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.resume(cds, []string{nameQ + "@1"}, nameQ2)
		b.connect(0)
		b.says(cds, "+"+nameQ+"@1")
		b.expect(c.collect())
		b.says(cds, "-"+nameQ)
		b.expect(c.collect(), "CDS -"+nameQ2)
	})
}

// What a client once needed is not kept for as long as its stream lives.
func TestClientMemory(t *testing.T) {
	t.Run("RES-11 versions that were compared are let go", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.resume(lds, many("", "m", 0, 100, "@1"), "*")
		c.resume(eds, many("", "m", 0, 100, "@1"), many("", "m", 0, 100, "")...)
		c.resume(cds, []string{nameG1 + "@1"}, globG)
		b.connect(0)
		b.says(lds, many("+", "m", 0, 100, "@1")...)
		b.says(eds, many("+", "m", 0, 100, "@1")...)
		b.says(cds, "+"+nameG1+"@1")
		b.expect(c.collect())
		if v := c.c.find(lds).subs.wildcard.held; v != nil {
			t.Errorf("the wildcard keeps a map of %d", v.left)
		}
		if v := c.c.find(eds).held.versions; v != nil {
			t.Errorf("the names keep a map of %d", len(v))
		}
		if v := c.c.find(cds).subs.globs.all[globG].held; v != nil {
			t.Errorf("the glob keeps a map of %d", v.left)
		}
	})
	// A client that does not read, and subscribes and unsubscribes for ever.
	t.Run("OPS-3 subscriptions that ended unread do not pile up", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(eds, "keep", "a")
		b.says(eds, "+keep@1", "+a@1")
		for range 10_000 {
			c.c.Update(&Change{TypeURL: eds, Unsubscribe: names([]string{"a"})})
			c.c.Update(&Change{TypeURL: eds, Subscribe: names([]string{"a"})})
		}
		b.check()
		if n := len(c.c.find(eds).changed.names); n > 100 {
			t.Fatalf("%d dirty subscriptions of two", n)
		}
		b.expect(c.collect(), "EDS +keep@1 +a@1")
	})
	t.Run("OPS-5 a request costs its length, not its square", func(t *testing.T) {
		// Many spellings of many names and globs, and versions for all of them: with
		// a walk over all names or globs for each this takes minutes.
		const n = 20_000
		b := newBed(t, cache.Limits{})
		c := b.join()
		ch := Change{TypeURL: cds}
		for i := range n {
			name := fmt.Sprintf("xdstp://x/envoy.config.cluster.v3.Cluster/%d/m?b=1&a=1", i)
			glob := fmt.Sprintf("xdstp://x/envoy.config.cluster.v3.Cluster/g%d/*?b=1&a=1", i)
			ch.Subscribe = append(ch.Subscribe, nameOf(name), nameOf(glob))
			ch.Versions.Add(keyOf(name), "1")
			ch.Versions.Add(fmt.Sprintf("xdstp://x/envoy.config.cluster.v3.Cluster/g%d/m?a=1&b=1", i), "1")
		}
		c.c.Update(&ch)
		c.collect()
		c.c.Update(&Change{TypeURL: cds, Unsubscribe: ch.Subscribe})
		b.check()
		if len(c.c.types) != 0 {
			t.Fatal("something is left")
		}
	})
}

// A collection is found in the cache if anything of it is there, or if it is known that there is no more (SUB-10).
func TestLookupsOfCollections_SUB10(t *testing.T) {
	for _, tc := range []struct {
		name   string
		says   []string
		settle bool
		hits   int
	}{
		{"nothing is known", nil, false, 0},
		{"it is empty", []string{}, true, 1},
		{"there is something", []string{"+a@1"}, false, 1},
		{"all is there", []string{"+a@1"}, true, 1},
	} {
		b, _ := newBed(t, cache.Limits{}).subscribed(eds, "*")
		b.seen.hits, b.seen.misses = 0, 0
		if tc.says != nil {
			b.says(eds, tc.says...)
		}
		if tc.settle {
			b.settle()
		}
		b.join().sub(eds, "*")
		if b.seen.hits != tc.hits || b.seen.misses != 1-tc.hits {
			t.Errorf("%s: %d hits, %d misses", tc.name, b.seen.hits, b.seen.misses)
		}
	}
}
