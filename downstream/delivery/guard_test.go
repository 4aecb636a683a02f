package delivery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// holdFor is how long the guard of the schedules holds.
const holdFor = 5 * time.Minute

func guard() hold.Guard { return hold.Guard{Share: 0.5, AtLeast: 20, Hold: holdFor} }

func newGuarded(tb testing.TB, state bool) *bed {
	tb.Helper()
	return newBedOf(tb, cache.Limits{}, cache.Source{
		Quiet: quiet, Absent: absentAfter, State: state, FullState: map[string]bool{cds: true, lds: true}, Guard: guard(),
	})
}

// newFilled is such a store with 20 clusters, and a client that has them.
func newFilled(tb testing.TB) (*bed, *peer) {
	tb.Helper()
	b := newGuarded(tb, false)
	c := b.join()
	c.sub(cds, "*")
	b.connect(0)
	b.says(cds, many("+", "m", 0, 20, "@1")...)
	b.elapses(quiet)
	c.collect()
	return b, c
}

// elapses lets time pass and settles, and returns when to settle next.
func (b *bed) elapses(d time.Duration) time.Time {
	b.Helper()
	<-time.After(d)
	at := b.store.Session().Settle(time.Now())
	b.check()
	return at
}

// seen is what a new client is sent of a whole type: how many resources.
func (b *bed) seenByNew(typeURL string, spellings ...string) int {
	b.Helper()
	c := b.join()
	defer c.leave()
	c.sub(typeURL, spellings...)
	n := 0
	for _, line := range c.collect() {
		n += strings.Count(line, "+")
	}
	return n
}

func (b *bed) holdsBack(want int) {
	b.Helper()
	n, counted := 0, 0
	for _, h := range b.store.Operator().Held(false) {
		if h.Why == cache.HeldByGuard {
			n += h.Lost
		}
	}
	for _, st := range b.store.Stats() {
		counted += st.Held
	}
	if n != want || counted != want {
		b.Fatalf("%d losses are held, counted as %d, want %d", n, counted, want)
	}
}

// assignment is "+name@version" of endpoints: so many of them.
func assignment(name, version string, endpoints int) *wire.Resource {
	l := &endpointv3.ClusterLoadAssignment{ClusterName: name}
	if endpoints > 0 {
		l.Endpoints = []*endpointv3.LocalityLbEndpoints{{LbEndpoints: make([]*endpointv3.LbEndpoint, endpoints)}}
		for i := range endpoints {
			l.Endpoints[0].LbEndpoints[i] = &endpointv3.LbEndpoint{HealthStatus: 1}
		}
	}
	a, err := anypb.New(l)
	if err != nil {
		panic(err)
	}
	r, err := wire.NewResource(&discovery.Resource{Name: name, Version: version, Resource: a})
	if err != nil {
		panic(err)
	}
	return r
}

// assigns applies assignments: "name" with endpoints each.
func (b *bed) assigns(version string, endpoints int, names ...string) {
	b.Helper()
	r := &wire.Response{TypeURL: eds}
	for _, n := range names {
		r.Resources = append(r.Resources, assignment(n, version, endpoints))
	}
	if err := b.apply(0, r); err != nil {
		b.Fatalf("Apply: %v", err)
	}
}

