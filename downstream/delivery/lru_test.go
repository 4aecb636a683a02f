package delivery

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

func TestLimits(t *testing.T) {
	// parked gives a bed on which names m00000, m00001 … were watched and left, the
	// first one first, at 1 resource each.
	parked := func(t *testing.T, limits cache.Limits, n int) *bed {
		t.Helper()
		b := newBed(t, limits)
		b.connect(0)
		for i := range n {
			b.park(cds, fmt.Sprintf("m%05d", i))
		}
		return b
	}
	size := int64(resource(cds, "m00000@1").Size())
	t.Run("SUB-11 by count, the longest unwatched first", func(t *testing.T) {
		b := parked(t, cache.Limits{MaxResources: 3}, 5)
		b.expect(b.demand(0), "CDS -m00001")
		if b.cache.Resources() != 3 || b.seen.evicted[cache.ReasonCount] != 2 {
			t.Fatalf("%d resources, %v", b.cache.Resources(), b.seen.evicted)
		}
	})
	t.Run("SUB-11 by bytes", func(t *testing.T) {
		b := parked(t, cache.Limits{MaxBytes: 3*size + 1}, 4)
		b.expect(b.demand(0), "CDS -m00000")
		if b.cache.Bytes() != 3*size || b.seen.evicted[cache.ReasonBytes] != 1 {
			t.Fatalf("%d bytes, %v", b.cache.Bytes(), b.seen.evicted)
		}
	})
	t.Run("SUB-11 watching again makes it the youngest", func(t *testing.T) {
		b := parked(t, cache.Limits{MaxResources: 3}, 3)
		c := b.join()
		c.sub(cds, "m00000")
		c.leave()
		d := b.join()
		d.sub(cds, "new")
		b.demand(0)
		b.says(cds, "+new@1")
		b.expect(b.demand(0), "CDS -m00001")
	})
	t.Run("SUB-11 watched entries are never evicted, the limit is passed instead", func(t *testing.T) {
		b := newBed(t, cache.Limits{MaxResources: 1, MaxBytes: 1, Idle: time.Nanosecond})
		c := b.join()
		c.sub(cds, "a", globG)
		c.sub(lds, "*")
		b.connect(0)
		b.says(cds, "+a@1", "+"+nameG1+"@1", "+"+nameG2+"@1")
		b.says(lds, "+l@1")
		b.cache.Expire(time.Now().Add(time.Hour))
		b.expect(b.demand(0))
		if b.cache.Resources() != 4 {
			t.Fatalf("%d resources", b.cache.Resources())
		}
	})
	// A wave: the limit is passed by one, and many look before the unsubscribe is
	// taken and anything is freed.
	t.Run("SUB-11 a wave of evictions does not evict more than needed", func(t *testing.T) {
		b := parked(t, cache.Limits{MaxResources: 10}, 10)
		c := b.join()
		c.sub(cds, "new")
		b.demand(0)
		b.says(cds, "+new@1")
		for i := range 20 {
			c.sub(cds, fmt.Sprint("unknown ", i))
			b.says(cds, "+new@"+fmt.Sprint(i))
		}
		if leaving, _ := b.cache.Leaving(); b.seen.evicted[cache.ReasonCount] != 1 || leaving != 1 {
			t.Fatalf("evicted %v, leaving %d", b.seen.evicted, leaving)
		}
		b.demand(0)
		if b.cache.Resources() != 10 || b.leaving() {
			t.Fatalf("%d resources, leaving %t", b.cache.Resources(), b.leaving())
		}
	})
	t.Run("SUB-11 a collection counts with all its members", func(t *testing.T) {
		b := newBed(t, cache.Limits{MaxResources: 10})
		b.connect(0)
		c := b.join()
		c.sub(lds, "*")
		b.demand(0)
		b.says(lds, many("+", "m", 0, 8, "@1")...)
		c.leave()
		c = b.join()
		c.sub(cds, many("", "n", 0, 5, "")...)
		b.demand(0)
		b.says(cds, many("+", "n", 0, 5, "@1")...)
		if leaving, _ := b.cache.Leaving(); leaving != 8 {
			t.Fatalf("leaving %d", leaving)
		}
		b.expect(b.demand(0), "LDS -*")
		if b.cache.Resources() != 5 {
			t.Fatalf("%d resources", b.cache.Resources())
		}
	})
	t.Run("SUB-11 two stores share the limits", func(t *testing.T) {
		b := parked(t, cache.Limits{MaxResources: 2}, 2)
		other := &bed{TB: t, cache: b.cache, store: b.cache.Open(cache.Source{Quiet: quiet}), seen: b.seen}
		c := other.join()
		c.sub(cds, "a")
		other.connect(0)
		other.says(cds, "+a@1")
		b.expect(b.demand(0), "CDS -m00000")
	})
	// A server need not answer a name: nothing is held, and yet each takes memory
	// here and at the server.
	t.Run("OPS-5 names that are never answered are bounded too", func(t *testing.T) {
		b := newBed(t, cache.Limits{MaxResources: 10})
		b.connect(0)
		for i := range 100 {
			c := b.join()
			c.sub(cds, fmt.Sprint("made up ", i))
			b.demand(0)
			c.leave()
		}
		b.demand(0)
		if n := b.store.Session().Wanted(); n > 10 {
			t.Fatalf("%d names are asked for", n)
		}
	})
}

