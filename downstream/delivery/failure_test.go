package delivery

import (
	"fmt"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// respond applies a response with errors: "!name" for UNAVAILABLE, "?name" for NOT_FOUND.
func (b *bed) respond(typeURL string, words ...string) {
	b.Helper()
	var others []string
	var errs []wire.ResourceError
	for _, w := range words {
		switch w[0] {
		case '!':
			errs = append(errs, wire.ResourceError{Name: w[1:], Code: unavailable, Message: "why"})
		case '?':
			errs = append(errs, wire.ResourceError{Name: w[1:], Code: notFound, Message: "why"})
		default:
			others = append(others, w)
		}
	}
	r := response(typeURL, others...)
	r.Errors = errs
	if err := b.apply(0, r); err != nil {
		b.Fatalf("Apply: %v", err)
	}
}

// TestErrorsBesideContent: errors that take nothing away.
func TestErrorsBesideContent(t *testing.T) {
	for name, run := range map[string]func(b *bed, c *peer){
		"ERR-1 a later subscriber gets the content and the error": func(b *bed, _ *peer) {
			late := b.join()
			late.sub(cds, "a")
			b.expect(late.collect(), "CDS +a@1 !a")
		},
		"ERR-1 RES-11 one that holds the content gets the error": func(b *bed, _ *peer) {
			late := b.join()
			late.resume(cds, []string{"a@1"}, "a")
			b.expect(late.collect(), "CDS !a")
		},
		"ERR-1 SUB-5 who subscribes again is told again": func(b *bed, c *peer) {
			c.sub(cds, "a")
			b.expect(c.collect(), "CDS +a@1 !a")
		},
		"ERR-1 the resource ends it": func(b *bed, c *peer) {
			b.says(cds, "+a@2")
			b.expect(c.collect(), "CDS +a@2")
			late := b.join()
			late.sub(cds, "a")
			b.expect(late.collect(), "CDS +a@2")
		},
		"ERR-1 the same resource ends it, and clients are sent it for that": func(b *bed, c *peer) {
			b.says(cds, "+a@1")
			b.expect(c.collect(), "CDS +a@1")
			b.says(cds, "+a@1")
			b.expect(c.collect())
		},
		"ERR-1 resource and error in one response, again and again": func(b *bed, c *peer) {
			b.respond(cds, "+a@1", "!a")
			b.expect(c.collect())
			b.respond(cds, "+a@2", "!a")
			b.expect(c.collect(), "CDS +a@2 !a")
		},
		"ERR-1 a removal ends it": func(b *bed, c *peer) {
			b.says(cds, "-a")
			b.expect(c.collect(), "CDS -a")
			late := b.join()
			late.sub(cds, "a")
			b.expect(late.collect(), "CDS -a")
		},
		"ERR-1 another error takes its place": func(b *bed, c *peer) {
			b.fails(cds, "a", codes.Internal)
			b.expect(c.collect(), "CDS !a")
			b.fails(cds, "a", codes.PermissionDenied)
			b.expect(c.collect(), "CDS -a !a")
		},
		"ERR-1 a code without a meaning is one that passes": func(b *bed, c *peer) {
			b.fails(cds, "a", codes.Aborted)
			b.expect(c.collect(), "CDS !a")
			if b.cache.Resources() != 1 {
				b.Error("dropped")
			}
		},
		"ERR-1 what came and went untold needs no word": func(b *bed, _ *peer) {
			slow := b.join()
			slow.sub(cds, "a")
			slow.collect()
			b.fails(cds, "a", codes.Internal)
			b.says(cds, "+a@2")
			b.expect(slow.collect(), "CDS +a@2")
		},
		"ERR-1 SUB-7 nobody is told of what it has unsubscribed": func(b *bed, c *peer) {
			b.fails(cds, "a", codes.Internal)
			c.unsub(cds, "a")
			b.expect(c.collect())
		},
		"ERR-1 an error that leaves it open does not hide a removal": func(b *bed, c *peer) {
			b.says(cds, "-a")
			b.fails(cds, "a", codes.Internal)
			b.expect(c.collect(), "CDS -a !a")
		},
		"ERR-1 RES-10 what does not exist serves no aliases": func(b *bed, c *peer) {
			c.sub(cds, "alias")
			b.says(cds, "+a@2|alias")
			b.expect(c.collect(), "CDS +a@2")
			b.fails(cds, "a", notFound)
			b.expect(c.collect(), "CDS -a -alias !a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, c := newBed(t, cache.Limits{}).subscribed(cds, "a")
			b.says(cds, "+a@1")
			b.expect(c.collect(), "CDS +a@1")
			b.fails(cds, "a", unavailable)
			b.expect(c.collect(), "CDS !a")
			b.expect(c.collect())
			run(b, c)
		})
	}
}

// TestErrorsOfCollections: of globs and "*" as a whole, and of names in them.
func TestErrorsOfCollections(t *testing.T) {
	for name, run := range map[string]func(b *bed, c *peer){
		"ERR-1 GLOB-1 the error of a glob is told once, to late followers too": func(b *bed, c *peer) {
			c.sub(cds, globG)
			b.connect(0)
			b.respond(cds, "!"+globG)
			b.expect(c.collect(), "CDS !"+globG)
			b.respond(cds, "!"+globG)
			b.expect(c.collect())
			late := b.join()
			late.sub(cds, globG)
			b.expect(late.collect(), "CDS !"+globG)
			b.says(cds, "+"+nameG1+"@1")
			b.expect(late.collect(), "CDS +"+nameG1+"@1")
			later := b.join()
			later.sub(cds, globG)
			b.expect(later.collect(), "CDS +"+nameG1+"@1")
		},
		"ERR-1 GLOB-4 RES-14 an error that passes is no word that a glob is empty": func(b *bed, c *peer) {
			c.sub(cds, globG, "a")
			b.connect(0)
			b.respond(cds, "!"+globG, "+a@1")
			b.expect(c.collect(), "CDS +a@1 !"+globG)
			b.says(cds, "+a@2")
			b.settle()
			b.expect(c.collect(), "CDS +a@2")
			b.says(cds, "-"+globG)
			b.expect(c.collect(), "CDS -"+globG)
		},
		"ERR-1 members stay with an error of the glob that passes, also unconfirmed ones": func(b *bed, c *peer) {
			c.sub(cds, globG)
			b.connect(0)
			b.says(cds, "+"+nameG1+"@1")
			b.settle()
			b.expect(c.collect(), "CDS +"+nameG1+"@1")
			b.store.Session().Lost(streamOf(0))
			b.connectWithin(0, 1)
			b.respond(cds, "!"+globG)
			b.settle()
			b.expect(c.collect(), "CDS !"+globG)
			b.says(cds, "+"+nameG2+"@1")
			b.settle()
			b.expect(c.collect(), "CDS +"+nameG2+"@1 -"+nameG1)
		},
		"ERR-1 GLOB-4 a glob that does not exist is empty": func(b *bed, c *peer) {
			c.sub(cds, globG)
			b.connect(0)
			b.says(cds, "+"+nameG1+"@1")
			c.collect()
			b.respond(cds, "?"+globG)
			b.expect(c.collect(), "CDS -"+nameG1+" !"+globG)
			late := b.join()
			late.sub(cds, globG)
			b.expect(late.collect(), "CDS -"+globG+" !"+globG)
			b.respond(cds, "?"+globG)
			b.expect(c.collect())
		},
		"ERR-1 the error of * as a whole keeps its members": func(b *bed, c *peer) {
			c.sub(cds, "*")
			b.connect(0)
			b.says(cds, "+a@1")
			b.expect(c.collect(), "CDS +a@1")
			for i, code := range []codes.Code{unavailable, notFound, codes.PermissionDenied} {
				b.fails(cds, []string{"*", ""}[i%2], code)
				b.expect(c.collect(), "CDS !*")
			}
			b.says(cds)
			late := b.join()
			late.sub(cds, "*")
			b.expect(late.collect(), "CDS +a@1")
		},
		"ERR-1 * that never was answered waits for its members": func(b *bed, c *peer) {
			c.sub(cds, "*")
			b.connect(0)
			b.respond(cds, "!*")
			b.expect(c.collect(), "CDS !*")
			b.settle()
			b.expect(c.collect())
			b.says(cds)
			b.expect(c.collect(), "CDS")
		},
		"ERR-1 an error of a member goes to the followers, and to who names it": func(b *bed, c *peer) {
			c.sub(cds, globG)
			named, both := b.join(), b.join()
			named.sub(cds, nameG1)
			both.sub(cds, nameG1, globG)
			b.connect(0)
			b.says(cds, "+"+nameG1+"@1")
			for _, p := range []*peer{c, named, both} {
				p.collect()
			}
			b.respond(cds, "!"+nameG1)
			for _, p := range []*peer{c, named, both} {
				b.expect(p.collect(), "CDS !"+nameG1)
				b.expect(p.collect())
			}
			b.says(cds, "+"+nameG1+"@1")
			for _, p := range []*peer{c, named, both} {
				b.expect(p.collect(), "CDS +"+nameG1+"@1")
			}
			b.respond(cds, "?"+nameG1)
			for _, p := range []*peer{c, named, both} {
				b.expect(p.collect(), "CDS -"+nameG1+" !"+nameG1)
			}
			late := b.join()
			late.sub(cds, globG)
			b.expect(late.collect(), "CDS !"+nameG1)
		},
		"ERR-1 NAME-4 members and globs are spelled as each client does": func(b *bed, c *peer) {
			c.sub(cds, globQ2)
			b.connect(0)
			b.respond(cds, "!"+nameQ, "!"+globQ)
			b.expect(c.collect(), "CDS !"+nameQ2+" !"+globQ2)
		},
		"ERR-1 an error of a member of * that never was there": func(b *bed, c *peer) {
			c.sub(cds, "*")
			b.connect(0)
			b.respond(cds, "+a@1", "!b")
			b.expect(c.collect(), "CDS +a@1 !b")
			b.says(cds, "+b@1")
			late := b.join()
			late.sub(cds, "*")
			b.expect(late.collect(), "CDS +a@1 +b@1")
		},
		"ERR-1 GLOB-1 who begins to follow is told what the names in it have": func(b *bed, c *peer) {
			c.sub(cds, nameG1)
			b.connect(0)
			b.says(cds, "+"+nameG1+"@1")
			b.respond(cds, "!"+nameG1)
			c.collect()
			late := b.join()
			late.sub(cds, globG)
			b.expect(late.collect(), "CDS +"+nameG1+"@1 !"+nameG1)
		},
		"ERR-1 errors are remembered within bounds": func(b *bed, c *peer) {
			c.sub(lds, "*")
			b.connect(0)
			r := &wire.Response{TypeURL: lds}
			for i := range 2 * 1024 {
				r.Errors = append(r.Errors, wire.ResourceError{Name: fmt.Sprint(i)})
			}
			if err := b.apply(0, r); err != nil {
				b.Fatal(err)
			}
			if n := b.upkeep(lds, cache.WholeType).Errors; n != 1024 {
				b.Errorf("%d errors are remembered", n)
			}
		},
		"ERR-1 ADS-1 the error that takes a cluster away waits with the removal": func(b *bed, c *peer) {
			c.sub(cds, "*")
			c.sub(lds, "*")
			b.connect(0)
			b.says(cds, "+a@1")
			b.says(lds, "+l@1")
			c.collect()
			c.busy[lds] = true
			b.says(lds, "+l@2")
			b.respond(cds, "?a")
			b.expect(c.collect())
			c.busy[lds] = false
			b.expect(c.collect(), "LDS +l@2")
			b.expect(c.collect(), "CDS -a !a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			run(b, b.join())
		})
	}
}

// TestErrorClocks: an error answers what was asked (RES-7).
func TestErrorClocks(t *testing.T) {
	for name, run := range map[string]func(b *bed, c *peer){
		"RES-7 ERR-1 a name with an error does not get absent": func(b *bed, c *peer) {
			c.sub(eds, "a", "b")
			b.connect(0)
			b.state(eds, "1", "!a")
			b.store.Session().Settle(time.Now().Add(time.Minute))
			b.check()
			b.expect(c.told(), "EDS !a !b")
		},
		"RES-7 ERR-1 a * with an error is waited for like one that is silent": func(b *bed, c *peer) {
			c.show(cds, "old", "*")
			c.sub(lds, "x")
			b.connect(0)
			b.state(cds, "1", "!*")
			b.state(lds, "1", "+x@1")
			c2 := b.joinAs(bareForm)
			c2.show(cds, "old", "*")
			c2.sub(lds, "x")
			b.expect(c2.lists(), "LDS x1")
			b.store.Session().Settle(time.Now().Add(time.Minute))
			b.check()
			b.expect(c2.lists()) // an empty list would take from it what it holds
			b.state(cds, "2", "+a@1")
			b.expect(c2.lists(), "CDS a1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBedOf(t, cache.Limits{}, cache.Source{
				Quiet: quiet, Absent: quiet, State: true, FullState: map[string]bool{cds: true, lds: true},
			})
			run(b, b.join())
		})
	}
}