// A loss of many resources at once is held: clients keep them, new ones get them (SUR-3).
func TestGuard_SUR3(t *testing.T) {
	for name, f := range map[string]func(b *bed, c *peer){
		"removals of all are held, served to new clients, and come back unseen": func(b *bed, c *peer) {
			b.says(cds, many("-", "m", 0, 20, "")...)
			b.expect(c.collect())
			b.expect(b.seen.held, "CDS 20/20")
			b.holdsBack(20)
			if n := b.seenByNew(cds, "*"); n != 20 {
				b.Fatalf("a new client gets %d", n)
			}
			b.elapses(2 * time.Minute)
			b.says(cds, many("+", "m", 0, 20, "@1")...)
			b.expect(c.collect())
			b.holdsBack(0)
			b.expect(b.seen.held, "CDS 20/20", "CDS 0/20 return")
			if at := b.elapses(time.Hour); !at.IsZero() {
				b.Fatalf("something waits until %v", at)
			}
			b.expect(c.collect())
		},
		"they come back with other content": func(b *bed, c *peer) {
			b.says(cds, many("-", "m", 0, 20, "")...)
			b.says(cds, many("+", "m", 0, 10, "@1")...)
			b.holdsBack(10)
			b.says(cds, many("+", "m", 10, 20, "@2")...)
			b.holdsBack(0)
			b.expect(c.collect(), "CDS "+strings.Join(many("+", "m", 10, 20, "@2"), " "))
		},
		"a real removal goes out after the time, once": func(b *bed, c *peer) {
			b.says(cds, many("-", "m", 0, 16, "")...) // 80 % would be 16: too few
			b.expect(c.collect(), "CDS "+strings.Join(many("-", "m", 0, 16, ""), " "))
			b.says(cds, many("+", "m", 0, 80, "@1")...)
			c.collect()
			b.elapses(time.Minute)
			b.says(cds, many("-", "m", 0, 64, "")...)
			b.expect(c.collect())
			if at := b.elapses(holdFor - time.Second); !at.Equal(time.Now().Add(time.Second)) {
				b.Fatalf("released at %v", at)
			}
			b.expect(c.collect())
			b.elapses(time.Second)
			if got := c.collect(); len(got) != 1 || strings.Count(got[0], " -") != 64 {
				b.Fatalf("got %q", got)
			}
			b.expect(b.seen.held, "CDS 64/80", "CDS 64/80 time")
			b.expect(c.collect())
		},
		"what else changes meanwhile flows": func(b *bed, c *peer) {
			b.says(cds, many("-", "m", 0, 19, "")...)
			c.collect()
			b.says(cds, many("+", "m", 0, 30, "@1")...)
			c.collect()
			b.elapses(time.Minute)
			b.says(cds, slices.Concat(many("-", "m", 0, 25, ""), []string{"+m00029@2", "+new@1"})...)
			b.expectAll(c.collect(), "CDS +m00029@2 +new@1")
			b.holdsBack(25)
			b.says(cds, "-m00029") // belongs to it
			b.expect(c.collect())
			b.holdsBack(26)
		},
		"a small loss passes": func(b *bed, c *peer) {
			b.says(cds, many("+", "m", 0, 1000, "@1")...)
			c.collect()
			b.says(cds, many("-", "m", 0, 10, "")...)
			b.expect(c.collect(), "CDS "+strings.Join(many("-", "m", 0, 10, ""), " "))
			b.says(cds, many("-", "m", 10, 300, "")...)
			if got := c.collect(); len(got) == 0 {
				b.Fatal("29 % of 1,000 were held")
			}
			b.expect(b.seen.held)
		},
		"others in their place are no loss": func(b *bed, c *peer) {
			b.says(cds, slices.Concat(many("-", "m", 0, 20, ""), many("+", "n", 0, 20, "@1"))...)
			b.expect(c.collect(), "CDS "+strings.Join(append(many("+", "n", 0, 20, "@1"), many("-", "m", 0, 20, "")...), " "))
			b.expect(b.seen.held)
		},
		"what trickles passes, and a burst in parts counts together": func(b *bed, c *peer) {
			b.says(cds, many("+", "m", 0, 40, "@1")...)
			c.collect()
			for i := range 20 {
				b.says(cds, fmt.Sprintf("-m%05d", i))
				b.elapses(2 * time.Second)
			}
			b.holdsBack(0)
			b.says(cds, many("+", "m", 0, 40, "@1")...)
			c.collect()
			b.elapses(time.Minute)
			for i := range 40 {
				b.says(cds, fmt.Sprintf("-m%05d", i))
				b.elapses(100 * time.Millisecond)
			}
			b.holdsBack(21)
		},
		"a client that resumes keeps what is held": func(b *bed, _ *peer) {
			b.says(cds, many("-", "m", 0, 20, "")...)
			late := b.join()
			late.resume(cds, many("", "m", 0, 20, "@1"), "*")
			b.settle0()
			b.expect(late.collect())
		},
		"the relay resumes without it, and time runs on": func(b *bed, c *peer) {
			b.says(cds, many("-", "m", 0, 20, "")...)
			b.elapses(4 * time.Minute)
			b.store.Session().Lost(streamOf(0))
			b.expect(b.connect(0), "CDS +*")
			b.says(cds)
			b.elapses(quiet)
			b.expect(c.collect())
			b.holdsBack(20)
			b.elapses(time.Minute - quiet)
			b.expect(c.collect(), "CDS "+strings.Join(many("-", "m", 0, 20, ""), " "))
		},
		"after a resume a server that has it again sends it": func(b *bed, c *peer) {
			b.says(cds, many("-", "m", 0, 20, "")...)
			b.store.Session().Lost(streamOf(0))
			b.connect(0)
			b.says(cds, many("+", "m", 0, 20, "@1")...)
			b.elapses(time.Hour)
			b.expect(c.collect())
			b.holdsBack(0)
		},
		"what is not mentioned on a stream that could not present it is held": func(b *bed, c *peer) {
			b.store.Session().Lost(streamOf(0))
			b.expect(b.connectWithin(0, 1), "CDS +*")
			b.says(cds)
			b.elapses(quiet)
			b.expect(c.collect())
			b.holdsBack(20)
			b.elapses(holdFor)
			b.expect(c.collect(), "CDS "+strings.Join(many("-", "m", 0, 20, ""), " "))
		},
		"an empty glob": func(b *bed, c *peer) {
			const dir = "xdstp://x/envoy.config.cluster.v3.Cluster/g/"
			c.sub(cds, globG)
			b.connect(1)
			b.saysOn(1, cds, many("+"+dir, "", 0, 20, "@1")...)
			c.collect()
			b.saysOn(1, cds, "-"+globG)
			b.expect(c.collect())
			b.holdsBack(20)
			b.elapses(holdFor)
			if got := c.collect(); len(got) != 1 || strings.Count(got[0], " -") != 20 {
				b.Fatalf("got %q", got)
			}
		},
		"a type with few resources goes with the others": func(b *bed, c *peer) {
			c.sub(rds, "r")
			b.saysRoute("+r@1")
			c.collect()
			b.says(cds, many("-", "m", 0, 20, "")...)
			b.saysRoute("-r")
			b.expect(c.collect())
			b.holdsBack(21)
			b.elapses(holdFor)
			b.expect(c.collect(), "RDS -r")
			b.expect(c.collect(), "CDS "+strings.Join(many("-", "m", 0, 20, ""), " "))
		},
		"a type with few resources that goes first waits for the others": func(b *bed, c *peer) {
			c.sub(lds, "*")
			b.demand(0)
			b.says(lds, "+l@1")
			b.elapses(quiet)
			c.collect()
			b.says(lds, "-l")
			b.expect(c.collect())
			b.expect(b.seen.held)
			b.holdsBack(0) // nothing that operators are shown
			b.elapses(quiet - time.Millisecond)
			b.says(cds, many("-", "m", 0, 20, "")...)
			b.expect(c.collect())
			b.holdsBack(21)
			b.expect(b.seen.held, "CDS 20/20", "LDS 1/1")
			b.elapses(holdFor - time.Second)
			b.expect(c.collect())
			b.elapses(time.Second)
			b.expect(c.collect(), "LDS -l")
			b.expect(c.collect(), "CDS "+strings.Join(many("-", "m", 0, 20, ""), " "))
		},
		"a type with few resources that goes alone waits a moment": func(b *bed, c *peer) {
			c.sub(lds, "*")
			c.sub(rds, "r")
			b.demand(0)
			b.says(lds, "+l@1")
			b.saysRoute("+r@1")
			b.elapses(quiet)
			c.collect()
			b.says(lds, "-l")
			b.expect(c.collect())
			b.elapses(quiet / 2)
			b.saysRoute("-r")
			b.expect(c.collect())
			b.elapses(quiet / 2)
			b.expectAll(c.collect(), "LDS -l")
			b.expect(c.collect(), "RDS -r")
			b.holdsBack(0)
			b.says(lds, "+l@1", "+k@1")
			c.collect()
			b.says(lds, "-l", "+j@1")
			b.expect(c.collect(), "LDS +j@1 -l")
			b.expect(b.seen.held)
		},
		"a type with few resources that goes later, while others are held, passes": func(b *bed, c *peer) {
			c.sub(lds, "*")
			b.demand(0)
			b.says(lds, "+l@1")
			b.elapses(quiet)
			c.collect()
			b.says(cds, many("-", "m", 0, 20, "")...)
			b.elapses(time.Minute)
			b.says(lds, "-l")
			b.expect(c.collect(), "LDS -l")
			b.holdsBack(20)
		},
		"a resource that does not exist by an error": func(b *bed, c *peer) {
			r := &wire.Response{TypeURL: cds}
			for i := range 20 {
				r.Errors = append(r.Errors, wire.ResourceError{Name: fmt.Sprintf("m%05d", i), Code: notFound, Message: "why"})
			}
			if err := b.apply(0, r); err != nil {
				b.Fatal(err)
			}
			b.expect(c.collect())
			b.holdsBack(20)
			b.elapses(holdFor)
			if got := c.collect(); len(got) == 0 || strings.Count(strings.Join(got, " "), " !") != 20 {
				b.Fatalf("got %q", got)
			}
		},
		"behind a relay it passes, unless that is wanted": func(b *bed, c *peer) {
			r := response(cds, many("-", "m", 0, 20, "")...)
			r.ControlPlane = "istiod via xdsrelay/first"
			if err := b.apply(0, r); err != nil {
				b.Fatal(err)
			}
			if len(c.collect()) == 0 {
				b.Fatal("held twice")
			}
			b.says(cds, many("+", "m", 0, 20, "@2")...)
			c.collect()
			both := guard()
			both.BehindRelays = true
			b.store.Session().SetGuard(both)
			b.elapses(time.Minute)
			b.says(cds, many("-", "m", 0, 20, "")...)
			b.expect(c.collect())
			b.holdsBack(20)
		},
		"a ttl runs out all the same": func(b *bed, c *peer) {
			b.says(cds, many("+", "m", 0, 20, "@2~60s")...)
			c.collect()
			b.says(cds, many("-", "m", 0, 20, "")...)
			b.holdsBack(20)
			b.elapses(time.Minute)
			if len(c.collect()) == 0 {
				b.Fatal("they outlived their ttl")
			}
			b.holdsBack(0)
		},
		"nobody follows any longer": func(b *bed, c *peer) {
			b.says(cds, many("-", "m", 0, 20, "")...)
			c.leave()
			b.letGo()
			b.demand(0)
			b.elapses(time.Second)
			b.holdsBack(0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(newFilled(t)) })
		})
	}
}

