package delivery

import (
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

// TestOutage_ABS2: what clients are told while the control plane cannot be reached.
func TestOutage_ABS2(t *testing.T) {
	const cause = "it is away"
	outage := func(b *bed, want string, peers ...*peer) {
		b.Helper()
		var places []*Place
		for _, p := range peers {
			places = append(places, p.c)
		}
		if got, v := Outage(places); got != want || (v == Unserved) != (want != "") {
			b.Fatalf("verdict %d %q, want %q", v, got, want)
		}
	}
	begins := func(b *bed) {
		if b.store.Session().SetOutage(cause) {
			b.store.Session().TellOutage()
		}
		b.check()
	}
	ends := func(b *bed) {
		b.store.Session().SetOutage("")
		b.check()
	}
	for name, run := range map[string]func(b *bed){
		"a name that waits has an error, and what is known is served": func(b *bed) {
			c := b.join()
			c.sub(eds, "a", "b")
			b.connect(0)
			b.says(eds, "+a@1")
			b.expect(c.told(), "EDS +a")
			c.rang()
			begins(b)
			if !c.rang() {
				b.Error("not woken")
			}
			b.expect(c.told(), "EDS !b")
			c.sub(eds, "c")
			b.expect(c.told(), "EDS !c")
			late := b.joinAs(bareForm)
			late.sub(eds, "a", "b", "d")
			b.expect(late.lists(), "EDS a1 !b !d")
			begins(b) // and nothing is said again
			b.expect(append(c.told(), late.lists()...))
		},
		"what is answered when it is over": func(b *bed) {
			c := b.join()
			c.sub(eds, "a", "b")
			begins(b)
			b.expectAll(strings.Fields(strings.Join(c.told(), " ")), "EDS", "!a", "!b")
			ends(b)
			c.sub(eds, "c")
			b.expect(c.told()) // the server's word is waited for again
			b.expect(b.connect(0), "EDS +a +b +c")
			b.says(eds, "+a@1", "-b", "-c")
			b.expect(c.told(), "EDS +a -b -c")
			begins(b)
			late := b.join()
			late.sub(eds, "b")
			b.expect(late.told(), "EDS -b")
		},
		"errors that were not told before it was over are not told": func(b *bed) {
			c := b.join()
			c.sub(eds, "a")
			b.connect(0)
			begins(b)
			ends(b)
			b.expect(c.told())
			b.says(eds, "+a@1")
			b.expect(c.told(), "EDS +a")
		},
		"nothing can be served": func(b *bed) {
			c, named, empty := b.join(), b.joinAs(bareForm), b.join()
			c.sub(cds, "*")
			named.show(cds, "old", "a")
			outage(b, "", c, named)
			begins(b)
			outage(b, cause, c)
			outage(b, cause, named)
			outage(b, "", empty) // it asks for nothing
			b.expect(named.lists())
			ends(b)
			outage(b, "", c)
		},
		"something can be served": func(b *bed) {
			c := b.join()
			c.sub(cds, "*")
			c.sub(eds, "e")
			b.connect(0)
			b.says(eds, "-e") // that it does not exist is known, too
			begins(b)
			outage(b, "", c)
		},
		"another control plane can be reached": func(b *bed) {
			other := b.cache.Open(cache.Source{})
			c := b.join()
			c.sub(cds, "a")
			begins(b)
			place := Join(other, func() {}, Form{})
			if cause, v := Outage([]*Place{c.c, place}); v != Served {
				b.Errorf("verdict %d %q", v, cause)
			}
			place.Leave()
		},
		"ABS-3 a list of a client that showed a version waits all the same": func(b *bed) {
			c := b.joinAs(bareForm)
			c.show(cds, "old", "a", "b")
			b.connect(0)
			b.says(cds, "+a@1")
			begins(b)
			b.expect(c.lists())
			ends(b)
			b.says(cds, "+b@1")
			b.expect(c.lists(), "CDS a1 b1")
		},
	} {
		t.Run(name, func(t *testing.T) { run(newBed(t, cache.Limits{})) })
	}
}
