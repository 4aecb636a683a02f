package resolve

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// steady is an upstream of the benchmarks: a store, and whether it can be reached.
type steady struct {
	store   *cache.Store
	away    time.Time
	changed func()
}

func (s *steady) Store() *cache.Store                { return s.store }
func (s *steady) Away() (time.Time, bool)            { return s.away, false }
func (s *steady) Tell(ack.Outcome)                   {}
func (s *steady) Close()                             {}
func (s *steady) answer(version func(string) string) { s.say(s.demand(), version) }

// demand is what is asked for and was not before.
func (s *steady) demand() []string {
	subs, _ := s.store.Session().TakeDemand(wire.StreamID{})
	var names []string
	for _, sub := range subs {
		names = append(names, sub.Subscribe...)
	}
	return names
}

func (s *steady) say(names []string, version func(string) string) {
	r := &wire.Response{TypeURL: lds}
	for _, name := range names {
		r.Resources = append(r.Resources, a(name, version(name)))
	}
	if err := s.store.Session().Apply(wire.StreamID{}, r, time.Now()); err != nil {
		panic(err)
	}
}

// both are the sources of the benchmarks.
type both map[string]*steady

func (b both) Upstream(authority string) (Upstream, bool) { return Upstream{Name: authority}, true }
func (b both) Open(u Upstream, changed func()) (Source, error) {
	b[u.Name].changed = changed
	return b[u.Name], nil
}

// benched are names with alternatives that a client has, and their resolver, which the
// benchmark drives by hand.
type benched struct {
	sources both
	r       *Resolver
	names   []string // at their first place
	client  *delivery.Subscriber
}

func newBenched(names int) *benched {
	c := cache.New(cache.Limits{}, nil)
	resolved := c.Open(cache.Source{Resolved: true})
	bd := &benched{sources: both{"a": {store: c.Open(cache.Source{})}, "b": {store: c.Open(cache.Source{})}}}
	bd.r = New(Config{Settings: Settings{AlternativeAfter: after}, Store: resolved.Session(), Sources: bd.sources})
	bd.client = delivery.NewSubscriber(func() {}, delivery.Form{})
	ch := delivery.Change{TypeURL: lds}
	for i := range names {
		id := fmt.Sprint("x", i)
		bd.names = append(bd.names, at("a", id))
		ch.Subscribe = append(ch.Subscribe, nameOf(at("a", id)+"#alt="+at("b", id)))
	}
	bd.client.Join(resolved).Update(&ch)
	bd.r.demand()
	bd.settle()
	bd.collect()
	return bd
}

// settle works until nothing is left to do.
func (bd *benched) settle() {
	for busy := true; busy; {
		bd.r.work(time.Now())
		for _, s := range bd.sources {
			s.answer(func(string) string { return "1" })
		}
		bd.r.mu.Lock()
		busy = len(bd.r.rung) > 0
		bd.r.mu.Unlock()
	}
}

func (bd *benched) collect() (resources int) {
	for {
		batches, left, _ := bd.client.Collect(&unhurried)
		for _, b := range batches {
			resources += b.Body.Resources()
		}
		if !left.More {
			return resources
		}
	}
}

// BenchmarkUpdate is one update of one name with an alternative, of 10,000, from its
// store to a client of the resolved one.
func BenchmarkUpdate(b *testing.B) {
	bd := newBenched(10_000)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		bd.sources["a"].say(bd.names[n%len(bd.names):][:1], func(string) string { return fmt.Sprint("v", n) })
		bd.r.work(time.Now())
		if got := bd.collect(); got != 1 {
			b.Fatalf("%d updates were sent", got)
		}
	}
}

// BenchmarkFailover is the upstream of 10,000 names going and coming back: both times
// each name is served from elsewhere.
func BenchmarkFailover(b *testing.B) {
	const names = 10_000
	bd := newBenched(names)
	first := bd.sources["a"]
	turn := func(since time.Time) {
		first.away = since
		first.changed()
		bd.settle()
		if got := bd.collect(); got != names {
			b.Fatalf("%d names were sent from elsewhere", got)
		}
	}
	for b.Loop() {
		turn(time.Now().Add(-after))
		turn(time.Time{})
	}
}

// BenchmarkName is what a name with an alternative takes in memory beyond its payload,
// in both stores and in the resolver.
func BenchmarkName(b *testing.B) {
	const names = 100_000
	for b.Loop() {
		var before, now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		bd := newBenched(names)
		runtime.GC()
		runtime.ReadMemStats(&now)
		b.ReportMetric(float64(now.HeapAlloc-before.HeapAlloc)/names, "bytes/name")
		runtime.KeepAlive(bd)
	}
}

// Names with alternatives are served from another place without a goroutine or a timer
// each, and Run ends while all of it moves.
func TestRunEnds(t *testing.T) {
	bd := newBenched(100)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = bd.r.Run(ctx) })
	bd.sources["a"].say(bd.names, func(string) string { return "2" })
	stop()
	wg.Wait()
}
