package delivery

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/digest"
	"google.golang.org/grpc/codes"
)

// TestStateErrors: clients of the state of the world are told of errors.
func TestStateErrors(t *testing.T) {
	for name, run := range map[string]func(b *bed){
		"ERR-1 RES-3 a name of a type that is sent by what changed": func(b *bed) {
			p := b.joinAs(bareForm)
			p.sub(eds, "a", "b")
			b.connect(0)
			b.says(eds, "+a@1")
			b.fails(eds, "b", notFound)
			b.expect(p.lists(), "EDS a1 !b")
			b.fails(eds, "b", notFound)
			b.expect(p.lists())
			version := p.c.types[0].version().with(digest.Sum{})
			b.fails(eds, "a", codes.PermissionDenied)
			b.expect(p.lists(), "EDS !a")
			if got := p.took[0].SystemVersion; got != cache.EmptyVersion() || got == version {
				b.Errorf("ACK-4: version %q after %q, where nothing is held any more", got, version)
			}
			p.sub(eds, "b")
			b.expect(p.lists(), "EDS !b")
			b.says(eds, "+b@1")
			b.expect(p.lists(), "EDS b1")
		},
		"ERR-1 an error that passes, of what is held": func(b *bed) {
			p := b.joinAs(bareForm)
			p.sub(eds, "a")
			b.connect(0)
			b.says(eds, "+a@1")
			b.expect(p.lists(), "EDS a1")
			version := p.took[0].SystemVersion
			b.fails(eds, "a", unavailable)
			b.expect(p.lists(), "EDS !a")
			if got := p.took[0].SystemVersion; got != version {
				b.Errorf("ACK-4: version %q, and %q of the same", got, version)
			}
			late := b.joinAs(wrappedForm)
			late.sub(eds, "a")
			if got := late.lists(); len(got) != 1 || late.took[0].SystemVersion != version {
				b.Errorf("told %q", got)
			}
		},
		"ERR-1 RES-2 a list with an error holds everything": func(b *bed) {
			p := b.joinAs(bareForm)
			p.sub(cds, "*")
			b.connect(0)
			b.says(cds, "+a@1", "+b@1")
			b.expect(p.lists(), "CDS a1 b1")
			b.respond(cds, "!a", "!c")
			b.expect(p.lists(), "CDS a1 b1 !a !c")
			b.expect(p.lists())
			b.respond(cds, "?b")
			b.expect(p.lists(), "CDS a1 !b")
			b.says(cds, "+a@1")
			b.expect(p.lists(), "CDS a1")
			b.respond(cds, "!*")
			b.expect(p.lists(), "CDS a1 !*")
		},
		"ERR-1 SUB-4 errors of * are under the name that the client gave it": func(b *bed) {
			p := b.joinAs(bareForm)
			p.c.Update(&Change{TypeURL: cds, Subscribe: []cache.Name{{Key: cache.Wildcard}}})
			b.connect(0)
			b.says(cds, "+a@1")
			b.respond(cds, "!*")
			b.expect(p.lists(), "CDS a1 !")
		},
		"ERR-1 ACK-5 a client that has the list is sent it for the error": func(b *bed) {
			one := b.joinAs(bareForm)
			one.sub(cds, "*")
			b.connect(0)
			b.says(cds, "+a@1")
			b.settle()
			one.lists()
			version := one.took[0].SystemVersion
			same := b.joinAs(bareForm)
			same.show(cds, version, "*")
			b.expect(same.lists())
			b.respond(cds, "!b")
			other := b.joinAs(bareForm)
			other.show(cds, version, "*")
			b.expect(other.lists(), "CDS a1 !b")
			b.expect(same.lists(), "CDS a1 !b")
		},
		"ERR-1 ADS-1 while a list still holds a cluster its error waits": func(b *bed) {
			for _, subs := range [][]string{{"*"}, {"a", "b"}} {
				p := b.joinAs(bareForm)
				p.sub(cds, subs...)
				p.sub(rds, "r")
				b.connect(0)
				b.connect(1)
				feed := 0
				if subs[0] != "*" {
					feed = 1
				}
				b.saysOn(feed, cds, "+a@1", "+b@1")
				b.says(rds, "+r@1")
				p.lists()
				p.busy[rds] = true
				b.says(rds, "+r@2")
				b.failsOn(feed, cds, "b", notFound)
				b.expect(p.lists())
				b.failsOn(feed, cds, "a", unavailable)
				switch feed {
				case 0: // the log of errors is told in its order
					b.expect(p.lists())
				case 1:
					b.expect(p.lists(), "CDS a1 b1 !a")
				}
				p.busy[rds] = false
				b.expect(p.lists(), "RDS r2")
				switch feed {
				case 0:
					b.expect(p.lists(), "CDS a1 !b !a")
				case 1:
					b.expect(p.lists(), "CDS a1 !b")
				}
				p.leave()
			}
		},
		"ERR-1 ADS-1 endpoints go with an error behind the routes": func(b *bed) {
			p := b.joinAs(bareForm)
			p.sub(eds, "a")
			p.sub(rds, "r")
			b.connect(0)
			b.says(eds, "+a@1")
			b.says(rds, "+r@1")
			p.lists()
			p.busy[rds] = true
			b.says(rds, "+r@2")
			b.fails(eds, "a", notFound)
			b.expect(p.lists())
			p.busy[rds] = false
			b.expect(p.lists(), "RDS r2")
			b.expect(p.lists(), "EDS !a")
		},
		"ERR-1 GLOB-7 NAME-4 globs and their members": func(b *bed) {
			p, list := b.joinAs(bareForm), b.joinAs(bareForm)
			p.sub(eds, globQ2)
			list.sub(cds, globQ2, "a")
			b.connect(0)
			b.respond(eds, "!"+globQ, "?"+nameQ)
			b.respond(cds, "!"+globQ, "?"+nameQ)
			b.expect(p.lists(), "EDS !"+globQ2+" !"+nameQ2)
			b.expect(list.lists()) // it would be an empty one (ABS-1)
			b.respond(cds, "+a@1")
			b.expect(list.lists(), "CDS a1 !"+globQ2+" !"+nameQ2)
			b.expect(append(p.lists(), list.lists()...))
		},
		"ERR-1 a change and an error go in one response": func(b *bed) {
			p := b.joinAs(bareForm)
			p.sub(eds, "a", "b")
			b.connect(0)
			b.respond(eds, "+a@1", "!b")
			b.expect(p.lists(), "EDS a1 !b")
		},
		"ERR-1 RES-2 lists of several stores are joined with their errors": func(b *bed) {
			other := b.cache.Open(cache.Source{Quiet: quiet, FullState: map[string]bool{cds: true}})
			p := b.joinAs(bareForm)
			place := Join(other, ringing(p.bell), bareForm)
			p.sub(cds, "a", "b")
			place.Update(&Change{TypeURL: cds, Subscribe: names([]string{"c"})})
			b.connect(0)
			b.respond(cds, "+a@1", "!b")
			batches, _ := collectStates([]*Place{p.c, place}, func(string) bool { return false }, 1<<20, 8)
			if len(batches) != 1 {
				b.Fatalf("%d batches", len(batches))
			}
			b.expect([]string{renderState(b, batches[0])}, "CDS a1 !b")
			place.Leave()
		},
	} {
		t.Run(name, func(t *testing.T) { run(newBed(t, cache.Limits{})) })
	}
}

