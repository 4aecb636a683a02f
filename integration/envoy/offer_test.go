package envoy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
)

func offerScenarios() []scenario {
	return []scenario{{
		name: "15 listeners, each before its cluster", proves: "ACK-3", goCP: true, plain: true, play: listenersFirst,
		forms: []form{deltaADS, stateADS, deltaPerType, statePerType, deltaOnState, stateOnDelta},
	}, {
		name: "a listener that is bad for good, and new clusters", proves: "ACK-3 ACK-7", goCP: true, plain: true, play: badForGood,
		forms: []form{deltaADS, stateADS, deltaPerType, statePerType}, only: relayed,
	}}
}

// TestOffers has Envoys reject listeners for want of their clusters: they are to have them soon after these.
func TestOffers_ACK3(t *testing.T) { playAll(t, offerScenarios()) }

// leadsTo is a listener whose routes are in it.
func leadsTo(name, cluster string) *listenerv3.Listener {
	return onPort(name, 0, &hcmv3.HttpConnectionManager{
		StatPrefix: name, RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: route("inline", cluster)},
	})
}

// ready starts an Envoy that has a cluster and a listener.
func (w *world) ready(backend string) *envoyproc.Envoy {
	w.t.Helper()
	w.goCP.set(envoyproc.Static("first", backend), leadsTo("first", "first"))
	e := w.envoy("offers")
	w.need(soon, "the first listener serves", func() bool { return e.Accepts("first") })
	return e
}

// listenersFirst adds listeners before their clusters, so that the Envoy rejects them.
func listenersFirst(w *world) {
	const n = 15
	a := w.backend("a")
	e := w.ready(a)
	var clusters, listeners [n]time.Time
	look := func() bool {
		has, serves := e.ActiveClusters(), e.Listeners()
		done := true
		for i := range n {
			name, now := fmt.Sprint("l-", i), time.Now()
			if _, is := has[name]; is && clusters[i].IsZero() {
				clusters[i] = now
			}
			if _, is := serves[name]; is && listeners[i].IsZero() {
				listeners[i] = now
			}
			done = done && !listeners[i].IsZero()
		}
		return done
	}
	for i := range n {
		name := fmt.Sprint("l-", i)
		w.goCP.set(leadsTo(name, name), envoyproc.Static(name, a))
		wait.Until(20*time.Millisecond, func() bool { look(); return false })
	}
	wait.Until(w.allowed(2*time.Second), look)
	var waits []time.Duration
	stuck := 0
	for i := range n {
		if listeners[i].IsZero() {
			stuck++
		} else {
			waits = append(waits, max(0, listeners[i].Sub(clusters[i])).Round(time.Millisecond))
		}
	}
	slices.Sort(waits)
	if stuck > 0 {
		w.faultf("%d of %d listeners do not serve", stuck, n)
	}
	if len(waits) > 0 {
		w.notef("after their clusters half of the listeners serve within %v and all within %v, %d rejections", waits[len(waits)/2], waits[len(waits)-1], rejected(e))
	}
}

// badForGood adds clusters beside a listener that names one which never comes.
func badForGood(w *world) {
	clusters := 10
	if soaking() {
		clusters = 60
	}
	a := w.backend("a")
	e := w.ready(a)
	w.goCP.set(leadsTo("bad", "never"))
	w.need(soon, "the Envoy rejects the listener", func() bool { return rejected(e) > 0 })
	w.within(prompt, "go-control-plane is told", func() bool { return w.goCP.Stats().Nacks > 0 })
	for i := range clusters {
		w.goCP.set(envoyproc.Static(fmt.Sprint("c-", i), a))
		wait.Until(time.Second, func() bool { return false })
	}
	w.need(soon, "the Envoy has all clusters", func() bool { return len(e.ActiveClusters()) == clusters+1 })
	if !e.Accepts("first") {
		w.faultf("the good listener does not serve")
	}
	w.notef("%d rejections in %d s", rejected(e), clusters)
	if rejected(e) > 10 {
		w.faultf("%d rejections in %d s, want at most 10", rejected(e), clusters)
	}
}
