package delivery

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// The proposal's own example of a large collection: endpoints that all change every
// few seconds.
const (
	lbEndpoint = "type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint"
	poolGlob   = "xdstp://some-authority/envoy.config.endpoint.v3.LbEndpoint/pool/*"
	perMessage = 1000    // members in a response of the server
	oneMessage = 4 << 20 // bytes of a response to a client
)

// pool is a store with one glob of many members, which came as a server sends them.
type pool struct {
	testing.TB

	store   *cache.Store
	first   *Place // has the glob kept
	members int
}

// poolSizes runs a benchmark with a million members, and with ten thousand to show what
// does not depend on their number.
func poolSizes(b *testing.B, f func(b *testing.B, members int)) {
	b.Helper()
	for _, members := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			if testing.Short() && members > 10_000 {
				b.Skip("takes seconds and a gigabyte")
			}
			f(b, members)
		})
	}
}

func newPool(tb testing.TB, members int) *pool {
	tb.Helper()
	p := &pool{TB: tb, members: members}
	p.store = cache.New(cache.Limits{}, nil).Open(cache.Source{Quiet: time.Hour})
	p.first = p.follower()
	p.store.Session().Restart(wire.StreamID{}, 0)
	p.wave(0)
	return p
}

func (p *pool) follower() *Place {
	c := Join(p.store, func() {}, Form{})
	c.Update(&Change{TypeURL: lbEndpoint, Subscribe: []cache.Name{{Spelling: poolGlob, Key: poolGlob}}})
	return c
}

// glob is the collection.
func (p *pool) glob() *cache.Collection {
	return p.store.FindTable(lbEndpoint, cache.ByName).Collection(poolGlob)
}

// level is a follower that was sent everything.
func (p *pool) level() *Place {
	c := p.follower()
	f := c.types[0].subs.globs.all[poolGlob]
	(&presentation{typeSub: f.typeSub}).toEnd(f)
	return c
}

// message is what the server sends of the members from one to before another.
func message(tb testing.TB, from, to, version int) []byte {
	tb.Helper()
	r := &discovery.DeltaDiscoveryResponse{TypeUrl: lbEndpoint, Nonce: "n", SystemVersionInfo: fmt.Sprint(version)}
	for i := from; i < to; i++ {
		payload, err := proto.Marshal(&endpoint.LbEndpoint{HostIdentifier: &endpoint.LbEndpoint_Endpoint{Endpoint: &endpoint.Endpoint{
			Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
				Address:       fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255),
				PortSpecifier: &core.SocketAddress_PortValue{PortValue: uint32(8080 + version%1000)},
			}}},
		}}})
		if err != nil {
			tb.Fatal(err)
		}
		r.Resources = append(r.Resources, &discovery.Resource{
			Name:     fmt.Sprintf("xdstp://some-authority/envoy.config.endpoint.v3.LbEndpoint/pool/%07d", i),
			Version:  fmt.Sprint(version),
			Resource: &anypb.Any{TypeUrl: lbEndpoint, Value: payload},
		})
	}
	b, err := proto.Marshal(r)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// receive is what a session does with a response.
func (p *pool) receive(b []byte) {
	var r wire.Response
	if err := r.Decode(b); err != nil {
		p.Fatal(err)
	}
	if err := p.store.Session().Apply(wire.StreamID{}, &r, time.Now()); err != nil {
		p.Fatal(err)
	}
}

// bytes are those of all payloads, and of all resources.
func (p *pool) bytes() (payload, whole int64) {
	for e := p.glob().First(); e != nil; e = e.Next() {
		payload, whole = payload+int64(len(e.Resource().Any())), whole+e.Size()
	}
	return payload, whole
}

// cost is what a wave takes, without the server's part.
type cost struct {
	time, longest  time.Duration // of all responses, and of the one that took longest
	bytes, mallocs uint64
}

// wave changes all members.
func (p *pool) wave(version int) cost {
	var c cost
	var before, after runtime.MemStats
	for from := 0; from < p.members; from += perMessage {
		m := message(p, from, min(from+perMessage, p.members), version)
		runtime.ReadMemStats(&before)
		start := time.Now()
		p.receive(m)
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		c.time, c.longest = c.time+took, max(c.longest, took)
		c.bytes, c.mallocs = c.bytes+after.TotalAlloc-before.TotalAlloc, c.mallocs+after.Mallocs-before.Mallocs
	}
	return c
}

