package delivery

import (
	"fmt"
	"sync"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"google.golang.org/protobuf/proto"
)

// also gives the stream a place in another store, and what that store is filled by.
func (p *peer) also() *peer {
	p.Helper()
	return p.alsoOf(cache.Source{Quiet: quiet, FullState: map[string]bool{cds: true}})
}

// alsoOf is also for a store of a source.
func (p *peer) alsoOf(source cache.Source) *peer {
	p.Helper()
	b := &bed{TB: p.TB, cache: p.cache, seen: p.seen, store: p.cache.Open(source)}
	return &peer{bed: b, s: p.s, c: p.s.Join(b.store), bell: p.bell, busy: p.busy, size: p.size}
}

// starred is a stream that follows "*" in one store, which has brought it something and is
// complete, and has a place in another one.
func (b *bed) starred(form Form, words ...string) (star, named *peer) {
	b.Helper()
	star = b.joinAs(form)
	star.sub(cds, "*")
	b.connect(0)
	b.says(cds, words...)
	b.settle()
	if form.State {
		star.lists()
	} else {
		star.collect()
	}
	return star, star.also()
}

// A stream has places in several stores: "*" is in one, and what it names or follows by a glob
// is in others.
func TestOverlapStores_SUB8_GLOB5_LOC3_AGG1(t *testing.T) {
	for name, run := range map[string]func(b *bed){
		"AGG-1 SUB-8 what is named elsewhere * does not tell until the name has ended": func(b *bed) {
			star, named := b.starred(Form{}, "+a@1", "+b@1")
			named.sub(cds, "a")
			named.connect(0)
			named.says(cds, "+a@other")
			star.expect(star.collect(), "CDS +a@other")
			star.says(cds, "+a@2", "+b@2")
			star.expect(star.collect(), "CDS +b@2")
			star.says(cds, "-a")
			star.expect(star.collect())
			star.says(cds, "+a@3")
			star.expect(star.collect())
			named.unsub(cds, "a")
			star.expect(star.collect(), "CDS +a@3")
			star.says(cds, "-a")
			star.expect(star.collect(), "CDS -a")
		},
		"SUB-8 what * does not have is told as removed, once it is complete": func(b *bed) {
			star := b.join()
			star.sub(cds, "*")
			named := star.also()
			named.sub(cds, "a", "b")
			b.connect(0)
			named.connect(0)
			named.says(cds, "+a@1", "+b@1")
			star.collect()
			named.unsub(cds, "a", "b")
			b.says(cds, "+c@1")
			star.expect(star.collect(), "CDS +c@1")
			named.sub(cds, "b")
			star.expect(star.collect(), "CDS +b@1")
			b.settle()
			star.expect(star.collect(), "CDS -a")
			named.unsub(cds, "b")
			star.expect(star.collect(), "CDS -b")
		},
		"SUB-8 nobody answers when * has ended too": func(b *bed) {
			star, named := b.starred(Form{}, "+a@1")
			named.sub(cds, "a", "b")
			named.connect(0)
			named.says(cds, "+a@1", "+b@1")
			star.collect()
			named.unsub(cds, "a")
			star.unsub(cds, "*")
			named.unsub(cds, "b")
			star.expect(star.collect())
		},
		"GLOB-5 SUB-8 a glob answers for a name before * does": func(b *bed) {
			star, named := b.starred(Form{}, "+"+nameG1+"@star")
			named.sub(cds, globG, nameG1, nameG2)
			named.connect(0)
			named.says(cds, "+"+nameG1+"@1", "-"+nameG2)
			named.settle()
			star.collect()
			named.unsub(cds, nameG1, nameG2)
			star.expect(star.collect(), "CDS +"+nameG1+"@1 -"+nameG2)
			named.sub(cds, nameG1)
			star.collect()
			named.unsub(cds, nameG1, globG)
			star.expect(star.collect(), "CDS +"+nameG1+"@star")
		},
		"GLOB-5 SUB-8 a glob that begins answers in place of * that has not answered yet": func(b *bed) {
			star := b.join()
			star.sub(cds, "*")
			named := star.also()
			named.sub(cds, nameG1)
			named.connect(0)
			named.unsub(cds, nameG1)
			named.sub(cds, globG)
			named.demand(0)
			named.says(cds, "+"+nameG1+"@1")
			star.expect(star.collect(), "CDS +"+nameG1+"@1")
			b.connect(0)
			b.says(cds, "+a@1")
			b.settle()
			star.expect(star.collect(), "CDS +a@1", "CDS +"+nameG1+"@1")
		},
		"GLOB-5 a glob answers for what * loses": func(b *bed) {
			star, named := b.starred(Form{}, "+a@1", "+"+nameG1+"@1", "+"+nameG2+"@1")
			named.sub(cds, globG)
			named.connect(0)
			named.says(cds, "+"+nameG1+"@1")
			star.expect(star.collect(), "CDS +"+nameG1+"@1")
			star.says(cds, "-a", "-"+nameG1, "-"+nameG2)
			star.expect(star.collect(), "CDS -a", "CDS +"+nameG1+"@1")
			named.settle() // only now it is known that there is no second member
			star.expect(star.collect(), "CDS -"+nameG2)
		},
		"GLOB-5 RES-11 a glob answers for what the client said it holds and * has not": func(b *bed) {
			star := b.join()
			star.resume(cds, []string{nameG1 + "@1"}, "*")
			named := star.also()
			named.sub(cds, globG)
			named.connect(0)
			named.says(cds, "+"+nameG1+"@1")
			star.expect(star.collect(), "CDS +"+nameG1+"@1")
			b.connect(0)
			b.says(cds, "+a@1")
			b.settle()
			star.expect(star.collect(), "CDS +a@1", "CDS +"+nameG1+"@1")
		},
		"GLOB-5 RES-11 what the client said it holds a glob may have replaced": func(b *bed) {
			star := b.join()
			star.resume(cds, []string{nameG1 + "@1"}, "*")
			named := star.also()
			named.sub(cds, globG)
			named.connect(0)
			named.says(cds, "+"+nameG1+"@2")
			star.expect(star.collect(), "CDS +"+nameG1+"@2")
			named.unsub(cds, globG)
			b.connect(0)
			b.says(cds, "+"+nameG1+"@1")
			star.expect(star.collect(), "CDS +"+nameG1+"@1")
		},
		"ERR-1 LOC-3 errors that * has of what is named elsewhere are not told": func(b *bed) {
			star, named := b.starred(Form{}, "+a@1", "+b@1")
			named.sub(cds, "b")
			star.fails(cds, "b", notFound)
			star.fails(cds, "a", unavailable)
			star.expect(star.collect(), "CDS !a")
		},
		"RES-2 RES-4 a list has what is named from where it is named, and from * as long as nobody has answered": func(b *bed) {
			star, named := b.starred(Form{State: true}, "+a@1", "+b@1")
			named.sub(cds, "a")
			named.connect(0)
			star.says(cds, "+b@2")
			star.expect(star.lists(), "CDS a1 b2")
			named.says(cds, "+a@other")
			star.expect(star.lists(), "CDS aother b2")
			named.says(cds, "-a")
			star.expect(star.lists(), "CDS b2")
			named.unsub(cds, "a")
			star.expect(star.lists(), "CDS a1 b2")
		},
	} {
		t.Run(name, func(t *testing.T) { run(newBed(t, cache.Limits{})) })
	}
}

