package integration

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// bulky is a cluster that does not fit into many flow-control windows.
func bulky(name string, round int) *clusterv3.Cluster {
	c := cluster(name, time.Duration(round+1)*time.Millisecond)
	c.AltStatName = strings.Repeat(fmt.Sprintf("%s-%d;", name, round), 4096/(len(name)+8))
	return c
}

// TestStalledClients opens a stream a thousand times and never reads it. The
// updates go on, everybody else gets every one of them, the memory does not grow
// with their number, and who reads again gets the merged latest state.
func TestStalledClients_OPS3_ADS2(t *testing.T) {
	const stalled, working, clusters, hot, rounds = 1000, 20, 100, 10, 150
	cp := startControlPlane(t)
	for i := range clusters {
		update(t, cp, fmt.Sprint("cluster-", i), bulky(fmt.Sprint("cluster-", i), 0))
	}
	relay := startRelay(t, nil, cp.Addr())
	subscribe := func(_ int, c *xdsclient.Client) { c.Subscribe(clusterType, xdsclient.Wildcard) }
	stuck := startFleet(t, relay.addr, stalled, func(i int, c *xdsclient.Client) {
		subscribe(i, c)
		c.Pause()
	})
	others := startFleet(t, relay.addr, working, subscribe)
	others.await(t, "the first state", func(c *xdsclient.Client) bool { return c.Len(clusterType) == clusters })

	churn := func(from, to int) {
		for round := from; round < to; round++ {
			name := fmt.Sprint("cluster-", round%hot)
			update(t, cp, name, bulky(name, round))
			want := cp.Versions(clusterType)
			others.await(t, "an update beside stalled clients", func(c *xdsclient.Client) bool {
				return maps.Equal(c.Versions(clusterType), want)
			})
		}
	}
	churn(1, rounds/3)
	before := heap()
	churn(rounds/3, rounds)
	// Each update is 4 KiB and concerns 1,000 stalled clients: kept for each of them
	// it would be 400 MiB. What gRPC takes before it blocks, on both sides, may still fill:
	// a response does not wait for an ACK for long (ADS-2).
	if grown := heap() - before; grown > 160<<20 {
		t.Errorf("OPS-3: the heap grew by %d MiB over %d updates", grown>>20, rounds-rounds/3)
	}

	stuck.reset()
	want := cp.Versions(clusterType)
	for _, c := range stuck.clients {
		c.Resume()
	}
	stuck.await(t, "the latest state after reading again", func(c *xdsclient.Client) bool {
		return maps.Equal(c.Versions(clusterType), want)
	})
	sent, _ := stuck.reset()
	total := 0
	for _, n := range sent {
		total += n
	}
	// What was on its way when they stopped reading, as much as gRPC takes before it
	// blocks, and the latest of each that changed since; unmerged it would be each of the
	// updates.
	if most := stalled * (clusters + 6*hot); total > most {
		t.Errorf("OPS-3: %d resources to stalled clients, merged it is at most %d", total, most)
	}
	relay.consistent(t)
}

// heap is what is in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkPropagationBesideStalledClients reports how long an update takes from
// the control plane to the last of 50 clients, alone and beside 1,000 clients that
// do not read. Only the ratio of the two says anything.
func BenchmarkPropagationBesideStalledClients(b *testing.B) {
	for _, stalled := range []int{0, 1000} {
		b.Run(fmt.Sprintf("stalled=%d", stalled), func(b *testing.B) {
			cp := startControlPlane(b)
			for i := range 100 {
				update(b, cp, fmt.Sprint("cluster-", i), bulky(fmt.Sprint("cluster-", i), 0))
			}
			relay := startRelay(b, nil, cp.Addr())
			subscribe := func(_ int, c *xdsclient.Client) { c.Subscribe(clusterType, xdsclient.Wildcard) }
			startFleet(b, relay.addr, stalled, func(i int, c *xdsclient.Client) {
				subscribe(i, c)
				c.Pause()
			})
			others := startFleet(b, relay.addr, 50, subscribe)
			others.await(b, "the first state", func(c *xdsclient.Client) bool { return c.Len(clusterType) == 100 })
			var took []time.Duration
			round := 0
			for ; round < 200; round++ { // until those who stall have stalled
				propagate(b, cp, others, round)
			}
			for b.Loop() {
				round++
				took = append(took, propagate(b, cp, others, round))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs/update")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs/update")
		})
	}
}

// propagate sends one update and waits for every client of a fleet to have it.
func propagate(b *testing.B, cp *gocontrolplane.ControlPlane, f *fleet, round int) time.Duration {
	b.Helper()
	start := time.Now()
	version, err := cp.UpdateResource("cluster-0", bulky("cluster-0", round))
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, c := range f.clients {
		wg.Go(func() {
			_ = c.Wait(b.Context(), func(c *xdsclient.Client) bool {
				held, _ := c.Get(clusterType, "cluster-0")
				return held.Version == version
			})
		})
	}
	wg.Wait()
	return time.Since(start)
}