// After a reconnection other types may have streams of their own, which come later.
func TestGuardReconnection_SUR3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const long = 15 * time.Second
		b := newBedOf(t, cache.Limits{}, cache.Source{
			Quiet: quiet, ResumeQuiet: long, FullState: map[string]bool{cds: true, lds: true}, Guard: guard(),
		})
		c := b.join()
		c.sub(cds, "*")
		c.sub(lds, "*")
		b.connect(0)
		b.says(cds, many("+", "m", 0, 20, "@1")...)
		b.says(lds, "+l@1")
		b.elapses(quiet)
		c.collect()
		b.store.Session().Lost(streamOf(0))
		b.connect(0)
		b.says(lds, "-l")
		b.elapses(long - time.Second)
		b.expect(c.collect())
		b.says(cds, many("-", "m", 0, 20, "")...)
		b.expect(c.collect())
		b.holdsBack(21)
		b.says(cds, many("+", "m", 0, 20, "@1")...)
		b.says(lds, "+l@1")
		b.holdsBack(0)
		b.expect(c.collect())

		b.store.Session().Lost(streamOf(0))
		b.connect(0)
		b.says(lds, "-l")
		b.elapses(long - time.Second)
		b.expect(c.collect())
		b.elapses(time.Second)
		b.expect(c.collect(), "LDS -l")
	})
}

