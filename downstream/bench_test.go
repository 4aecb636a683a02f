package downstream

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// streamsPerConn is how many of a benchmark's clients share a connection.
const streamsPerConn = 10

// BenchmarkUpdate measures one update of 1 KiB on its way to every client,
// acknowledged by all. The clients' side of gRPC and of the memory between is part
// of it.
func BenchmarkUpdate(b *testing.B) {
	for _, clients := range []int{100, 1000} {
		b.Run(strconv.Itoa(clients), func(b *testing.B) { benchmarkUpdate(b, clients) })
	}
}

// BenchmarkCensus measures what a scrape costs with 10,000 clients.
func BenchmarkCensus(b *testing.B) {
	b.Run("wildcard", func(b *testing.B) { benchmarkCensus(b, nil, Behind) })
	names := make([]string, 100)
	for i := range names {
		names[i] = "c" + strconv.Itoa(i)
	}
	b.Run("100 names", func(b *testing.B) { benchmarkCensus(b, names, Current) })
}

func benchmarkCensus(b *testing.B, names []string, state ClientState) {
	b.Helper()
	const clients = 10000
	h := newHarness(b)
	defer h.close()
	h.opaque.set(clusterType, "0", append([]string{"a"}, names...)...)
	for i := range clients {
		if i%streamsPerConn == 0 {
			h.conn = h.dial()
		}
		c := h.deafClient()
		c.subscribe(clusterType, names...)
		if state == Current {
			c.reading.Go(func() {
				for {
					r, err := c.stream.Recv()
					if err != nil {
						return
					}
					c.ack(r)
				}
			})
		}
		if i == 0 {
			<-h.opaque.store.Session().DemandChanged() // its request has arrived
			h.opaque.pump()
		}
	}
	for h.server.Census()[clusterType][state] < clients {
		runtime.Gosched()
	}
	b.ReportAllocs()
	for b.Loop() {
		h.server.Census()
	}
}

func benchmarkUpdate(b *testing.B, clients int) {
	b.Helper()
	h := newHarness(b)
	defer h.close()
	h.opaque.set(clusterType, "0", "a")
	var delivered sync.WaitGroup
	delivered.Add(clients)
	for i := range clients {
		if i%streamsPerConn == 0 {
			h.conn = h.dial()
		}
		c := h.deafClient()
		c.subscribe(clusterType)
		c.reading.Go(func() {
			for {
				r, err := c.stream.Recv()
				if err != nil {
					return
				}
				c.ack(r)
				delivered.Done()
			}
		})
		if i == 0 {
			<-h.opaque.store.Session().DemandChanged() // its request has arrived
			h.opaque.pump()
		}
	}
	delivered.Wait()
	payload := make([]byte, 1<<10)
	version := 0
	b.ReportAllocs()
	for b.Loop() {
		version++
		r := resourceOf(clusterType, "a", strconv.Itoa(version))
		r.Resource.Value = payload
		delivered.Add(clients)
		h.opaque.put(clusterType, r)
		delivered.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(clients), "ns/delivery")
}

// deliveries returns a function that applies one update and has it delivered to,
// and acknowledged by, n streams without a network.
func deliveries(tb testing.TB, f form, n int) func() {
	tb.Helper()
	p := newPlane(tb, cache.New(cache.Limits{}, nil).Open(source()))
	s := NewServer(Config{Router: &testRouter{
		scoped: func(*corev3.Node, string, keyer.Peer) (*cache.Store, error) { return p.store, nil },
	}})
	must := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	s.shared.senders.stop() // the streams are served here
	count := 0
	streams := make([]*stream, 0, n)
	for range n {
		st := newStream(s.shared, &fakeStream{ctx: tb.Context(), sent: func(any) error { count++; return nil }}, &variant{f, &services[0]})
		first := discoveryRequest{typeURL: clusterType}
		_, err := st.request(&first)
		must(err)
		streams = append(streams, st)
		tb.Cleanup(st.close)
	}
	p.set(clusterType, "0", "a")
	p.pump()
	var updates [2]*wire.Response
	for i := range updates {
		r := resourceOf(clusterType, "a", fmt.Sprint("v", i))
		r.Resource.Value = make([]byte, 1<<10)
		updates[i] = &wire.Response{TypeURL: clusterType, Resources: []*wire.Resource{p.wire(r)}}
	}
	version := 0
	return func() {
		version++
		must(p.store.Session().Apply(wire.StreamID{}, updates[version%2], time.Now()))
		before := count
		for _, st := range streams {
			must(st.deliver())
			_, err := st.request(&discoveryRequest{typeURL: clusterType, nonce: st.nonces.of(st.nonces.last)})
			must(err)
		}
		if count-before != n {
			tb.Fatalf("%d responses to %d streams", count-before, n)
		}
	}
}

// What a delivery costs beyond gRPC's own allocations, ACK included, must not
// grow unnoticed. The nonce is two of them, the response's and the test's; the race detector
// adds one to lists.
func TestDelivery_Allocations(t *testing.T) {
	const streams = 10
	for f, limit := range map[form]float64{deltaForm: 8, stateForm: 10} {
		few := testing.AllocsPerRun(100, deliveries(t, f, 1))
		many := testing.AllocsPerRun(100, deliveries(t, f, streams))
		if per := (many - few) / (streams - 1); per > limit {
			t.Errorf("form %d: %.1f allocations per delivery, at most %.0f are expected", f, per, limit)
		} else {
			t.Logf("form %d: %.1f allocations per delivery", f, per)
		}
	}
}

// BenchmarkDelivery measures a delivery without gRPC under it.
func BenchmarkDelivery(b *testing.B) {
	deliver := deliveries(b, deltaForm, 1)
	b.ReportAllocs()
	for b.Loop() {
		deliver()
	}
}