// TestErrorsInStates: what sources of the state of the world leave out.
func TestErrorsInStates(t *testing.T) {
	for name, run := range map[string]func(b *bed, c *peer){
		"ERR-1 RES-8 an error is said once: what lacks later is not missing": func(b *bed, c *peer) {
			b.state(cds, "2", "+a@1", "!b")
			b.expect(c.told(), "CDS !b")
			b.state(cds, "3", "+a@2")
			b.expect(c.told(), "CDS +a")
			b.state(cds, "4", "+a@2", "+b@1")
			b.expect(c.told(), "CDS +b")
			b.state(cds, "5", "+a@2")
			b.expect(c.told(), "CDS -b")
		},
		"ERR-1 RES-8 who said an error and removes the resource says NOT_FOUND": func(b *bed, c *peer) {
			b.state(cds, "2", "+a@1", "!b")
			b.expect(c.told(), "CDS !b")
			b.state(cds, "3", "+a@1")
			b.expect(c.told())
			r := stateOf(cds, "4", "+a@1")
			r.Errors = []wire.ResourceError{{Name: "b", Code: notFound}}
			if err := b.applyState(r); err != nil {
				b.Fatal(err)
			}
			b.expect(c.told(), "CDS -b !b")
			b.state(cds, "5", "+a@1", "+b@2")
			b.expect(c.told(), "CDS +b")
			b.state(cds, "6", "+a@1")
			b.expect(c.told(), "CDS -b")
		},
		"ERR-1 RES-8 what is listed again with the same content, and then left out, is gone": func(b *bed, c *peer) {
			b.state(cds, "2", "+a@1", "!b")
			b.expect(c.told(), "CDS !b")
			b.state(cds, "3", "+a@1", "+b@1")
			b.expect(c.told(), "CDS +b")
			b.state(cds, "4", "+a@1")
			b.expect(c.told(), "CDS -b")
		},
		"ERR-1 RES-8 what is listed beside its error, and then left out, is gone": func(b *bed, c *peer) {
			b.state(cds, "2", "+a@1", "!b")
			b.expect(c.told(), "CDS !b")
			b.state(cds, "3", "+a@1", "+b@1", "!b")
			b.expect(c.told())
			b.state(cds, "4", "+a@1")
			b.expect(c.told(), "CDS -b")
		},
		"ERR-1 RES-8 an error that is said twice at once is one": func(b *bed, c *peer) {
			b.state(cds, "2", "+a@1", "!b", "!b")
			b.expect(c.told(), "CDS !b")
			b.state(cds, "3", "+a@1")
			b.expect(c.told())
		},
		"ERR-1 RES-8 TTL-3 a heartbeat in a list is as good as the content": func(b *bed, c *peer) {
			b.state(cds, "2", "+a@1", "!b")
			b.expect(c.told(), "CDS !b")
			b.state(cds, "2", "~b")
			b.state(cds, "3", "+a@1") // heartbeats alone were no list
			b.expect(c.told())
			b.state(cds, "4", "+a@1", "~b")
			b.state(cds, "5", "+a@1")
			b.expect(c.told(), "CDS -b")
		},
		"ERR-1 RES-8 on a new stream it has to be said again": func(b *bed, c *peer) {
			b.state(cds, "2", "+a@1", "!b")
			b.expect(c.told(), "CDS !b")
			b.store.Session().Lost(streamOf(0))
			b.connect(0)
			b.state(cds, "3", "+a@1")
			b.expect(c.told(), "CDS -b")
		},
		"ERR-1 a source that says everything says it every time": func(b *bed, c *peer) {
			r := stateOf(cds, "2", "+a@1", "!b")
			r.Complete = true
			for _, want := range [][]string{{"CDS !b"}, nil} {
				if err := b.applyState(r); err != nil {
					b.Fatal(err)
				}
				b.expect(c.told(), want...)
			}
			r = stateOf(cds, "3", "+a@1")
			r.Complete = true
			if err := b.applyState(r); err != nil {
				b.Fatal(err)
			}
			b.expect(c.told(), "CDS -b")
		},
		"ERR-1 RES-8 an error of * takes nothing away": func(b *bed, c *peer) {
			b.state(cds, "2", "!*")
			b.expect(c.told(), "CDS !*")
			b.state(cds, "3", "+a@1")
			b.expect(c.told(), "CDS -b")
		},
		"ERR-1 NOT_FOUND in a list": func(b *bed, c *peer) {
			r := stateOf(cds, "2", "+a@1")
			r.Errors = []wire.ResourceError{{Name: "b", Code: notFound}}
			if err := b.applyState(r); err != nil {
				b.Fatal(err)
			}
			b.expect(c.told(), "CDS -b !b")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, State: true, FullState: map[string]bool{cds: true}})
			c := b.join()
			c.sub(cds, "*")
			b.connect(0)
			b.state(cds, "1", "+a@1", "+b@1")
			b.expect(c.told(), "CDS +a +b")
			run(b, c)
		})
	}
}