// saysRoute applies a response for routes on the stream that has names.
func (b *bed) saysRoute(words ...string) {
	b.Helper()
	b.demand(0)
	b.demand(1)
	b.saysOn(0, rds, words...)
}

// settle0 ends the quiet times that are due now.
func (b *bed) settle0() { b.elapses(0) }

// A server of the state of the world leaves out what is gone.
func TestGuardState_SUR3(t *testing.T) {
	for name, f := range map[string]func(b *bed, c *peer){
		"an empty list": func(b *bed, c *peer) {
			b.state(cds, "2")
			b.expect(c.lists())
			b.holdsBack(25)
			version := StateVersion([]*Place{c.c}, cds)
			if version == "2" || version == "1" {
				b.Fatalf("clients are shown %q for what it does not stand for", version)
			}
			b.state(cds, "2") // said again
			b.holdsBack(25)
			b.state(cds, "3", many("+", "m", 0, 25, "@1")...)
			b.expect(c.lists())
			b.holdsBack(0)
			if version := StateVersion([]*Place{c.c}, cds); version != "3" {
				b.Fatalf("clients are shown %q", version)
			}
		},
		"a real removal goes out after the time": func(b *bed, c *peer) {
			b.state(cds, "2", many("+", "m", 0, 5, "@1")...)
			b.state(cds, "3", append(many("+", "m", 0, 4, "@1"), "+m00004@2")...)
			if got := c.lists(); len(got) != 1 || strings.Count(got[0], " m") != 25 {
				b.Fatalf("got %q", got)
			}
			b.elapses(holdFor)
			b.expect(c.lists(), "CDS "+strings.Join(append(many("", "m", 0, 4, "1"), "m000042"), " "))
			if version := StateVersion([]*Place{c.c}, cds); version != "3" {
				b.Fatalf("clients are shown %q", version)
			}
		},
		"names of a type that is listed whole": func(b *bed, c *peer) {
			c.sub(lds, many("", "l", 0, 20, "")...)
			b.demand(0)
			b.state(lds, "1", many("+", "l", 0, 20, "@1")...)
			c.lists()
			b.state(lds, "2")
			b.expect(c.lists())
			b.holdsBack(20)
			b.elapses(holdFor)
			b.expect(c.lists(), "LDS")
		},
		"others that come between the lists are no loss": func(b *bed, c *peer) {
			for i := range 40 {
				b.state(cds, fmt.Sprint("a", i), many("+", "m", i, i+26, "@1")...)
				b.state(cds, fmt.Sprint("b", i), many("+", "m", i+1, i+26, "@1")...)
			}
			b.holdsBack(0)
			if got := c.lists(); len(got) != 1 || strings.Count(got[0], " m") != 25 {
				b.Fatalf("got %q", got)
			}
		},
		"a list that is renamed is no loss": func(b *bed, c *peer) {
			b.state(cds, "2", many("+", "n", 0, 25, "@1")...)
			if got := c.lists(); len(got) == 0 {
				b.Fatal("nothing was sent")
			}
			b.holdsBack(0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newGuarded(t, true)
				c := b.joinAs(Form{State: true})
				c.sub(cds, "*")
				b.connect(0)
				b.state(cds, "1", many("+", "m", 0, 25, "@1")...)
				c.lists()
				f(b, c)
			})
		})
	}
}

