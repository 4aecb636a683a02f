package delivery

import (
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

// ads gives a bed with a client that follows clusters and listeners as a whole
// and names endpoints "a", "b" and routes "r", and holds one of each.
func ads(t *testing.T) (*bed, *peer) {
	t.Helper()
	b := newBed(t, cache.Limits{})
	c := b.join()
	c.sub(rds, "r")
	c.sub(lds, "*")
	c.sub(eds, "a", "b")
	c.sub(cds, "*")
	b.connect(0)
	b.says(cds, "+a@1")
	b.says(eds, "+a@1", "-b")
	b.says(lds, "+l@1")
	b.says(rds, "+r@1")
	b.expect(c.collect(), "CDS +a@1", "EDS +a@1 -b", "LDS +l@1", "RDS +r@1")
	return b, c
}

func TestOrder(t *testing.T) {
	t.Run("ADS-1 what is pending together goes out make-before-break, removals of clusters and endpoints last", func(t *testing.T) {
		b, c := ads(t)
		b.says(rds, "-r")
		b.says(lds, "+m@1", "-l")
		b.says(eds, "+b@1", "-a")
		b.says(cds, "+b@1", "-a")
		b.expect(c.collect(), "CDS +b@1", "EDS +b@1", "LDS +m@1 -l")
		b.expect(c.collect(), "RDS -r") // when that was acknowledged
		b.expect(c.collect(), "CDS! -a", "EDS! -a")
	})
	t.Run("ADS-1 removals that wait for nothing go with the additions", func(t *testing.T) {
		b, c := ads(t)
		b.says(cds, "+b@1", "-a")
		b.expect(c.collect(), "CDS +b@1 -a")
		b.says(eds, "-a")
		b.expect(c.collect(), "EDS -a")
	})
	t.Run("ADS-6 filter chains go after listeners and before routes", func(t *testing.T) {
		const fcds = "type.googleapis.com/envoy.config.listener.v3.FilterChain"
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.sub(rds, "r")
		c.sub(fcds, "f", "g")
		c.sub(lds, "l")
		b.connect(0)
		b.says(rds, "+r@1")
		b.says(fcds, "+f@1")
		b.says(lds, "+l@1")
		b.expect(c.collect(), "LDS +l@1", " +f@1", "RDS +r@1")
		b.says(fcds, "+g@1")
		b.expect(c.collect(), " +g@1")
	})
	t.Run("ADS-1 other types come last", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.sub("other", "x")
		c.sub(rds, "r")
		b.connect(0)
		b.says("other", "+x@1")
		b.says(rds, "+r@1")
		b.expect(c.collect(), "RDS +r@1", " +x@1")
	})
	// server: r@2 (to b), -a       client: the route's ACK is outstanding
	t.Run("ADS-1 removals are held back while a later type is busy and pending", func(t *testing.T) {
		b, c := ads(t)
		c.busy[rds] = true
		b.says(rds, "+r@2")
		b.says(cds, "-a")
		b.says(eds, "-a")
		b.expect(c.collect())
		b.expect(c.collect())
		c.busy[rds] = false
		b.expect(c.collect(), "RDS +r@2")
		b.expect(c.collect(), "CDS! -a", "EDS! -a")
	})
	t.Run("ADS-4 removals are held back by a later type that is not acknowledged", func(t *testing.T) {
		b, c := ads(t)
		b.says(rds, "+r@2")
		b.expect(c.collect(), "RDS +r@2")
		c.busy[rds] = true
		b.says(cds, "-a")
		b.expect(c.collect())
		c.busy[rds] = false
		b.expect(c.collect(), "CDS -a")
	})
	t.Run("ADS-1 removals of a busy type wait for it, with nothing later pending", func(t *testing.T) {
		b, c := ads(t)
		c.busy[cds] = true
		b.says(cds, "-a")
		b.expect(c.collect())
		c.busy[cds] = false
		b.expect(c.collect(), "CDS -a")
	})
	t.Run("SUB-8 ADS-1 that * has not what a name had is a removal", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.sub(cds, "*", "named")
		c.sub(rds, "r")
		b.connect(0)
		b.connect(1)
		b.says(cds, "+a@1")
		b.saysOn(1, cds, "+named@1")
		b.says(rds, "+r@1")
		b.settle()
		c.collect()
		b.says(rds, "+r@2")
		c.unsub(cds, "named")
		b.expect(c.collect(), "RDS +r@2", "CDS! -named")
	})

	t.Run("ADS-2 a busy type does not block others", func(t *testing.T) {
		b, c := ads(t)
		c.busy[cds] = true
		c.busy[rds] = true
		b.says(cds, "+a@2")
		b.expect(c.collect())
		c.busy[lds] = true
		b.says(lds, "+l@2")
		b.expect(c.collect())
		b.says(eds, "+a@2")
		b.expect(c.collect(), "CDS +a@2", "EDS +a@2") // see the next one for CDS
		c.busy[lds] = false
		b.expect(c.collect(), "LDS +l@2")
	})
	t.Run("ADS-2 additions of an earlier busy type go before a later type", func(t *testing.T) {
		b, c := ads(t)
		c.busy[cds] = true
		b.says(cds, "+b@1")
		b.says(rds, "+r@2")
		b.expect(c.collect(), "CDS +b@1", "RDS +r@2")
	})
	t.Run("ADS-2 its removals do not", func(t *testing.T) {
		b, c := ads(t)
		c.busy[cds], c.busy[lds] = true, true
		b.says(cds, "+b@1", "-a")
		b.says(lds, "+m@1", "-l")
		b.says(rds, "+r@2")
		b.expect(c.collect(), "CDS +b@1", "LDS +m@1", "RDS +r@2")
		c.busy[cds], c.busy[lds] = false, false
		b.expect(c.collect(), "LDS -l")
		b.expect(c.collect(), "CDS -a")
	})
	// Routes are busy and pending, so that the endpoints' removal is held back:
	// it is no reason to force clusters upon a client that has not acknowledged.
	t.Run("ADS-2 what is held back forces nothing", func(t *testing.T) {
		b, c := ads(t)
		c.busy[cds], c.busy[rds] = true, true
		b.says(rds, "+r@2")
		b.says(eds, "-a")
		b.says(cds, "+a@2")
		b.expect(c.collect())
		b.says(cds, "+a@3")
		b.expect(c.collect())
		c.busy[rds] = false
		b.expect(c.collect(), "CDS +a@3", "RDS +r@2")
		b.expect(c.collect(), "EDS -a")
	})

	// server                client
	// cluster b at n-1
	// route r@2 at n
	// cluster b at n+1
	//                       one pass
	// With a lock per table, and an applied number n read first, b has moved
	// behind n when the clusters are looked at, and the route goes alone.
	t.Run("ADS-3 cluster added at n-1 and changed again at n+1 while the route at n is pending", func(t *testing.T) {
		b, c := ads(t)
		b.says(cds, "+b@1")
		b.says(rds, "+r@2")
		b.says(cds, "+b@2")
		b.expect(c.collect(), "CDS +b@2", "RDS +r@2")
	})
	t.Run("ADS-3 also where clusters are busy", func(t *testing.T) {
		b, c := ads(t)
		b.says(cds, "+b@1")
		c.busy[cds] = true
		b.expect(c.collect())
		b.says(rds, "+r@2")
		b.says(cds, "+b@2")
		b.expect(c.collect(), "CDS +b@2", "RDS +r@2")
	})
	// server                              client
	// route r@2 moves from a to b at n
	// cluster a removed at n+1
	//                                     one pass
	// With a lock per table the routes may have been looked at before n and the
	// clusters after n+1.
	t.Run("ADS-3 cluster removed later together with the route that moved away", func(t *testing.T) {
		b, c := ads(t)
		b.says(cds, "+b@1")
		b.says(rds, "+r@2")
		b.says(cds, "-a")
		b.expect(c.collect(), "CDS +b@1", "RDS +r@2")
		b.expect(c.collect(), "CDS -a")
	})
	// The parts of one pass are used up by clusters: routes wait for the next one.
	t.Run("ADS-3 a later type does not overtake what was left of an earlier one", func(t *testing.T) {
		b, c := ads(t)
		b.says(cds, many("+", "m", 0, 20, "@1")...)
		b.says(rds, "+r@2")
		batches, more, err := collectFrom(c.c, func(string) bool { return false }, 1, 3)
		if err != nil || !more || len(batches) != 3 {
			t.Fatalf("%d batches, more: %t, %v", len(batches), more, err)
		}
		said := c.collect()
		if last := said[len(said)-1]; last != "RDS +r@2" || count(said[:len(said)-1], '+') != 17 {
			t.Fatalf("got %v", said)
		}
	})
}

