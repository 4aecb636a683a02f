package envoy

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

// timeToLive is the ttl of what expires.
const timeToLive = 2 * time.Second

func ttlScenarios() []scenario {
	whole := plane.GoControlPlane()
	whole.RenewWhole = true
	streams := []form{deltaADS, stateADS, deltaPerType, statePerType, deltaOnState, stateOnDelta} // polls are not renewed
	return []scenario{{
		name: "ttl, renewed by heartbeats", proves: "TTL-1 TTL-2 TTL-3", forms: streams,
		behaviour: plane.GoControlPlane(), play: expiring,
	}, {
		name: "ttl, renewed by whole lists", proves: "TTL-1 TTL-2", forms: []form{stateADS, statePerType, deltaOnState},
		behaviour: whole, play: expiring,
	}, {
		name: "ttl runs out while the server is away", proves: "TTL-1", forms: streams,
		behaviour: plane.GoControlPlane(), play: expiringAlone,
	}}
}

// TestTTL has a cluster live for as long as the control plane renews it. Envoys honour
// ttl without a word about it.
func TestTTL_TTL1_TTL2_TTL3(t *testing.T) { playAll(t, ttlScenarios()) }

// renew sends heartbeats until the function that it gives is called.
func (w *world) renew(typeURL string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var beating sync.WaitGroup
	beating.Go(func() {
		tick := time.NewTicker(timeToLive / 5)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				w.plane.Heartbeat(typeURL)
			}
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		beating.Wait()
	})
	w.t.Cleanup(stop)
	return stop
}

// expiringAlone ends the server that the Envoy is connected to: nobody tells it that the cluster is gone.
func expiringAlone(w *world) {
	a := w.backend("a")
	w.plane.Set(envoyproc.Static("stays", a))
	const ttl = 2 * timeToLive
	w.plane.Apply(plane.Change{Set: []plane.Resource{{Name: "mortal", Message: envoyproc.Static("mortal", a), TTL: ttl}}})
	e := w.envoy("alone")
	w.need(soon, "the cluster is there", active(e, "mortal"))
	w.down()
	w.within(ttl+prompt, "the cluster expires", func() bool { return !active(e, "mortal")() })
	w.stays(300*time.Millisecond, "the cluster without ttl", active(e, "stays"))
}

func expiring(w *world) {
	a := w.backend("a")
	w.plane.Set(envoyproc.Static("stays", a))
	mortal := plane.Resource{Name: "mortal", Message: envoyproc.Static("mortal", a), TTL: timeToLive}
	w.plane.Apply(plane.Change{Set: []plane.Resource{mortal}})
	stop := w.renew(plane.Cluster)
	first := w.envoy("first")
	w.need(soon, "the cluster is there", active(first, "mortal"))
	w.stays(timeToLive, "the cluster that is renewed", active(first, "mortal"))
	second := w.envoy("second")
	w.need(soon, "the cluster is there", active(second, "mortal"))
	for _, e := range []*envoyproc.Envoy{first, second} {
		w.stays(timeToLive, e.Node()+": the cluster that is renewed", active(e, "mortal"))
	}
	stop()
	for _, e := range []*envoyproc.Envoy{first, second} {
		w.within(timeToLive+prompt, e.Node()+": the cluster that is not renewed expires", func() bool { return !active(e, "mortal")() })
		w.stays(300*time.Millisecond, e.Node()+": the cluster without ttl", active(e, "stays"))
	}
	w.plane.Apply(plane.Change{Set: []plane.Resource{plane.Named(envoyproc.Static("later", a))}})
	for _, e := range []*envoyproc.Envoy{first, second} {
		w.within(prompt, e.Node()+": another cluster", active(e, "later"))
	}
	w.unscathed(first, second)
}
