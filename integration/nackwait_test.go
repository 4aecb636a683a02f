package integration

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// BenchmarkNackWait measures how old an update is when clients with healthy acknowledgements
// have it, in milliseconds, as nack_wait decides on the default of (ACK-7). go-control-plane
// sends nothing more of a type before the last response was acknowledged, so that updates
// that follow each other closely are what a wait costs.
func BenchmarkNackWait(b *testing.B) {
	planes := map[string]func() *gocontrolplane.ControlPlane{
		"linear":   func() *gocontrolplane.ControlPlane { return gocontrolplane.New(gocontrolplane.Types()...) },
		"snapshot": gocontrolplane.NewSnapshot,
	}
	for _, plane := range []string{"linear", "snapshot"} {
		for _, api := range []config.APIType{config.AggregatedDeltaGRPC, config.AggregatedGRPC} {
			for _, train := range []int{1, 10} {
				for _, wait := range []time.Duration{0, 500 * time.Millisecond} {
					name := fmt.Sprintf("plane=%s/api=%s/updates=%d/nack_wait=%v", plane, api, train, wait)
					b.Run(name, func(b *testing.B) {
						cp := planes[plane]()
						relay := startPlaneWith(b, cp, api, wait)
						staleness(b, cp, relay.addr, train)
					})
				}
			}
		}
	}
}

func startPlaneWith(b *testing.B, cp *gocontrolplane.ControlPlane, api config.APIType, wait time.Duration) *testRelay {
	b.Helper()
	if err := cp.Start(b.Context(), "127.0.0.1:0"); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(cp.Close)
	return startRelay(b, func(c *config.Config) {
		u := &c.Upstreams[0]
		u.APIType, u.NackWait = api, config.NackWait(wait)
	}, cp.Addr())
}

// staleness has a control plane send trains of updates, a millisecond apart, to some clients.
func staleness(b *testing.B, cp *gocontrolplane.ControlPlane, addr string, train int) {
	b.Helper()
	f := &stale{news: make(chan struct{}, 1)}
	f.update(b, cp)
	var reading sync.WaitGroup
	b.Cleanup(reading.Wait)
	for i := range f.has {
		conn := dial(b, addr)
		b.Cleanup(func() { _ = conn.Close() })
		c := xdsclient.New(xdsclient.Options{
			Conn: conn, Node: &corev3.Node{Id: fmt.Sprint(i)}, OnResponse: func(r *xdsclient.Response) error { return f.read(i, r) },
		})
		c.Subscribe(clusterType)
		reading.Go(func() { _ = c.Run(b.Context()) })
	}
	f.await()
	f.forget()
	for b.Loop() {
		for range train {
			f.update(b, cp)
			<-time.After(time.Millisecond)
		}
		f.await()
		<-time.After(5 * time.Millisecond) // acknowledgements arrive
	}
	ages := f.forget()
	slices.Sort(ages)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(ages[len(ages)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(ages[len(ages)*99/100].Microseconds())/1000, "ms-p99")
}

// stale is how old each update was when each of some clients had it, or a later one.
type stale struct {
	news chan struct{} // one slot: a client has something new

	mu   sync.Mutex
	set  []time.Time // when the updates were made, by number
	has  [20]int     // number of the last one that each client has
	ages []time.Duration
}

// update makes the next one: a cluster that times out after as many milliseconds.
func (f *stale) update(b *testing.B, cp *gocontrolplane.ControlPlane) {
	b.Helper()
	f.mu.Lock()
	f.set = append(f.set, time.Now())
	n := len(f.set)
	f.mu.Unlock()
	update(b, cp, "c", cluster("c", time.Duration(n)*time.Millisecond))
}

// read takes what a client is sent.
func (f *stale) read(i int, r *xdsclient.Response) error {
	now := time.Now()
	for _, ch := range r.Changes {
		if ch.Resource == nil {
			continue
		}
		var c clusterv3.Cluster
		if err := proto.Unmarshal([]byte(encoded.Payload(ch.Resource.Any())), &c); err != nil {
			return err
		}
		f.took(i, int(c.GetConnectTimeout().AsDuration()/time.Millisecond), now)
	}
	return r.Err
}

func (f *stale) took(i, n int, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, at := range f.set[f.has[i]:n] {
		f.ages = append(f.ages, now.Sub(at))
	}
	f.has[i] = n
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// await waits until all clients have the last update.
func (f *stale) await() {
	for {
		f.mu.Lock()
		all := slices.Min(f.has[:]) == len(f.set)
		f.mu.Unlock()
		if all {
			return
		}
		<-f.news
	}
}

// forget gives the ages so far, and begins anew.
func (f *stale) forget() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	ages := f.ages
	f.ages = nil
	return ages
}
