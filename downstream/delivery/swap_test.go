package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// A client that swaps one subscription for another in one request, or in several
// before it is sent anything, goes on holding what it has: whatever serves the
// resource from then on must know that, or nobody tells the client that it is gone.
func TestSwap(t *testing.T) {
	// client: g/*            server: g/1, not kept
	// client: +g/1 -g/*      (the content is asked for again)
	// client: +g/* -g/1      (in a cursor that begins anew)
	// g/1 expires before the client is sent anything.
	t.Run("GLOB-5 TTL-5 a glob for a name and back: what was not kept expires", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, globG)
		b.once(cds, nameG1+"@1~1h")
		b.settle()
		b.expect(c.collect(), "CDS +"+nameG1+"@1")
		c.c.Update(&Change{TypeURL: cds, Subscribe: names([]string{nameG1}), Unsubscribe: names([]string{globG})})
		c.c.Update(&Change{TypeURL: cds, Subscribe: names([]string{globG}), Unsubscribe: names([]string{nameG1})})
		b.store.Session().Settle(time.Now().Add(2 * time.Hour))
		b.expect(c.collect(), "CDS -"+globG+" -"+nameG1)
	})
	t.Run("GLOB-5 the same with what is kept", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, globG)
		b.says(cds, "+"+nameG1+"@1", "+"+nameG2+"@1")
		b.settle()
		b.expect(c.collect(), "CDS +"+nameG1+"@1 +"+nameG2+"@1")
		c.c.Update(&Change{TypeURL: cds, Subscribe: names([]string{nameG1}), Unsubscribe: names([]string{globG})})
		c.c.Update(&Change{TypeURL: cds, Subscribe: names([]string{globG}), Unsubscribe: names([]string{nameG1})})
		b.says(cds, "-"+nameG1)
		b.expect(c.collect(), "CDS +"+nameG2+"@1 -"+nameG1)
	})
	t.Run("GLOB-5 NAME-3 a name for another spelling of it, and that for the glob", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, nameQ)
		b.says(cds, "+"+nameQ+"@1")
		b.expect(c.collect(), "CDS +"+nameQ+"@1")
		c.c.Update(&Change{TypeURL: cds, Subscribe: names([]string{nameQ2}), Unsubscribe: names([]string{nameQ})})
		c.c.Update(&Change{TypeURL: cds, Subscribe: names([]string{globQ}), Unsubscribe: names([]string{nameQ2})})
		b.demand(0)
		b.says(cds, "-"+nameQ)
		b.settle()
		b.expect(c.collect(), "CDS -"+globQ+" -"+nameQ)
	})
	t.Run("GLOB-5 RES-11 what it said that it holds of the glob", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.resume(cds, []string{nameG1 + "@1"}, globG)
		b.connect(0)
		c.c.Update(&Change{TypeURL: cds, Subscribe: names([]string{nameG1}), Unsubscribe: names([]string{globG})})
		c.c.Update(&Change{TypeURL: cds, Subscribe: names([]string{globG}), Unsubscribe: names([]string{nameG1})})
		b.says(cds, "+"+nameG2+"@1")
		b.settle()
		b.expect(c.collect(), "CDS +"+nameG2+"@1 -"+nameG1)
	})
	// A removal of clusters waits for later types (ADS-1); word that there is no
	// such resource does not (RES-6). Which it is depends on what the client holds.
	t.Run("ADS-1 GLOB-5 the removal of what a glob brought waits, under the name too", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.sub(cds, globG)
		c.sub(eds, "e")
		b.connect(0)
		b.says(cds, "+"+nameG1+"@1")
		b.says(eds, "+e@1")
		b.expect(c.collect(), "CDS +"+nameG1+"@1", "EDS +e@1")
		c.c.Update(&Change{TypeURL: cds, Subscribe: names([]string{nameG1}), Unsubscribe: names([]string{globG})})
		b.says(eds, "+e@2")
		b.says(cds, "-"+nameG1)
		b.expect(c.collect(), "EDS +e@2")
		b.expect(c.collect(), "CDS -"+nameG1)
	})
	t.Run("RES-6 GLOB-5 what the glob has told to be gone is no removal any more", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c, keeper := b.join(), b.join()
		c.sub(cds, globG)
		keeper.sub(cds, globG)
		c.sub(eds, "e")
		b.connect(0)
		b.says(cds, "+"+nameG1+"@1", "+"+nameG2+"@1")
		b.says(eds, "+e@1")
		c.collect()
		b.says(cds, "-"+nameG1)
		b.expect(c.collect(), "CDS -"+nameG1)
		c.sub(cds, nameG1)
		b.says(eds, "+e@2")
		b.expect(c.collect(), "CDS -"+nameG1, "EDS +e@2")
	})
	t.Run("TTL-2 RES-6 a name asked for again is answered, though its client can do ttl", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.joinAs(Form{TTL: true})
		c.sub(cds, "a")
		b.connect(0)
		b.once(cds, "a@1~1h")
		if got := c.collect(); len(got) != 1 {
			t.Fatalf("told %v", got)
		}
		c.sub(cds, "a")
		b.store.Session().Settle(time.Now().Add(2 * time.Hour))
		b.expect(c.collect(), "CDS -a")
	})
	// client: * (a, b)       client: +a             server: b changes, a is not answered
	// A list without a would take it from the client for as long as that lasts.
	t.Run("RES-2 SUB-1 what is named too stays in the list until the name is answered", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.joinAs(wrappedForm)
		c.sub(cds, "*")
		b.connect(0)
		b.says(cds, "+a@1", "+b@1")
		b.expect(c.worlds(), "CDS +a@1 +b@1")
		c.sub(cds, "a")
		b.connect(1)
		b.says(cds, "+b@2")
		b.expect(c.worlds(), "CDS +a@1 +b@2")
		b.saysOn(1, cds, "+a@1")
		b.expect(c.worlds(), "CDS +a@1 +b@2") // SUB-5
		b.saysOn(1, cds, "-a")
		b.expect(c.worlds(), "CDS +b@2")
	})
	t.Run("OPS-1 SUB-1 what is named too is served by \"*\" while the name is not answered", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		keeper, c := b.join(), b.join()
		keeper.sub(cds, "*")
		b.connect(0)
		b.says(cds, "+a@1", "+b@1")
		c.sub(cds, "*", "a")
		b.expect(c.collect(), "CDS +a@1 +b@1")
		b.connect(1)
		b.saysOn(1, cds, "+a@1")
		b.expect(c.collect()) // STR-7: it was sent that since it named it
		b.says(cds, "+a@2")
		b.expect(c.collect())
		b.saysOn(1, cds, "+a@2")
		b.expect(c.collect(), "CDS +a@2")
	})
	t.Run("STR-7 SUB-1 what \"*\" served in the name's place is told once, and gone once", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "*", "a", "b", "d")
		b.connect(1)
		b.says(cds, "+a@1", "+b@1", "+d@1")
		b.expect(c.collect(), "CDS +a@1 +b@1 +d@1")
		b.says(cds, "+b@2", "-d")
		b.expect(c.collect(), "CDS +b@2") // the name may mean d, whatever "*" means
		b.saysOn(1, cds, "+a@1", "+b@1", "-d")
		b.expect(c.collect(), "CDS +b@1", "CDS -d")
		c.sub(cds, "a")
		b.expect(c.collect(), "CDS +a@1") // SUB-5
	})
	t.Run("SUB-5 what \"*\" brought before it was named is sent again", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "*")
		b.says(cds, "+a@1")
		b.expect(c.collect(), "CDS +a@1")
		c.sub(cds, "a")
		b.connect(1)
		b.saysOn(1, cds, "+a@1")
		b.expect(c.collect(), "CDS +a@1")
	})
	t.Run("RES-11 what a client holds by name is not sent by \"*\" while the name is not answered", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.resume(cds, []string{"a@1", "b@1"}, "*", "a", "b")
		b.connect(0)
		b.says(cds, "+a@1", "+b@2")
		b.expect(c.collect(), "CDS +b@2")
		b.settle()
		b.expect(c.collect())
		b.connect(1)
		b.saysOn(1, cds, "+a@1", "+b@2")
		b.expect(c.collect())
	})
	// client: *, and lets go    relay: -*    server, before it reads that: +a
	// client: * again           (longer than the quiet time)    server: a is gone
	t.Run("SUB-11 SUB-13 what came late of a collection that was let go is not kept", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := newBed(t, cache.Limits{}).subscribed(cds, "*")
			c.unsub(cds, "*")
			b.letGo()
			b.expect(b.demand(0), "CDS -*")
			c.sub(cds, "*")
			b.says(cds, "+a@1")
			b.after(4 * quiet)
			b.expect(b.demand(0), "begin anew")
		})
	})
}
