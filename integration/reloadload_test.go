package integration

import (
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
)

// settings are the relay's beside the rules.
func (f *movedFleet) settings(c *config.Config) {
	f.rules.apply(c)
	c.Upstreams[1].Authorities = []string{"second"} // or nobody would ask it at first
	c.Aggregation.Linger = config.Duration(50 * time.Millisecond)
	for i := range c.Upstreams { // what is not answered is on its way, however busy the machine is
		c.Upstreams[i].AbsentAfter = config.Duration(2 * patience)
	}
}

// change has the relay go on with other rules, while some clients do not read.
func (f *movedFleet) change(to *ruleSet) {
	f.t.Helper()
	for _, c := range f.clients {
		c.settled.Store(false)
		c.common().distrust()
		c.refusing.Store(c.rejects)
		switch {
		case !c.slow:
		case f.rand.IntN(2) == 0:
			c.pause()
		default:
			c.holdACKs(everyType[f.rand.IntN(len(everyType))])
		}
		c.rules.Store(to)
	}
	f.rules = to
	f.relay.mustReload(f.t, to.apply)
}

// moved brings the clients back that the relay has sent away, and reports whether it has
// sent away all that it is to.
func (f *movedFleet) moved() bool {
	f.t.Helper()
	f.revive()
	return !slices.ContainsFunc(f.shownStreams(), func(s downstream.Status) bool { return s.Leaving })
}

// settle has everybody read, acknowledge and accept, and waits until all hold what is
// theirs, and the relay has let go of everything else.
func (f *movedFleet) settle() {
	f.t.Helper()
	for _, c := range f.clients {
		c.refusing.Store(false)
		c.resume()
		for _, typeURL := range everyType {
			c.releaseACKs(typeURL)
		}
	}
	f.everywhere(func(w *worlds) { // what was refused comes again when it changes
		for typeURL, names := range w.names() {
			for _, name := range names {
				w.again(typeURL, name)
			}
		}
	})
	for _, c := range f.clients {
		f.awaitConverged(c)
	}
	for _, c := range f.clients {
		c.settled.Store(true)
		if !c.converged() {
			f.fatal("client %s (%s) holds strangers %q", c.common().node, c.variant.name, c.strangers())
		}
		if faults := c.common().found(); len(faults) > 0 {
			f.fatal("client %s (%s): %q", c.common().node, c.variant.name, faults)
		}
	}
	waitFor(f.t, "the end of the scopes that nobody needs", func() bool {
		return maps.Equal(f.upstreamStreams(), f.wantStreams())
	})
}

func (f *movedFleet) awaitConverged(c *movedClient) {
	f.t.Helper()
	for !c.common().happens(func() bool { return c.converged() || !c.connected() }) || !c.connected() {
		if c.connected() {
			for _, typeURL := range everyType {
				if got, want := c.common().payloads(typeURL), c.want(typeURL); !maps.Equal(got, want) {
					f.t.Errorf("of %s it holds %q\nwant %q", typeURL, got, want)
				}
			}
			_, shown := f.relay.get(f.t, "/clients?node="+c.common().node)
			f.fatal("client %s (%s) never came to hold what is its own; %q\n%s", c.common().node, c.variant.name, c.common().found(), shown)
		}
		f.revive()
	}
}

// upstreamStreams is how many streams the control planes have, by world.
func (f *movedFleet) upstreamStreams() map[string]int {
	open := f.first.streams()
	maps.Copy(open, f.second.streams())
	return open
}

// wantStreams is how many there should be: one for each scope.
func (f *movedFleet) wantStreams() map[string]int {
	scopes := make(map[string]map[string]bool)
	for _, c := range f.clients {
		for _, typeURL := range everyType {
			for name := range c.common().wanted(typeURL) {
				world, scope := f.rules.world(c.node, typeURL, name), ""
				if f.rules.scope != nil {
					scope = f.rules.scope(c.node)
				}
				if scopes[world] == nil {
					scopes[world] = make(map[string]bool)
				}
				scopes[world][scope] = true
			}
		}
	}
	want := make(map[string]int)
	for world, all := range scopes {
		want[world] = len(all)
	}
	return want
}