func TestIdle(t *testing.T) {
	run := func(t *testing.T, f func(b *bed)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, cache.Limits{Idle: time.Minute})
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() { b.cache.Run(ctx) })
			b.connect(0)
			f(b)
			cancel()
			wg.Wait()
		})
	}
	t.Run("SUB-11 what nobody has watched for the idle time is let go", func(t *testing.T) {
		run(t, func(b *bed) {
			<-time.After(time.Hour) // Run waits for nothing by now
			c := b.join()
			c.sub(cds, "a", "b")
			b.demand(0)
			b.says(cds, "+a@1", "+b@1")
			c.unsub(cds, "a")
			<-time.After(30 * time.Second)
			c.unsub(cds, "b")
			<-time.After(30*time.Second - time.Nanosecond)
			synctest.Wait()
			b.expect(b.demand(0))
			<-time.After(time.Nanosecond)
			synctest.Wait()
			b.expect(b.demand(0), "CDS -a")
			<-time.After(30 * time.Second)
			synctest.Wait()
			b.expect(b.demand(0), "CDS -b")
			if b.seen.evicted[cache.ReasonIdle] != 2 {
				t.Fatalf("evicted %v", b.seen.evicted)
			}
		})
	})
	t.Run("SUB-11 watching in between starts the time anew", func(t *testing.T) {
		run(t, func(b *bed) {
			c := b.join()
			c.sub(cds, "a")
			b.demand(0)
			b.says(cds, "+a@1")
			c.unsub(cds, "a")
			<-time.After(59 * time.Second)
			c.sub(cds, "a")
			c.unsub(cds, "a")
			<-time.After(59 * time.Second)
			synctest.Wait()
			b.expect(b.demand(0))
			<-time.After(time.Second)
			synctest.Wait()
			b.expect(b.demand(0), "CDS -a")
		})
	})
	t.Run("SUB-11 watched: never", func(t *testing.T) {
		run(t, func(b *bed) {
			c := b.join()
			c.sub(cds, "a", globG)
			b.demand(0)
			<-time.After(24 * time.Hour)
			synctest.Wait()
			b.expect(b.demand(0))
		})
	})
	t.Run("SUB-11 without a limit nothing is let go", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.sub(cds, "a")
		c.leave()
		if at := b.cache.Expire(time.Now().Add(time.Hour)); !at.IsZero() || b.cache.Unwatched() != 1 {
			t.Fatalf("next at %v, %d unwatched", at, b.cache.Unwatched())
		}
	})
}
