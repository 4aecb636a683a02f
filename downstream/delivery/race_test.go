package delivery

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/protobuf/proto"
)

// TestConcurrency runs everything at once, for the race detector and for the one
// thing that no lock per table gives: the server adds a cluster, points the route
// to it, changes the cluster and removes the one before, and no client ever holds
// a route without the cluster that it points to (ADS-1, ADS-3), whatever it
// acknowledges late, and whoever else comes and goes (SUB-11, OPS-3).
func TestConcurrency_ADS1_ADS3_SUB11_OPS3(t *testing.T) {
	whole := cache.New(cache.Limits{MaxResources: 20, Idle: time.Nanosecond}, nil)
	whole.MinChunk = 1
	store := whole.Open(cache.Source{Quiet: quiet, FullState: map[string]bool{cds: true}, References: true})
	store.Session().Restart(streamOf(0), 0)
	var server, others sync.WaitGroup
	var done atomic.Bool

	keep := Join(store, func() {}, Form{}) // so that the stream need not begin anew
	keep.Update(&Change{TypeURL: cds, Subscribe: names([]string{"*"})})
	keep.Update(&Change{TypeURL: rds, Subscribe: names([]string{"r"})})
	store.Session().TakeDemand(streamOf(0))

	server.Go(func() {
		apply := func(typeURL string, words ...string) {
			if err := store.Session().Apply(streamOf(0), response(typeURL, words...), time.Now()); err != nil {
				t.Error(err)
			}
		}
		for i := 1; i < 1024; i++ { // none is discarded: that would end the order of lists
			apply(cds, fmt.Sprintf("+c%d@1", i))
			apply(rds, fmt.Sprintf("+r@c%d", i))
			apply(cds, fmt.Sprintf("+c%d@2", i))
			apply(eds, fmt.Sprintf("+e%d@%d", i%20, i))
			leads := &wire.Response{TypeURL: ldsList, Resources: []*wire.Resource{directory(t, fmt.Sprint("e", i%7), fmt.Sprint(i), false)}}
			if err := store.Session().Apply(streamOf(0), leads, time.Now()); err != nil {
				t.Error(err)
			}
			if i > 1 {
				apply(cds, fmt.Sprintf("-c%d", i-1))
			}
		}
	})
	for n := range 4 {
		form := Form{State: n%2 == 1, Wrapped: n%2 == 1}
		others.Go(func() {
			for last := false; !last; {
				last = done.Load()
				if err := follow(store, &done, form); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for n := range 2 {
		others.Go(func() { // names and globs come and go
			for i := n; !done.Load(); i++ {
				c := Join(store, func() {}, Form{})
				c.Update(&Change{TypeURL: eds, Subscribe: names([]string{fmt.Sprint("e", i%20), fmt.Sprint("e", i%7)})})
				c.Update(&Change{TypeURL: ldsList, Subscribe: names([]string{fmt.Sprint("e", i%7)})})
				c.Update(&Change{TypeURL: cds, Subscribe: names([]string{globG, nameG1, globQ2, nameQ2})})
				_, _, _ = collectFrom(c, never, 1<<20, 8)
				c.Update(&Change{TypeURL: cds, Unsubscribe: names([]string{nameG1, globQ2})})
				_, _, _ = collectFrom(c, never, 1, 1)
				c.Leave()
			}
		})
	}
	for n := range 2 {
		others.Go(func() { // pins too, and who reads
			for i := n; !done.Load(); i++ {
				all := names([]string{fmt.Sprint("e", i%20), fmt.Sprint("e", i%7), globG})
				for _, typeURL := range []string{eds, ldsList} {
					store.Pin(typeURL, all...)
					whole.TakeReferences()
					if i%2 == 0 {
						store.Unpin(typeURL, all...)
					} else {
						store.Unlist(typeURL, all...)
					}
				}
			}
		})
	}
	others.Go(func() {
		for !done.Load() {
			if _, ok := store.Session().TakeDemand(streamOf(0)); !ok {
				store.Session().Lost(streamOf(0))
				store.Session().Restart(streamOf(0), 0)
			}
			store.Session().StreamWanted(streamOf(1))
			whole.Expire(time.Now())
			store.Session().Settle(time.Now())
			store.Stats()
			store.Resources(cds, "")
			if err := store.Check(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	server.Wait()
	done.Store(true)
	others.Wait()
	if err := store.Check(); err != nil {
		t.Error(err)
	}
	keep.Leave()
	if store.Clients() != 0 {
		t.Errorf("%d clients", store.Clients())
	}
}

// follow is a client's life: it collects for a while, with types busy at random,
// and reports a route whose cluster it has not.
func follow(store *cache.Store, done *atomic.Bool, form Form) error {
	bell := make(chan struct{}, 1)
	c := Join(store, ringing(bell), form)
	defer c.Leave()
	c.Update(&Change{TypeURL: rds, Subscribe: names([]string{"r"})})
	c.Update(&Change{TypeURL: cds, Subscribe: names([]string{"*"})})
	clusters := map[string]bool{}
	target := ""
	for range 200 {
		busy := map[string]bool{cds: rand.IntN(3) == 0, rds: rand.IntN(3) == 0}
		batches, _, err := collectFrom(c, func(t string) bool { return busy[t] }, 1+rand.IntN(500), 1+rand.IntN(3))
		if errors.Is(err, ErrBehind) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, b := range batches {
			r, err := decode(b, form)
			if err != nil {
				return err
			}
			if form.State && b.TypeURL == cds {
				clear(clusters) // RES-2
			}
			for _, res := range r.Resources {
				if b.TypeURL == cds {
					clusters[res.Name] = true
				} else {
					target = res.Version
				}
			}
			for _, name := range r.RemovedResources {
				delete(clusters, name)
			}
			if target != "" && !clusters[target] {
				return fmt.Errorf("the route points to %s, the client has %v", target, clusters)
			}
		}
		if len(batches) == 0 {
			if done.Load() {
				return nil
			}
			select {
			case <-bell:
			case <-time.After(time.Millisecond): // a type that was busy may not be any more
			}
		}
	}
	return nil
}

// decode reads a response of either form as if it were an incremental one.
func decode(b *Batch, form Form) (*discovery.DeltaDiscoveryResponse, error) {
	encoded := b.Body.Finish(b.TypeURL, b.SystemVersion, "n").Bytes()
	r := new(discovery.DeltaDiscoveryResponse)
	if !form.State {
		return r, proto.Unmarshal(encoded, r)
	}
	var state discovery.DiscoveryResponse
	if err := proto.Unmarshal(encoded, &state); err != nil {
		return nil, err
	}
	for _, x := range state.Resources {
		res := new(discovery.Resource)
		if err := proto.Unmarshal(x.Value, res); err != nil {
			return nil, err
		}
		r.Resources = append(r.Resources, res)
	}
	return r, nil
}