// churn changes resources in all worlds, thirty times or until the returned function is
// called: on a busy machine there would be no moment without something on its way.
func (f *movedFleet) churn(round uint64) (end func()) {
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := range uint64(30) {
			f.everywhere(func(w *worlds) { f.churnOnce(w, round+i) })
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	})
	return func() {
		close(stop)
		running.Wait()
	}
}

// churnOnce changes one thing. Every tenth time a route is led to a cluster that is made
// for it, and the one before is broken.
func (f *movedFleet) churnOnce(w *worlds, i uint64) {
	kind := []string{"common-", "some-"}[i%2]
	switch i % 10 {
	case 0:
		old := w.moves
		w.moves++
		next := fmt.Sprint("target-", w.moves)
		w.set(clusterType, next, true)
		w.setRoute("common-moved", func(string) string { return next })
		w.unset(clusterType, fmt.Sprint("target-", old))
	case 1, 2:
		w.again(clusterType, fmt.Sprint(kind, i%5))
	case 3:
		w.again(listenerType, fmt.Sprint(kind, i%2))
	case 4:
		w.again(routeType, "common-own")
	default:
		w.again(endpointType, fmt.Sprint(kind, i/2%5))
	}
}

// level is what must be as before once the rules are.
type level struct {
	heap       int64
	goroutines int
}

func (f *movedFleet) level() level {
	f.relay.log.Forget()
	for _, c := range f.clients { // what the test keeps of the past is not the relay's
		h := c.common()
		h.mu.Lock()
		h.absent = make(map[string]map[string]bool)
		h.mu.Unlock()
	}
	return level{heap(), runtime.NumGoroutine()}
}

var movedClients = flag.Int("reloadload.clients", 300, "how many clients TestReloadUnderLoad has")

// TestReloadUnderLoad: the rules that say who shares what change ten times, under
// hundreds of clients of all variants, while everything is updated in every scope. Names and
// versions are the same everywhere: only the payloads tell what comes from where.
//
//   - Streams whose names live elsewhere end with UNAVAILABLE, and no others do.
//   - Clients that come back are sent what their scope has, byte for byte, and from then
//     on nothing of another scope.
//   - On the way they lose nothing that both scopes have, and no route leads to a cluster
//     that the client does not hold.
//   - Streams upstream, goroutines and memory are as before in the end.
func TestReloadUnderLoad_AGG1_AGG2_AGG3_SUB10_ADS1(t *testing.T) {
	clients := *movedClients
	if testing.Short() || raceEnabled {
		clients = min(clients, 150)
	}
	f := newMovedFleet(t, *seed, clients)
	before := f.level()
	for i := range ruleSets {
		to := &ruleSets[(i+1)%len(ruleSets)]
		end := f.churn(uint64(i * 1000))
		f.change(to)
		waitFor(t, "the ends of all streams that have to move to "+to.name, f.moved)
		end()
		f.settle()
	}
	waitFor(t, "the goroutines from before", func() bool { return runtime.NumGoroutine() <= before.goroutines })
	after := f.level()
	t.Logf("heap %d → %d KiB, goroutines %d → %d, streams closed %v", before.heap>>10, after.heap>>10, before.goroutines, after.goroutines, f.closed())
	if most := before.heap + before.heap/10 + 4<<20; after.heap > most {
		t.Errorf("the heap grew from %d to %d KiB", before.heap>>10, after.heap>>10)
	}
	f.first.checkClient(t)
	f.second.checkClient(t)
	f.relay.consistent(t)
}

// closed is how many streams were ended by reloads, by variant.
func (f *movedFleet) closed() []string {
	var all []string
	for _, m := range mix {
		all = append(all, fmt.Sprintf("%s: %d", m.variant.name, f.streams[m.variant]))
	}
	return slices.Clip(all)
}