// A rule may put each name that a client asks for into a scope of its own: then "*" is not held
// up by looking through all of them for each member.
func TestOverlapStores_AGG1_LIM2_Many(t *testing.T) {
	star, first := newBed(t, cache.Limits{}).starred(Form{}, "+a0@1")
	others := []*peer{first}
	for range 2 * maxParts {
		others = append(others, star.also())
	}
	for i, p := range others {
		p.sub(cds, fmt.Sprint("a", i))
	}
	w := star.c.find(cds)
	if len(w.subs.parts.names) != len(others) {
		t.Fatalf("%d names are counted, want %d", len(w.subs.parts.names), len(others))
	}
	for i, p := range others {
		star.says(cds, fmt.Sprintf("+a%d@2", i))
		star.expect(star.collect())
		p.unsub(cds, fmt.Sprint("a", i))
		star.expect(star.collect(), fmt.Sprintf("CDS +a%d@2", i))
	}
	if len(w.subs.parts.names) != 0 || len(w.subs.parts.all) != 1 {
		t.Errorf("%d names and %d stores are left", len(w.subs.parts.names), len(w.subs.parts.all))
	}
}

// Two stores change at once while streams begin and end names and globs in the one and "*" in the
// other: a stream reads its own indexes of both under the lock of one (for the race
// detector), and holds in the end what it subscribes to.
func TestOverlapStores_SUB8_GLOB5_Concurrent(t *testing.T) {
	const changes = 300
	c := cache.New(cache.Limits{}, nil)
	stores := []*cache.Store{c.Open(cache.Source{Quiet: quiet}), c.Open(cache.Source{Quiet: quiet})}
	anchor := NewSubscriber(func() {}, Form{})
	anchor.Join(stores[0]).Update(&Change{TypeURL: cds, Subscribe: names([]string{"*"})})
	anchor.Join(stores[1]).Update(&Change{TypeURL: cds, Subscribe: names([]string{globG})})
	for _, s := range stores {
		s.Session().Restart(streamOf(0), 0)
	}
	var servers, clients sync.WaitGroup
	for _, s := range stores {
		servers.Go(func() {
			for i := range changes {
				words := []string{fmt.Sprintf("+%s@%d", nameG1, i)}
				if i%3 == 1 {
					words = []string{"-" + nameG1}
				}
				if err := s.Session().Apply(streamOf(0), response(cds, words...), time.Now()); err != nil {
					t.Error(err)
				}
			}
			s.Session().Settle(time.Now().Add(time.Hour))
		})
	}
	done := make(chan struct{})
	for n := range 4 {
		clients.Go(func() {
			s := NewSubscriber(func() {}, Form{})
			held := map[string]string{}
			take := func() {
				for more := true; more; {
					batches, left, err := s.Collect(paceOf(never, 1<<20, 8))
					if err != nil {
						t.Error(err)
						return
					}
					for _, b := range batches {
						keepHeld(t, b, held)
					}
					more = left.More
				}
			}
			star, named := s.Join(stores[0]), s.Join(stores[1])
			star.Update(&Change{TypeURL: cds, Subscribe: names([]string{"*"})})
			named.Update(&Change{TypeURL: cds, Subscribe: names([]string{globG})})
			for i := n; ; i++ {
				ch := Change{TypeURL: cds, Subscribe: names([]string{nameG1})}
				if i%2 == 1 {
					ch = Change{TypeURL: cds, Unsubscribe: names([]string{nameG1})}
				}
				named.Update(&ch)
				take()
				select {
				case <-done:
					take()
					if want := fmt.Sprint(changes - 1); held[nameG1] != want {
						t.Errorf("holds %q, want %q", held[nameG1], want)
					}
					s.Leave()
					return
				default:
				}
			}
		})
	}
	servers.Wait()
	close(done)
	clients.Wait()
	for _, s := range stores {
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
}

// keepHeld notes what a client holds that is sent a response.
func keepHeld(tb testing.TB, b *Batch, held map[string]string) {
	tb.Helper()
	var r discovery.DeltaDiscoveryResponse
	if err := proto.Unmarshal(b.Body.Finish(b.TypeURL, b.SystemVersion, "n").Bytes(), &r); err != nil {
		tb.Error(err)
		return
	}
	for _, x := range r.Resources {
		held[x.Name] = x.Version
	}
	for _, name := range r.RemovedResources {
		delete(held, name)
	}
}