// TestSnapshotErrors: clients that poll.
func TestSnapshotErrors(t *testing.T) {
	b := newBed(t, cache.Limits{})
	p := b.joinAs(bareForm)
	p.sub(cds, "a", "b", globQ2)
	b.connect(0)
	b.says(cds, "+a@1")
	before := p.shows(cds, "a=1 (incomplete)")
	b.respond(cds, "!a", "?b", "!"+nameQ, "?"+globQ)
	p.rang()
	s := p.shows(cds, "a=1 !a !b !"+nameQ2+" !"+globQ2)
	if s.Digest == before.Digest || s.Version != s.Digest {
		t.Errorf("ERR-1: version %q and digest %q with errors, %q and %q without", s.Version, s.Digest, before.Version, before.Digest)
	}
	if again := p.shows(cds, "a=1 !a !b !"+nameQ2+" !"+globQ2); again.Digest != s.Digest {
		t.Error("ERR-1: the same errors have another digest")
	}
	b.respond(cds, "+a@1", "?b")
	p.shows(cds, "a=1 !b !"+nameQ2+" !"+globQ2)

	empty := TakeSnapshot(nil, cds, NamedError{s.Errors[0].Error, "x"})
	if len(empty.Errors) != 1 || empty.Digest == cache.EmptyVersion() || !empty.Complete {
		t.Errorf("LOC-4: a snapshot of what the relay says itself: %+v", empty)
	}
}
