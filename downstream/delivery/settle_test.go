package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

func TestSettle(t *testing.T) {
	// settle calls Settle when its time has come, as the session does.
	settle := func(b *bed) time.Duration {
		begin := time.Now()
		for {
			at := b.store.Session().Settle(time.Now())
			b.check()
			if at.IsZero() {
				return time.Since(begin)
			}
			<-time.After(time.Until(at))
		}
	}
	t.Run("RES-14 what the server does not mention is stale but kept, and removed after the quiet time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := newBed(t, cache.Limits{}).subscribed(lds, "*")
			b.says(lds, "+a@1", "+b@1", "+c@1")
			settle(b)
			c.collect()
			b.store.Session().Lost(wire.StreamID{})
			b.expect(b.connectWithin(0, 1), "LDS +*")
			// No answer yet: nothing is removed, however long it takes.
			<-time.After(time.Hour)
			if at := b.store.Session().Settle(time.Now()); !at.IsZero() {
				t.Fatalf("waits until %v for a server that has not answered", at)
			}
			b.says(lds, "+a@1", "+b@2")
			b.expect(c.collect(), "LDS +b@2")
			if waited := settle(b); waited != quiet {
				t.Fatalf("settled after %v", waited)
			}
			c.woken()
			b.expect(c.collect(), "LDS -c")
		})
	})
	t.Run("RES-14 members on their way prolong the quiet time, a busy collection does not", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, _ := newBed(t, cache.Limits{}).subscribed(lds, "*")
			begin := time.Now()
			b.says(lds, "+a@1")
			<-time.After(10 * time.Second)
			b.says(lds, "+b@1") // new
			<-time.After(10 * time.Second)
			b.says(lds, "+b@2") // no news of what is there
			settle(b)
			if took := time.Since(begin); took != 10*time.Second+quiet {
				t.Fatalf("settled after %v", took)
			}
		})
	})
	t.Run("RES-14 RES-17 the collections must fit beside the versions of their members", func(t *testing.T) {
		b, _ := newBed(t, cache.Limits{}).subscribed(cds, globG, globQ)
		b.says(cds, "+"+nameG1+"@1")
		limit := len(nameG1) + len(globG) + len(globQ)
		b.store.Session().Lost(wire.StreamID{})
		b.expect(b.connectWithin(0, limit), "CDS +"+globG+" +"+globQ)
		b.store.Session().Lost(wire.StreamID{})
		b.expect(b.connectWithin(0, limit+100), "CDS +"+globG+" +"+globQ+" ="+nameG1+"@1")
	})
	t.Run("RES-14 names are exact, also where the versions did not fit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := newBed(t, cache.Limits{}).subscribed(cds, globG, nameG1)
			b.says(cds, "+"+nameG1+"@1", "+"+nameG2+"@1")
			settle(b)
			c.collect()
			b.store.Session().Lost(wire.StreamID{})
			b.connectWithin(0, 1)
			b.says(cds)
			settle(b)
			b.expect(c.collect(), "CDS -"+nameG2)
		})
	})
	// stream 1: versions did not fit, all is stale; breaks before anything settled.
	// stream 2: versions fit now. The server knows what is held and mentions only
	// what changed: nothing is stale.
	t.Run("RES-12 a resume with versions after one without: nothing is stale", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := newBed(t, cache.Limits{}).subscribed(lds, "*")
			b.says(lds, "+a@1", "+b@1")
			settle(b)
			c.collect()
			b.store.Session().Lost(wire.StreamID{})
			b.connectWithin(0, 1)
			b.store.Session().Lost(wire.StreamID{})
			b.expect(b.connect(0), "LDS +* =a@1 =b@1")
			b.says(lds, "+c@1")
			settle(b)
			b.expect(c.collect(), "LDS +c@1")
		})
	})
	t.Run("RES-11 what a client holds beyond the members is removed when it is known not to exist", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			c := b.join()
			c.resume(lds, []string{"a@1", "b@1", "gone@1"}, "*")
			b.connect(0)
			b.says(lds, "+a@1", "+b@2")
			b.expect(c.collect(), "LDS +b@2")
			settle(b)
			c.woken()
			b.expect(c.collect(), "LDS -gone")
			b.expect(c.collect())
		})
	})
	t.Run("RES-11 a cold relay removes nothing from a warm client", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.resume(lds, []string{"a@1"}, "*")
		c.resume(cds, []string{"n@1", nameG1 + "@1"}, "n", globG)
		b.expect(c.collect())
		b.connect(0)
		b.expect(c.collect())
		b.store.Session().Settle(time.Now().Add(time.Hour))
		b.expect(c.collect())
	})
	// client: * and name a         relay: * answered, not settled
	// unsubscribes a: whether * holds a is not known yet.
	t.Run("SUB-8 an answer that had to wait is given when the collection settles", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := newBed(t, cache.Limits{}).subscribed(lds, "*", "a")
			b.connect(1)
			b.says(lds, "+b@1")
			b.saysOn(1, lds, "+a@1")
			c.collect()
			c.rang()
			c.unsub(lds, "a")
			b.expect(c.collect())
			settle(b)
			c.woken()
			b.expect(c.collect(), "LDS -a")
		})
	})
	t.Run("RES-14 a collection without members settles and is told so", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := newBed(t, cache.Limits{}).subscribed(cds, globG, "a")
			b.says(cds, "+a@1")
			b.expect(c.collect(), "CDS +a@1")
			settle(b)
			c.woken()
			b.expect(c.collect(), "CDS -"+globG)
		})
	})
	t.Run("RES-16 a heartbeat confirms a member", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := newBed(t, cache.Limits{}).subscribed(lds, "*")
			b.says(lds, "+a@1", "+b@1")
			settle(b)
			c.collect()
			b.store.Session().Lost(wire.StreamID{})
			b.connectWithin(0, 1)
			r := &wire.Response{TypeURL: lds, Resources: []*wire.Resource{bare(t, "a", "1")}}
			if err := b.apply(0, r); err != nil {
				t.Fatal(err)
			}
			settle(b)
			b.expect(c.collect(), "LDS -b")
		})
	})
}