// Listeners that come with held removals wait with them: they may need the same address.
func TestGuardListeners_SUR3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGuarded(t, false)
		c := b.join()
		c.sub(lds, "*")
		b.connect(0)
		b.says(lds, many("+", "m", 0, 40, "@1")...)
		c.collect()
		b.says(lds, slices.Concat(many("-", "m", 0, 30, ""), []string{"+new@1", "+m00039@2"})...)
		b.expect(c.collect())
		b.says(lds, "+newer@1")
		b.expect(c.collect())
		b.holdsBack(30)
		b.elapses(holdFor)
		got := strings.Join(c.collect(), " ")
		for _, want := range []string{"+new@1", "+newer@1", "+m00039@2", "-m00000"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s is missing in %q", want, got)
			}
		}
		b.holdsBack(0)

		b.says(lds, many("+", "m", 0, 30, "@3")...)
		c.collect()
		b.elapses(time.Minute)
		b.says(lds, slices.Concat(many("-", "m", 0, 30, ""), []string{"+last@1"})...)
		b.expect(c.collect())
		b.says(lds, many("+", "m", 0, 30, "@3")...)
		b.expect(c.collect(), "LDS +last@1") // all are back: nothing to wait for
	})
}

// An assignment that loses its last endpoints counts as removed; fewer endpoints do not.
func TestGuardEndpoints_SUR3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGuarded(t, false)
		c := b.join()
		names := many("", "m", 0, 20, "")
		c.sub(eds, names...)
		b.connect(0)
		b.assigns("1", 40, names...)
		c.collect()
		b.assigns("2", 15, names...)
		b.expect(c.collect(), "EDS "+strings.Join(many("+", "m", 0, 20, "@2"), " "))
		b.assigns("3", 0, names[:1]...)
		b.expect(c.collect(), "EDS +m00000@3")
		b.assigns("4", 15, names[:1]...)
		c.collect()
		b.elapses(time.Minute)
		b.assigns("5", 0, names...)
		b.expect(c.collect())
		b.holdsBack(20)
		if n := b.seenByNew(eds, names...); n != 20 {
			t.Fatalf("a new client gets %d", n)
		}
		b.assigns("6", 3, names[:5]...)
		b.expect(c.collect(), "EDS "+strings.Join(many("+", "m", 0, 5, "@6"), " "))
		b.holdsBack(15)
		b.elapses(holdFor)
		if got := c.collect(); len(got) != 1 || strings.Count(got[0], "@5") != 15 {
			t.Fatalf("got %q", got)
		}
	})
}

