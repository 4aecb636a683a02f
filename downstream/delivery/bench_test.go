package delivery

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

func never(string) bool { return false }

// crowd is a store with one collection of members, and clients that follow it and
// have everything.
type crowd struct {
	*bed

	peers   []*peer
	updates [2]*wire.Response // of one member, by turns
	turn    int
}

func newCrowd(tb testing.TB, followers, members int) *crowd {
	tb.Helper()
	c := &crowd{bed: newBed(tb, cache.Limits{MaxResources: 1 << 40, Idle: time.Hour})}
	first := c.join()
	first.c.Update(&Change{TypeURL: cds, Subscribe: names([]string{"*"})})
	c.store.Session().Restart(wire.StreamID{}, 0)
	if err := c.store.Session().Apply(wire.StreamID{}, response(cds, many("+", "m", 0, members, "@1")...), time.Now()); err != nil {
		tb.Fatal(err)
	}
	if followers == 0 {
		first.c.Leave()
		first = nil
	}
	for i := range followers {
		p := first
		if i > 0 {
			p = c.join()
			p.c.Update(&Change{TypeURL: cds, Subscribe: names([]string{"*"})})
		}
		c.peers = append(c.peers, p)
		p.take(1 << 30)
	}
	for i := range c.updates {
		c.updates[i] = response(cds, fmt.Sprintf("+m%05d@v%d", members/2, i))
	}
	return c
}

// take is what a stream does with what it collects, but for sending.
func (p *peer) take(size int) (resources int) {
	pace := Pace{Acks: acknowledged, Size: size, Parts: 8}
	for {
		batches, left, err := p.s.Collect(&pace)
		if err != nil {
			p.Fatal(err)
		}
		for _, b := range batches {
			resources += b.Body.Resources()
		}
		if !left.More {
			return resources
		}
	}
}

// update applies one change.
func (c *crowd) update() {
	if err := c.store.Session().Apply(wire.StreamID{}, c.updates[c.turn%2], time.Time{}); err != nil {
		c.Fatal(err)
	}
	c.turn++
}

func TestAllocations(t *testing.T) {
	t.Run("Apply of one change, whatever the number of followers", func(t *testing.T) {
		for _, followers := range []int{0, 1, 1000} {
			c := newCrowd(t, followers, 1000)
			c.update()
			if got := testing.AllocsPerRun(100, c.update); got > 2 {
				t.Errorf("%v allocations with %d followers", got, followers)
			}
		}
	})
	t.Run("Collect of one change", func(t *testing.T) {
		c := newCrowd(t, 1, 1000)
		got := testing.AllocsPerRun(100, func() {
			c.update()
			if c.peers[0].take(1<<20) != 1 {
				t.Fatal("not taken")
			}
		})
		if got > 2+3 { // the list of batches, one batch, its list of resources
			t.Errorf("%v allocations", got)
		}
	})
	t.Run("Collect of nothing", func(t *testing.T) {
		c := newCrowd(t, 1, 1000)
		if got := testing.AllocsPerRun(100, func() { c.peers[0].take(1 << 20) }); got > 0 {
			t.Errorf("%v allocations", got)
		}
	})
	t.Run("a push to a named subscription", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "m00500")
		push := &crowd{bed: b, peers: []*peer{c}}
		for i := range push.updates {
			push.updates[i] = response(cds, fmt.Sprintf("+m00500@v%d", i))
		}
		push.update()
		c.take(1 << 20)
		push.update()
		c.take(1 << 20)
		got := testing.AllocsPerRun(100, func() {
			push.update()
			if c.take(1<<20) != 1 {
				t.Fatal("not taken")
			}
		})
		if got > 2+4 {
			t.Errorf("%v allocations", got)
		}
	})
}

func BenchmarkApply(b *testing.B) {
	for _, followers := range []int{0, 10, 1000, 10_000} {
		b.Run(fmt.Sprintf("one change, %d followers", followers), func(b *testing.B) {
			c := newCrowd(b, followers, 100)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				for _, p := range c.peers {
					(&schedule{Pace: Pace{Acks: acknowledged}}).arm(p.c)
					p.rang()
				}
				b.StartTimer()
				c.update()
			}
		})
	}
	b.Run("1,000 changes, 1,000 followers", func(b *testing.B) {
		c := newCrowd(b, 1000, 1000)
		for i := range c.updates {
			c.updates[i] = response(cds, many("+", "m", 0, 1000, fmt.Sprintf("@v%d", i))...)
		}
		b.ReportAllocs()
		for b.Loop() {
			c.update()
		}
	})
}

func BenchmarkCollect(b *testing.B) {
	b.Run("nothing", func(b *testing.B) {
		c := newCrowd(b, 1, 1000)
		b.ReportAllocs()
		for b.Loop() {
			c.peers[0].take(1 << 20)
		}
	})
	b.Run("one change, per client of 1,000", func(b *testing.B) {
		c := newCrowd(b, 1000, 1000)
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			c.update()
			b.StartTimer()
			for _, p := range c.peers {
				p.take(1 << 20)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(c.peers)), "ns/client")
	})
	for _, members := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("one change of %d, applied and collected", members), func(b *testing.B) {
			c := newCrowd(b, 1, members)
			b.ReportAllocs()
			for b.Loop() {
				c.update()
				c.peers[0].take(1 << 20)
			}
		})
	}
	b.Run("initial state of 100,000", func(b *testing.B) {
		c := newCrowd(b, 1, 100_000)
		b.ReportAllocs()
		for b.Loop() {
			p := c.join()
			p.c.Update(&Change{TypeURL: cds, Subscribe: names([]string{"*"})})
			if p.take(4<<20) != 100_000 {
				b.Fatal("not all")
			}
			p.c.Leave()
		}
	})
}

// BenchmarkSubscription tells what a named subscription takes, of a name that
// other clients know already and of one that nobody does.
func BenchmarkSubscription(b *testing.B) {
	for _, bc := range []struct {
		name    string
		clients int
	}{{"of a name of its own", 1}, {"of a shared name", 100}} {
		b.Run(bc.name, func(b *testing.B) {
			const each = 1000
			all := names(many("", "some-cluster/endpoints-", 0, each, ""))
			perClient := int64(0)
			for b.Loop() {
				bed := newBed(b, cache.Limits{})
				before := heap()
				for range bc.clients {
					p := bed.join()
					p.c.Update(&Change{TypeURL: eds, Subscribe: all})
				}
				perClient = (heap() - before) / int64(bc.clients*each)
				runtime.KeepAlive(bed)
			}
			b.ReportMetric(float64(perClient), "B/subscription")
		})
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkSettle is what every response costs beside its changes, by the number of
// collections that wait for nothing.
func BenchmarkSettle(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := cache.New(cache.Limits{}, nil).Open(cache.Source{Quiet: time.Second})
			ch := Change{TypeURL: cds}
			for i := range n {
				glob := fmt.Sprintf("xdstp://a/envoy.config.cluster.v3.Cluster/%d/*", i)
				ch.Subscribe = append(ch.Subscribe, cache.Name{Spelling: glob, Key: glob})
			}
			Join(s, func() {}, Form{}).Update(&ch)
			s.Session().Restart(wire.StreamID{}, 0)
			now := time.Now()
			if err := s.Session().Apply(wire.StreamID{}, &wire.Response{TypeURL: cds}, now); err != nil {
				b.Fatal(err)
			}
			later := now.Add(time.Hour)
			s.Session().Settle(later)
			for b.Loop() {
				s.Session().Settle(later)
			}
		})
	}
}
