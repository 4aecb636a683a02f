package delivery

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"google.golang.org/grpc/codes"
)

// rolls has an operator go back to a generation of all types but endpoints.
func (b *bed) rolls(number uint64, want int) {
	b.Helper()
	n, err := b.rollback(number)
	if err != nil || n != want {
		b.Fatalf("%d names changed, want %d: %v", n, want, err)
	}
}

func (b *bed) rollback(number uint64) (int, error) {
	b.Helper()
	f := hold.Freeze{Since: time.Now()}
	n, err := b.store.Operator().Rollback(number, func(typeURL string, _ time.Time) hold.Freeze {
		if xds.RankOf(typeURL) == xds.RankEndpoint {
			return hold.Freeze{}
		}
		return f
	}, func(string) bool { return true })
	b.check()
	return n, err
}

// generations lists the states that the store remembers, as "number: type new/changed".
func (b *bed) generations() (all []string) {
	for _, g := range b.store.Operator().Generations() {
		var line strings.Builder
		fmt.Fprint(&line, g.Number)
		for _, x := range g.Changes {
			fmt.Fprintf(&line, " %s %d/%d", x.TypeURL[strings.LastIndexByte(x.TypeURL, '.')+1:], x.New, x.Changed)
		}
		all = append(all, line.String())
	}
	return all
}

// newRemembering has three clusters and a route, and a client that follows them.
func newRemembering(t *testing.T, state bool) (*bed, *peer) {
	t.Helper()
	b := newBedOf(t, cache.Limits{Generations: 3}, cache.Source{
		Quiet: quiet, Absent: absentAfter, State: state, FullState: map[string]bool{cds: true, lds: true},
	})
	c := b.joinAs(Form{State: state})
	c.sub(cds, "*")
	b.connect(0)
	if state {
		b.state(cds, "1", many("+", "m", 0, 3, "@1")...)
		c.lists()
		return b, c
	}
	b.says(cds, many("+", "m", 0, 3, "@1")...)
	b.elapses(quiet)
	c.sub(rds, "r")
	b.saysRoute("+r@1")
	c.collect()
	b.elapses(time.Minute)
	return b, c
}

