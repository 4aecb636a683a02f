package delivery

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// TestErrorsOfWhatElseHolds: errors of what the client has by other means than the one
// that the error is of.
func TestErrorsOfWhatElseHolds(t *testing.T) {
	for name, run := range map[string]func(b *bed, c *peer){
		"ERR-1 RES-11 an error that passes takes nothing from who said that it holds it": func(b *bed, c *peer) {
			c.resume(cds, []string{"a@1"}, "a")
			b.connect(0)
			b.fails(cds, "a", unavailable)
			b.expect(c.collect(), "CDS !a")
			b.says(cds, "+a@1")
			b.expect(c.collect())
		},
		"ERR-1 SUB-1 an error that passes takes nothing from who has it by *": func(b *bed, c *peer) {
			c.sub(cds, "*")
			b.connect(0)
			b.says(cds, "+a@1")
			b.expect(c.collect(), "CDS +a@1")
			c.sub(cds, "a")
			b.says(cds, "+a@2")
			b.expect(c.collect(), "CDS +a@2")
			b.connect(1)
			b.failsOn(1, cds, "a", unavailable)
			b.expect(c.collect(), "CDS !a")
			b.says(cds, "+a@3")
			b.expect(c.collect(), "CDS +a@3")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			run(b, b.join())
		})
	}
}

// A client has a resource by "*", names it and lets go of "*". The resource is gone, and before that is told
// the server has an error for the name that leaves open what became of it: the client is told both.
func TestERR1_SUB8_GoneBeforeTheError(t *testing.T) {
	b := newBed(t, cache.Limits{})
	c := b.join()
	c.sub(cds, "*")
	b.connect(0)
	b.says(cds, "+a@1")
	b.expect(c.collect(), "CDS +a@1")
	c.sub(cds, "a")
	c.unsub(cds, "*")
	b.connect(1)
	b.failsOn(1, cds, "a", notFound)
	b.failsOn(1, cds, "a", unavailable)
	b.expect(c.collect(), "CDS -a !a")
	b.expect(c.collect())
}

// What a client says that it holds is gone, and before it is told the server has an error
// for the name that leaves open what became of it: it is told both.
func TestERR1_RES11_GoneBeforeTheError(t *testing.T) {
	b := newBed(t, cache.Limits{})
	first := b.join()
	first.sub(eds, "n")
	b.connect(0)
	b.says(eds, "-n")
	b.expect(first.collect(), "EDS -n")
	c := b.join()
	c.resume(eds, []string{"n@1"}, "n")
	b.fails(eds, "n", unavailable)
	b.expect(c.collect(), "EDS -n !n")
	b.expect(first.collect(), "EDS !n")
}

// A client holds members of a glob and says so when it comes. The server has an error that takes one away, or all,
// and then has one again as it was, before all others are known: the client is sent it.
func TestERR1_RES11_GoneAndThereAgain(t *testing.T) {
	const glob = "xdstp://x/envoy.config.route.v3.RouteConfiguration/g/*"
	const one, other = "xdstp://x/envoy.config.route.v3.RouteConfiguration/g/1", "xdstp://x/envoy.config.route.v3.RouteConfiguration/g/2"
	for failed, want := range map[string]string{one: "RDS !" + one, glob: "RDS -" + one + " -" + other + " !" + glob} {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.resume(rds, []string{one + "@1", other + "@1"}, glob)
		b.connect(0)
		b.fails(rds, failed, notFound)
		b.expectAll(c.collect(), want)
		b.says(rds, "+"+one+"@1")
		b.expect(c.collect(), "RDS +"+one+"@1")
	}
	for _, failed := range []string{nameG1, globG} { // the removals of clusters wait
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.resume(cds, []string{nameG1 + "@1"}, globG)
		b.connect(0)
		b.fails(cds, failed, notFound)
		pace := paceOf(func(string) bool { return false }, c.size, 1)
		pace.RemovalWait = time.Hour
		if batches, _, err := c.s.Collect(pace); err != nil || len(batches) != 1 {
			t.Fatalf("%d responses: %v", len(batches), err)
		}
		b.says(cds, "+"+nameG1+"@1")
		b.expect(c.collect(), "CDS +"+nameG1+"@1")
	}
}