// What is not guarded passes: types that are excepted, and all where the guard is off.
func TestGuardPasses_SUR3(t *testing.T) {
	for name, g := range map[string]hold.Guard{
		"off":      {},
		"excepted": {Share: 0.5, AtLeast: 20, Hold: holdFor, Passes: func(typeURL string) bool { return typeURL == cds }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, FullState: map[string]bool{cds: true}, Guard: g})
			c := b.join()
			c.sub(cds, "*")
			b.connect(0)
			b.says(cds, many("+", "m", 0, 30, "@1")...)
			c.collect()
			b.says(cds, many("-", "m", 0, 30, "")...)
			b.expect(c.collect(), "CDS "+strings.Join(many("-", "m", 0, 30, ""), " "))
			b.holdsBack(0)
		})
	}
}

// Endpoints of a collection come and go in numbers, and what has a ttl runs out in numbers.
func TestGuardNumbers_SUR3(t *testing.T) {
	for name, f := range map[string]func(b *bed, c *peer){
		"an autoscaler takes 25 of 40 endpoints": func(b *bed, c *peer) {
			const glob = "xdstp://x/envoy.config.endpoint.v3.LbEndpoint/pool/*"
			dir := strings.TrimSuffix(glob, "*")
			c.sub(lbEndpoint, glob)
			b.connect(0)
			b.says(lbEndpoint, many("+"+dir, "", 0, 40, "@1")...)
			b.elapses(quiet)
			c.collect()
			b.says(lbEndpoint, many("-"+dir, "", 15, 40, "")...)
			if got := c.collect(); len(got) != 1 || strings.Count(got[0], " -") != 25 {
				b.Fatalf("got %q", got)
			}
		},
		"one of two services is scaled to zero, beside many clusters": func(b *bed, c *peer) {
			c.sub(cds, "*")
			c.sub(eds, "e", "f")
			b.connect(0)
			b.says(cds, many("+", "m", 0, 30, "@1")...)
			b.assigns("1", 1, "e", "f")
			b.elapses(quiet)
			c.collect()
			b.assigns("2", 0, "e")
			b.expect(c.collect(), "EDS +e@2")
		},
		"a ttl runs out": func(b *bed, c *peer) {
			c.sub(cds, "*")
			b.connect(0)
			b.says(cds, many("+", "m", 0, 40, "@1~60s")...)
			b.elapses(quiet)
			c.collect()
			b.elapses(time.Minute - quiet)
			if got := c.collect(); len(got) != 1 || strings.Count(got[0], " -") != 40 {
				b.Fatalf("got %q", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newGuarded(t, false)
				f(b, b.join())
				b.holdsBack(0)
				b.expect(b.seen.held)
			})
		})
	}
}