// BenchmarkMillionMemory tells what a member takes of the heap beyond its payload (the
// Any), and beyond its resource (Any, name and version): when it is new, and after it
// has changed.
func BenchmarkMillionMemory(b *testing.B) {
	poolSizes(b, func(b *testing.B, members int) {
		b.Helper()
		perMember := func(n int64) float64 { return float64(n) / float64(members) }
		var payload, whole int64 // of all members
		for b.Loop() {
			before := heap()
			p := newPool(b, members)
			payload, _ = p.bytes()
			b.ReportMetric(perMember(heap()-before-payload), "new-B/member-over-payload")
			p.wave(1)
			p.wave(2)
			taken := heap() - before
			payload, whole = p.bytes()
			b.ReportMetric(perMember(taken-payload), "B/member-over-payload")
			b.ReportMetric(perMember(taken-whole), "B/member-over-resource")
			runtime.KeepAlive(p)
		}
		b.ReportMetric(perMember(payload), "payload-B")
		b.ReportMetric(perMember(whole), "resource-B")
	})
}

// BenchmarkMillionUpdate tells what one changed member costs, decoded and applied, by
// the number of followers: idle ones, which were woken and have not collected, and ones
// that collect after every change, which is not in the time.
func BenchmarkMillionUpdate(b *testing.B) {
	poolSizes(b, func(b *testing.B, members int) {
		b.Helper()
		p := newPool(b, members)
		p.wave(1)
		const updates = 100_000
		var sets [2][][]byte // by turns, so that each is a change
		for v := range sets {
			for i := range updates {
				at := i * 7919 % members
				sets[v] = append(sets[v], message(b, at, at+1, 2+v))
			}
		}
		turn := 0
		bench := func(name string, followers int, collect bool) {
			b.Run(fmt.Sprintf("%d %s followers", followers, name), func(b *testing.B) {
				all := make([]*Place, followers)
				for i := range all {
					all[i] = p.level()
				}
				runtime.GC()
				b.ReportAllocs()
				b.ResetTimer()
				n := 0
				for b.Loop() {
					m := sets[turn/updates%2][turn%updates]
					p.receive(m)
					turn, n = turn+1, n+1
					if collect {
						b.StopTimer()
						for _, c := range all {
							sendAll(b, c, nil)
						}
						b.StartTimer()
					}
				}
				b.ReportMetric(b.Elapsed().Seconds()*updates/float64(n), "s/100k")
				for _, c := range all {
					c.Leave()
				}
			})
		}
		bench("idle", 0, false)
		bench("idle", 10, false)
		bench("idle", 1000, false)
		bench("collecting", 10, true)
		bench("collecting", 1000, true)
	})
}

// sendAll is what a stream does until its client has everything, but for the socket.
// locked is told how long each pass held the store's lock for reading.
func sendAll(tb testing.TB, c *Place, locked func(time.Duration)) (resources int) {
	tb.Helper()
	for {
		start := time.Now()
		batches, more, err := collectFrom(c, never, oneMessage, 8)
		if err != nil {
			tb.Fatal(err)
		}
		if locked != nil {
			locked(time.Since(start))
		}
		for _, batch := range batches {
			resources += batch.Body.Resources()
			batch.Body.Finish(batch.TypeURL, batch.SystemVersion, "n")
		}
		if !more {
			return resources
		}
	}
}

// BenchmarkMillionJoin tells what it takes to send a new client everything.
func BenchmarkMillionJoin(b *testing.B) {
	poolSizes(b, func(b *testing.B, members int) {
		b.Helper()
		p := newPool(b, members)
		var locked []time.Duration
		passes := 0
		b.ReportAllocs()
		b.ResetTimer()
		for b.Loop() {
			c := p.follower()
			passes = 0
			n := sendAll(b, c, func(took time.Duration) { locked, passes = append(locked, took), passes+1 })
			if n != members {
				b.Fatalf("sent %d", n)
			}
			c.Leave()
		}
		slices.Sort(locked)
		b.ReportMetric(float64(locked[len(locked)/2].Microseconds())/1000, "median-lock-ms")
		b.ReportMetric(float64(locked[len(locked)-1].Microseconds())/1000, "longest-lock-ms")
		b.ReportMetric(float64(passes), "passes")
	})
}

// BenchmarkMillionWave tells what it takes that all members change, in responses of a
// thousand: decoding and applying them.
func BenchmarkMillionWave(b *testing.B) {
	poolSizes(b, func(b *testing.B, members int) {
		b.Helper()
		p := newPool(b, members)
		p.wave(1)
		var all cost
		waves := 0
		for b.Loop() {
			c := p.wave(2 + waves)
			all.time, all.longest = all.time+c.time, max(all.longest, c.longest)
			all.bytes, all.mallocs = all.bytes+c.bytes, all.mallocs+c.mallocs
			waves++
		}
		b.ReportMetric(all.time.Seconds()/float64(waves), "s/wave")
		b.ReportMetric(float64(all.longest.Microseconds())/1000, "longest-response-ms")
		b.ReportMetric(float64(all.bytes)/float64(waves*members), "B/change")
		b.ReportMetric(float64(all.mallocs)/float64(waves*members), "allocs/change")
	})
}