// An operator goes back to a state that clients had, and forth again (GATE-4).
func TestRollback_GATE4(t *testing.T) {
	for name, f := range map[string]func(b *bed, c *peer){
		"changes, removals and additions are undone together, and what was received is held": func(b *bed, c *peer) {
			b.expect(b.generations(), "0")
			b.says(cds, "+m00000@2", "-m00001", "+new@1")
			b.saysRoute("+r@2")
			c.collect()
			c.collect()
			b.expect(b.generations(), "1", "0 Cluster 1/2 RouteConfiguration 0/1")
			b.elapses(time.Minute)
			b.rolls(0, 4)
			b.expect(c.collect(), "CDS +m00000@1 +m00001@1", "RDS +r@1")
			b.expectAll(c.collect(), "CDS -new")
			if n := b.seenByNew(cds, "*"); n != 3 {
				b.Fatalf("a new client gets %d", n)
			}
			b.saysRoute("+r@3")
			b.expect(c.collect())
			b.releases()
			b.expect(c.collect(), "CDS +m00000@2 +new@1", "RDS +r@3")
			b.expectAll(c.collect(), "CDS -m00001")
		},
		"what comes back under an error is a change, too": func(b *bed, c *peer) {
			b.saysRoute("-r")
			b.fails(rds, "r", codes.Unavailable)
			c.collect()
			b.elapses(time.Minute)
			b.rolls(0, 1)
			b.expect(c.collect(), "RDS +r@1")
			b.expect(b.generations(), "2", "1 RouteConfiguration 1/0", "0 RouteConfiguration 0/1")
			b.rolls(1, 1)
			b.expect(c.collect(), "RDS -r")
		},
		"a ttl that runs out says nothing of what was received": func(b *bed, c *peer) {
			b.says(cds, "+m00000@2~600s")
			b.elapses(time.Minute)
			b.says(cds, "+m00000@3")
			b.elapses(time.Minute)
			c.collect()
			b.rolls(1, 1)
			c.collect()
			b.elapses(time.Hour)
			if n := b.seenByNew(cds, "*"); n != 2 {
				b.Fatalf("a new client gets %d", n)
			}
			b.releases()
			b.expect(c.collect(), "CDS +m00000@3")
		},
		"what the server did not confirm since its stream began is not its word": func(b *bed, c *peer) {
			b.says(cds, "+m00000@2", "+m00001@2", "+new@1", "+newer@1")
			b.elapses(time.Minute)
			c.collect()
			b.store.Session().Lost(streamOf(0))
			b.connectWithin(0, 1)
			b.rolls(0, 4)
			c.collect()
			c.collect()
			b.says(cds, "+m00001@2", "+m00002@1", "+newer@1")
			b.elapses(time.Hour)
			b.expect(c.collect())
			b.releases()
			b.expectAll(c.collect(), "CDS +m00001@2 +newer@1 -m00000")
		},
		"pushes that follow each other closely are one": func(b *bed, c *peer) {
			b.says(cds, "+m00000@2")
			b.elapses(time.Second)
			b.says(cds, "+m00000@3")
			b.elapses(time.Minute)
			b.says(cds, "+m00000@4")
			b.expect(b.generations(), "2", "1 Cluster 0/1", "0 Cluster 0/1")
			c.collect()
			b.rolls(0, 1)
			b.expect(c.collect(), "CDS +m00000@1")
		},
		"a push without end is cut": func(b *bed, _ *peer) {
			for i := range 40 {
				b.says(cds, fmt.Sprintf("+m00000@%d", i+2))
				b.elapses(time.Second)
			}
			if n := len(b.generations()); n != 4 {
				b.Fatalf("%d states", n)
			}
		},
		"only the last ones are remembered": func(b *bed, _ *peer) {
			for i := range 6 {
				b.says(cds, fmt.Sprintf("+m00000@%d", i+2))
				b.elapses(time.Minute)
			}
			b.expect(b.generations(), "6", "5 Cluster 0/1", "4 Cluster 0/1", "3 Cluster 0/1")
			for _, n := range []uint64{0, 2, 7} {
				if _, err := b.rollback(n); !errors.Is(err, cache.ErrNoGeneration) {
					b.Errorf("generation %d: %v", n, err)
				}
			}
			if b.store.Operator().Frozen() {
				b.Error("what failed froze")
			}
			b.rolls(6, 0) // to where it is: this only freezes
			if !b.store.Operator().Frozen() {
				b.Error("it does not freeze")
			}
		},
		"a rollback is undone by going back to before it": func(b *bed, c *peer) {
			b.says(cds, "+m00000@2")
			b.elapses(time.Minute)
			b.rolls(0, 1)
			b.rolls(1, 1)
			c.collect()
			if got := b.store.Operator().Held(true); len(got) == 0 || got[0].Changed != 0 {
				b.Fatalf("%+v", got)
			}
			b.releases()
			b.expect(c.collect())
		},
		"the control plane's last word counts when it is released": func(b *bed, c *peer) {
			b.says(cds, "+m00000@2", "-m00001")
			b.elapses(time.Minute)
			b.rolls(0, 2)
			b.says(cds, "-m00000", "+m00001@9")
			c.collect()
			b.elapses(time.Minute)
			b.expect(c.collect())
			b.releases()
			b.expectAll(c.collect(), "CDS +m00001@9 -m00000")
		},
		"endpoints stay as they are": func(b *bed, c *peer) {
			c.sub(eds, "e")
			b.demand(0)
			b.demand(1)
			b.says(eds, "+e@1")
			b.elapses(time.Minute)
			b.says(eds, "+e@2")
			b.says(cds, "+m00000@2")
			c.collect()
			c.collect()
			b.expect(b.generations(), "1", "0 Cluster 0/1")
			b.rolls(0, 1)
			b.expect(c.collect(), "CDS +m00000@1")
			b.says(eds, "+e@3")
			b.expect(c.collect(), "EDS +e@3")
		},
		"what access was withdrawn to, what ran out and what nobody wants does not come back": func(b *bed, c *peer) {
			b.says(cds, "+m00000@2~60s")
			b.elapses(10 * time.Second)
			b.fails(cds, "m00001", codes.PermissionDenied)
			b.saysRoute("+r@2")
			c.unsub(rds, "r")
			b.letGo()
			b.demand(0)
			b.elapses(2 * time.Minute)
			c.collect()
			b.rolls(0, 1)
			b.expect(c.collect(), "CDS +m00000@1")
		},
		"the time of a state": func(b *bed, _ *peer) {
			began := time.Now()
			b.says(cds, "+m00000@2")
			b.elapses(time.Second)
			b.says(cds, "+m00001@2")
			b.elapses(time.Minute)
			second := time.Now()
			b.says(cds, "+m00000@3")
			for i, tt := range []struct {
				at   time.Time
				want uint64
			}{
				{began.Add(-time.Second), 0}, {began, 0}, {began.Add(time.Second - 1), 0}, {began.Add(time.Second), 1}, {second.Add(-1), 1}, {second, 2}, {second.Add(time.Hour), 2},
			} {
				if n, ok := b.store.Operator().GenerationAt(tt.at); !ok || n != tt.want {
					b.Errorf("%d: %d, %t, want %d", i, n, ok, tt.want)
				}
			}
			if n, ok := b.store.Operator().GenerationAt(began.Add(-time.Hour)); ok {
				b.Errorf("%d is remembered from before there was anything", n)
			}
			for range 3 {
				b.elapses(time.Minute)
				b.says(cds, fmt.Sprint("+m00000@", time.Now().Unix()))
			}
			if n, ok := b.store.Operator().GenerationAt(began); ok {
				b.Errorf("%d is remembered", n)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, c := newRemembering(t, false)
				f(b, c)
			})
		})
	}
}