// Where nothing is lost, the guard costs an update no allocation.
func TestGuardCost_SUR3(t *testing.T) {
	measure := func(g hold.Guard) float64 {
		b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, Guard: g})
		c := b.join()
		c.sub(cds, "*")
		c.sub(eds, "e")
		b.connect(0)
		b.demand(1)
		var said [2][]*wire.Response
		for i := range said {
			said[i] = []*wire.Response{
				{TypeURL: cds, Resources: []*wire.Resource{resource(cds, fmt.Sprintf("m@%d", i))}},
				{TypeURL: eds, Resources: []*wire.Resource{assignment("e", fmt.Sprint(i), 2)}},
			}
		}
		rounds := 0
		return testing.AllocsPerRun(200, func() {
			rounds++
			for _, r := range said[rounds%2] {
				if err := b.store.Session().Apply(streamOf(0), r, time.Now()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	off, on := measure(hold.Guard{}), measure(guard())
	if on > off {
		t.Errorf("%v allocations with the guard, %v without", on, off)
	}
}

// withEndpoints has a client get an assignment beside its clusters and listeners.
func withEndpoints(b *bed, c *peer) {
	b.Helper()
	c.sub(eds, "e")
	b.demand(0)
	b.assigns("1", 1, "e")
	c.collect()
}

// Where a type has too few resources for the guard, the loss of all Listeners and all Clusters together is held (SUR-3).
func TestGuardSmall_SUR3(t *testing.T) {
	const small, settle = time.Minute, time.Second
	for name, f := range map[string]func(b *bed, c *peer){
		"clusters go, then listeners": func(b *bed, c *peer) {
			b.says(cds, "-a", "-b")
			b.expect(c.collect())
			b.elapses(settle - time.Millisecond)
			b.says(lds, "-l")
			b.expect(c.collect())
			b.holdsBack(3)
			b.expect(b.seen.held, "CDS 2/2", "LDS 1/1")
			if n := b.seenByNew(cds, "*"); n != 2 {
				b.Fatalf("a new client gets %d", n)
			}
			b.elapses(small - time.Millisecond)
			b.expect(c.collect())
			b.elapses(time.Millisecond)
			b.expect(c.collect(), "LDS -l")
			b.expect(c.collect(), "CDS -a -b")
			b.holdsBack(0)
		},
		"listeners go, then clusters, and both come back": func(b *bed, c *peer) {
			b.says(lds, "-l")
			b.says(cds, "-a")
			b.expect(c.collect(), "CDS -a") // one of two: others stay
			b.says(cds, "-b")
			b.holdsBack(2)
			b.says(lds, "+l@1")
			b.says(cds, "+b@1")
			b.holdsBack(0)
			b.expect(c.collect())
		},
		"clusters go, and listeners two seconds later": func(b *bed, c *peer) {
			b.says(cds, "-a", "-b")
			b.elapses(settle)
			b.expect(c.collect(), "CDS -a -b")
			b.elapses(settle)
			b.says(lds, "-l")
			b.expect(c.collect())
			b.holdsBack(1)
		},
		"clusters go, and listeners that the relay waits for longer than ten seconds": func(b *bed, c *peer) {
			b.store.Session().Lost(streamOf(0))
			b.connect(0)
			b.says(cds, "-a", "-b")
			b.elapses(hold.Burst + settle)
			b.expect(c.collect())
			b.says(lds, "-l")
			b.holdsBack(3)
		},
		"clusters go, and listeners eleven seconds later": func(b *bed, c *peer) {
			b.says(cds, "-a", "-b")
			b.elapses(hold.Burst + settle)
			b.expect(c.collect(), "CDS -a -b")
			b.says(lds, "-l")
			b.expect(c.collect(), "LDS -l")
			b.holdsBack(0)
		},
		"clusters alone": func(b *bed, c *peer) {
			b.says(cds, "-a", "-b")
			b.expect(c.collect())
			b.elapses(settle)
			b.expect(c.collect(), "CDS -a -b")
			b.expect(b.seen.held) // two are no news
		},
		"three clusters alone": func(b *bed, c *peer) {
			b.says(cds, "+c@1")
			b.expect(c.collect(), "CDS +c@1")
			b.says(cds, "-a", "-b", "-c")
			b.elapses(settle)
			b.expect(c.collect(), "CDS -a -b -c")
			b.expect(b.seen.held, "CDS 3/3 alone")
		},
		"others come instead": func(b *bed, c *peer) {
			b.says(cds, "-a", "-b", "+d@1")
			b.says(lds, "-l")
			b.expect(c.collect(), "CDS +d@1", "LDS -l")
			b.expect(c.collect(), "CDS -a -b")
			b.holdsBack(0)
		},
		"two in all": func(b *bed, c *peer) {
			b.says(cds, "-a")
			c.collect()
			b.elapses(hold.Burst + settle)
			b.says(cds, "-b")
			b.says(lds, "-l")
			b.expectAll(c.collect(), "LDS -l")
			b.expect(c.collect(), "CDS -b")
		},
		"endpoints between them": func(b *bed, c *peer) {
			withEndpoints(b, c)
			b.says(cds, "-a", "-b")
			b.says(eds, "-e")
			b.expect(c.collect())
			b.says(lds, "-l")
			b.holdsBack(4)
			b.says(lds, "+l@1")
			b.says(cds, "+a@1", "+b@1")
			b.assigns("1", 1, "e")
			b.expect(c.collect())
			b.holdsBack(0)
		},
		"endpoints before them, on a stream that is new": func(b *bed, c *peer) {
			withEndpoints(b, c)
			b.store.Session().Lost(streamOf(0))
			b.connect(0)
			b.assigns("2", 0, "e")
			b.elapses(10 * time.Second)
			b.expect(c.collect())
			b.says(cds, "-a", "-b")
			b.says(lds, "-l")
			b.expect(c.collect())
			b.holdsBack(4)
		},
		"endpoints alone, on a stream that is new, wait as long as others may come": func(b *bed, c *peer) {
			withEndpoints(b, c)
			b.store.Session().Lost(streamOf(0))
			b.connect(0)
			b.assigns("2", 0, "e")
			b.elapses(15 * time.Second)
			b.expect(c.collect(), "EDS +e@2")
			b.assigns("3", 1, "e")
			b.expect(c.collect(), "EDS +e@3")
			b.assigns("4", 0, "e")
			b.expect(c.collect(), "EDS +e@4")
			b.holdsBack(0)
		},
		"listeners that came with the stream, soon after it began": func(b *bed, c *peer) {
			b.store.Session().Lost(streamOf(0))
			b.connect(0)
			b.says(lds, "-l")
			b.elapses(15 * time.Second)
			b.expect(c.collect(), "LDS -l")
			b.store.Session().Lost(streamOf(0))
			b.connect(0)
			b.says(lds, "+l@1")
			b.expect(c.collect(), "LDS +l@1")
			b.says(lds, "-l")
			b.elapses(settle)
			b.expect(c.collect(), "LDS -l")
		},
		"endpoints with them, as long": func(b *bed, c *peer) {
			withEndpoints(b, c)
			b.says(cds, "-a", "-b")
			b.says(lds, "-l")
			b.assigns("2", 0, "e")
			b.expect(c.collect())
			b.holdsBack(4)
			b.elapses(small)
			b.holdsBack(0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := guard()
				g.Small = small
				b := newBedOf(t, cache.Limits{}, cache.Source{
					Quiet: settle, ResumeQuiet: 15 * time.Second, Absent: absentAfter, FullState: map[string]bool{cds: true, lds: true}, Guard: g,
				})
				c := b.join()
				c.sub(cds, "*")
				c.sub(lds, "*")
				b.connect(0)
				b.says(cds, "+a@1", "+b@1")
				b.says(lds, "+l@1")
				b.elapses(time.Hour) // no longer the first state of the stream
				c.collect()
				f(b, c)
				b.check()
			})
		})
	}
}

// A new stream that has older content than clients is reported, once, and its content passes (SUR-7).
func TestWentBack_SUR7(t *testing.T) {
	for name, tc := range map[string]struct {
		resources int
		after     time.Duration // since the newer content came
		ended     bool          // the stream ends, and another one begins
		begun     time.Duration // since the stream began
		content   string
		off       bool
		want      []string
	}{
		"an older state":                   {resources: 20, after: time.Minute, ended: true, content: "@1", want: []string{"CDS 20"}},
		"too few":                          {resources: 19, after: time.Minute, ended: true, content: "@1"},
		"a newer state":                    {resources: 20, after: time.Minute, ended: true, content: "@3"},
		"the same state":                   {resources: 20, after: time.Minute, ended: true, content: "@2"},
		"on the same stream":               {resources: 20, after: time.Minute, content: "@1"},
		"after the first state":            {resources: 20, after: time.Minute, ended: true, begun: quiet + time.Second, content: "@1"},
		"replaced more than an hour ago":   {resources: 20, after: time.Hour + time.Minute, ended: true, content: "@1"},
		"where nobody wants to know of it": {resources: 20, after: time.Minute, ended: true, content: "@1", off: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := hold.Guard{AtLeast: 20, WentBack: !tc.off}
				b := newBedOf(t, cache.Limits{Generations: 10}, cache.Source{Quiet: quiet, FullState: map[string]bool{cds: true}, Guard: g})
				c := b.join()
				c.sub(cds, "*")
				b.connect(0)
				b.says(cds, many("+", "m", 0, tc.resources, "@1")...)
				b.elapses(quiet)
				b.says(cds, many("+", "m", 0, tc.resources, "@2")...)
				b.elapses(tc.after)
				c.collect()
				if tc.ended {
					b.store.Session().Lost(streamOf(0))
					b.connect(0)
				}
				b.elapses(tc.begun)
				half := tc.resources / 2
				b.says(cds, many("+", "m", 0, half, tc.content)...)
				b.says(cds, many("+", "m", half, tc.resources, tc.content)...)
				b.expect(b.seen.back, tc.want...)
				if got := strings.Count(strings.Join(c.collect(), " "), tc.content); got != tc.resources && tc.content != "@2" {
					t.Errorf("the client got %d of %d", got, tc.resources)
				}
				b.says(cds, "+other@1", "+m00000@2")
				b.says(cds, "+m00000"+tc.content)
				b.expect(b.seen.back, tc.want...)
			})
		})
	}
}