func TestSplit(t *testing.T) {
	sizes := func(said []string) []int {
		var n []int
		for _, line := range said {
			n = append(n, strings.Count(line, "+")+strings.Count(line, "-"))
		}
		return n
	}
	equal := func(t *testing.T, got []int, want ...int) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
	}
	one := resource(lds, "m00000@1").Size()
	fill := func(t *testing.T, n int) (*bed, *peer) {
		t.Helper()
		b, c := newBed(t, cache.Limits{}).subscribed(lds, "*")
		b.says(lds, many("+", "m", 0, n, "@1")...)
		return b, c
	}
	t.Run("RES-9 no response passes the limit", func(t *testing.T) {
		_, c := fill(t, 10)
		c.size = 4*one + len("m00000") + nameOverhead
		equal(t, sizes(c.collect()), 4, 4, 2)
		for _, batch := range c.took {
			if batch.Body.Size() > c.size {
				t.Fatalf("%d bytes of %d", batch.Body.Size(), c.size)
			}
		}
	})
	t.Run("RES-9 a resource larger than the limit goes alone", func(t *testing.T) {
		b, c := fill(t, 2)
		c.collect()
		b.says(lds, "+m00000@2", "+"+strings.Repeat("x", 500)+"@1", "+m00001@2")
		c.size = 300
		equal(t, sizes(c.collect()), 1, 1, 1)
	})
	t.Run("RES-9 every resource alone", func(t *testing.T) {
		_, c := fill(t, 12)
		c.size = 1
		equal(t, sizes(c.collect()), 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
	})
	t.Run("RES-9 removals are split too", func(t *testing.T) {
		b, c := fill(t, 10)
		c.collect()
		b.says(lds, many("-", "m", 0, 10, "")...)
		c.size = 5 * (len("m00000") + nameOverhead)
		if got := sizes(c.collect()); len(got) < 2 || got[0] >= 10 {
			t.Fatalf("got %v", got)
		}
	})
	t.Run("RES-9 names are split too, and each goes once", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(eds, many("", "m", 0, 20, "")...)
		b.says(eds, append(many("+", "m", 0, 10, "@1"), many("-", "m", 10, 20, "")...)...)
		c.size = 5 * one
		said := c.collect()
		if len(said) < 3 || count(said, '+') != 10 || count(said, '-') != 10 {
			t.Fatalf("got %v", said)
		}
	})
	t.Run("RES-9 at most so many parts, and no more are left when the last one is full", func(t *testing.T) {
		_, c := fill(t, 4)
		never := func(string) bool { return false }
		for _, want := range []struct {
			parts, got int
			more       bool
		}{{0, 0, true}, {1, 1, true}, {2, 2, true}, {1, 1, false}, {1, 0, false}} {
			batches, more, err := collectFrom(c.c, never, 1, want.parts)
			if err != nil || len(batches) != want.got || more != want.more {
				t.Fatalf("with %d parts: %d batches, more: %t, %v", want.parts, len(batches), more, err)
			}
		}
	})
	t.Run("OPS-3 a member that changes between two parts goes once, at its new place", func(t *testing.T) {
		b, c := fill(t, 4)
		never := func(string) bool { return false }
		if _, _, err := collectFrom(c.c, never, 1, 2); err != nil {
			t.Fatal(err)
		}
		b.says(lds, "+m00001@2", "+m00002@2") // the one that was sent last, and the next one
		b.expect(c.collect(), "LDS +m00003@1 +m00001@2 +m00002@2")
	})
}