// The same towards a server of the state of the world: what it lists again changes nothing.
func TestRollbackState_GATE4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c := newRemembering(t, true)
		b.elapses(time.Minute)
		b.state(cds, "2", "+m00000@2", "+m00002@1", "+new@1")
		c.lists()
		b.elapses(time.Minute)
		b.rolls(0, 3)
		b.expect(c.lists(), "CDS m000001 m000011 m000021")
		b.elapses(time.Minute)
		b.expect(c.lists())
		b.state(cds, "3", "+m00000@2", "+m00002@1", "+new@1")
		b.expect(c.lists())
		b.state(cds, "4", "+m00000@2", "+m00002@1")
		b.releases()
		b.elapses(time.Minute)
		b.expect(c.lists(), "CDS m000002 m000021")
	})
}

// Past content is bounded by bytes, over all stores.
func TestRollbackBytes_GATE4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBedOf(t, cache.Limits{Generations: 100, MaxBytes: 1 << 16}, cache.Source{Quiet: quiet})
		c := b.join()
		c.sub(cds, "*")
		b.connect(0)
		for i := range 500 {
			b.says(cds, fmt.Sprintf("+m@%d", i))
			c.collect()
			b.elapses(time.Minute)
		}
		if n := len(b.generations()); n < 10 || n > 90 {
			t.Errorf("%d states", n)
		}
		if size := b.cache.Past(); size > 1<<13 || size == 0 {
			t.Errorf("%d bytes", size)
		}
		b.store.Close()
		if size := b.cache.Past(); size != 0 {
			t.Errorf("%d bytes are left", size)
		}
	})
}

// To remember costs a change of what has changed before no allocation.
func TestRollbackCost_GATE4(t *testing.T) {
	measure := func(generations int) float64 {
		b := newBedOf(t, cache.Limits{Generations: generations}, cache.Source{Quiet: quiet})
		c := b.join()
		c.sub(cds, "*")
		b.connect(0)
		now := time.Now()
		var said []*wire.Response
		for i := range 2 {
			said = append(said, &wire.Response{TypeURL: cds, Resources: []*wire.Resource{resource(cds, fmt.Sprintf("m@%d", i))}})
		}
		rounds := 0
		return testing.AllocsPerRun(200, func() {
			rounds++
			if err := b.store.Session().Apply(streamOf(0), said[rounds%2], now); err != nil {
				t.Fatal(err)
			}
		})
	}
	if off, on := measure(0), measure(10); on > off {
		t.Errorf("%v allocations, %v without", on, off)
	}
}

// A store goes on where an earlier process was (SUR-1).
func TestRollbackRestored_GATE4_SUR1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c := newRemembering(t, false)
		b.says(cds, "+m00000@2", "+new@1")
		c.collect()
		b.elapses(time.Minute)
		before := b.generations()
		image := b.store.Snapshots().Image(func(string) bool { return false })
		later := newBedOf(t, cache.Limits{Generations: 3}, cache.Source{Quiet: quiet, Absent: absentAfter})
		later.restore(image)
		later.expect(later.generations(), before...)
		if later.cache.Past() != b.cache.Past() {
			t.Errorf("%d bytes, want %d", later.cache.Past(), b.cache.Past())
		}
		d := later.join()
		d.sub(cds, "*")
		d.collect()
		later.rolls(0, 2)
		later.expectAll(d.collect(), "CDS +m00000@1 -new")
	})
}

// The server had not answered for a collection when the disk was written. So what it says to the next process
// is a first answer, which no rollback takes away.
func TestRollbackOfFirstAnswers_GATE4_SUR1(t *testing.T) {
	limits := cache.Limits{Generations: 3}
	b := newBedOf(t, limits, cache.Source{Quiet: quiet})
	b.join().sub(cds, "*")
	b.connect(0)
	b.says(cds, "+a@1") // more may come
	b = b.restart()
	c := b.join()
	c.sub(cds, "*")
	b.expect(c.collect(), "CDS +a@1")
	b.connect(0)
	b.says(cds, "+a@1", "+b@1")
	b.settle()
	b.expect(c.collect(), "CDS +b@1")
	b.expect(b.generations(), "0")
	b.rolls(0, 0)
	b.expect(c.collect())
}