func TestMerging(t *testing.T) {
	merged := func(c *peer) int {
		n := 0
		for _, b := range c.took {
			n += b.Merged
		}
		return n
	}
	t.Run("OPS-3 a client that was busy gets the merged latest state once", func(t *testing.T) {
		b, c := ads(t)
		c.busy[cds], c.busy[rds] = true, true
		for _, v := range []string{"2", "3", "4"} {
			b.says(cds, "+a@"+v, "+b@"+v)
			b.says(rds, "+r@"+v)
			b.expect(c.collect())
		}
		b.says(cds, "-b")
		c.busy[cds], c.busy[rds] = false, false
		b.expect(c.collect(), "CDS +a@4", "RDS +r@4")
		// a: 2 of 3; b: 3 changes and the removal, none told; r: 2 of 3.
		if got := merged(c); got != 2+4+2 {
			t.Fatalf("%d merged", got)
		}
		b.says(cds, "+a@5")
		b.expect(c.collect(), "CDS +a@5")
		if got := merged(c); got != 0 {
			t.Fatalf("%d merged later", got)
		}
	})
	t.Run("OPS-3 what is sent because of a subscription was not merged", func(t *testing.T) {
		b, c := ads(t)
		b.says(cds, "+a@2")
		c.sub(cds, "*")
		b.expect(c.collect(), "CDS +a@2")
		if got := merged(c); got != 0 {
			t.Fatalf("%d merged", got)
		}
	})
	t.Run("OPS-3 what came and went is counted with the next response", func(t *testing.T) {
		b, c := ads(t)
		b.says(lds, "+x@1")
		b.says(lds, "-x")
		b.expect(c.collect())
		b.says(lds, "+y@1")
		b.expect(c.collect(), "LDS +y@1")
		if got := merged(c); got < 1 {
			t.Fatalf("%d merged", got)
		}
	})
	t.Run("OPS-3 a client that does not collect is woken once", func(t *testing.T) {
		b, c := ads(t)
		c.rang()
		for _, v := range []string{"2", "3", "4"} {
			b.says(cds, "+a@"+v)
		}
		if !c.rang() || c.rang() {
			t.Fatal("not woken once")
		}
		c.collect()
		b.says(cds, "+a@5")
		if !c.rang() {
			t.Fatal("not woken again")
		}
	})
	t.Run("OPS-3 a client that owes an ACK is not woken for that type", func(t *testing.T) {
		b, c := ads(t)
		b.says(cds, "+z@1")
		b.expect(c.collect(), "CDS +z@1")
		b.says(cds, "+z@2")
		c.busy[cds] = true
		b.expect(c.collect())
		c.rang()
		b.says(cds, "+z@3")
		if c.rang() {
			t.Fatal("woken although it cannot be sent anything")
		}
		b.says(rds, "+r@2")
		if !c.rang() {
			t.Fatal("not woken for another type")
		}
		b.expect(c.collect(), "CDS +z@3", "RDS +r@2")
		c.busy[cds] = false
		b.expect(c.collect())
		b.says(cds, "+z@4")
		if !c.rang() {
			t.Fatal("not woken after the ACK")
		}
	})
	t.Run("ACK-3 nothing is sent again after a NACK: the cursor moved", func(t *testing.T) {
		b, c := ads(t)
		b.says(cds, "+bad@1")
		b.says(rds, "+r@bad")
		b.expect(c.collect(), "CDS +bad@1", "RDS +r@bad")
		// The client's NACK is the stream's business: here it only is not busy any more.
		b.expect(c.collect())
		b.says(cds, "+good@1")
		b.expect(c.collect(), "CDS +good@1")
		b.says(cds, "+bad@2")
		b.expect(c.collect(), "CDS +bad@2")
	})
}
