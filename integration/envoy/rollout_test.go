package envoy

import (
	"fmt"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

const (
	streamsMetric = "xdsrelay_downstream_streams"
	retiredMetric = "xdsrelay_downstream_streams_retired_total"
)

func rolloutScenarios() []scenario {
	return []scenario{{
		name: "Envoys spread over two relays again after a rolling restart", proves: "SUR-4", forms: []form{deltaADS}, only: relayed,
		behaviour: plane.GoControlPlane(), pair: true, play: rolledOut,
	}}
}

// TestRollout restarts two relays one after the other: the second one has no Envoys then, and none of both is
// idle once the connections have reached their age. No request of the Envoys fails.
//
// Which relay an Envoy chooses is chance, and how long it takes to try the other one, too: only a soak has the
// time and the number of Envoys for that.
func TestRollout_SUR4(t *testing.T) {
	if !soaking() {
		t.Skip("only make soak SUITE=envoy plays it")
	}
	playAll(t, rolloutScenarios())
}

// The number of Envoys, and the age of their connections, which is less than an operator may have it.
const (
	rolledEnvoys = 20
	rolledAge    = 20 * time.Second
)

func rolledOut(w *world) {
	a := w.backend("a")
	w.plane.Set(w.cluster("one"), endpoints("one", a), w.listener("web", "routes"), route("routes", "one"))
	const n, age = rolledEnvoys, rolledAge
	var all []*envoyproc.Envoy
	for i := range n {
		b := w.variant.Bootstrap(fmt.Sprint("envoy-", i), w.relays[0].addr, w.relays[1].addr)
		// With Envoy's default, ROUND_ROBIN, all of them would go to the other relay each time, together.
		b.GetStaticResources().GetClusters()[0].LbPolicy = clusterv3.Cluster_RANDOM
		all = append(all, envoyproc.Start(w.t, w.binary, b))
	}
	loads := w.loadsOf(all)
	shares := func() (first, second float64) {
		return w.relays[0].metric(streamsMetric), w.relays[1].metric(streamsMetric)
	}
	for i, r := range w.relays {
		r.stop()
		w.need(6*soon, "all Envoys are at the other relay", func() bool { return w.relays[1-i].metric(streamsMetric) == float64(n) })
		r.config.Server.MaxConnectionAge = config.Duration(age)
		r.again()
	}
	first, second := shares()
	w.notef("%v and %v after the rolling restart", first, second)
	// All of them have come to the first relay by now, and leave it once.
	w.need(soon+2*age, "the connections have reached their age", func() bool { return w.relays[0].metric(retiredMetric) >= float64(n) })
	w.need(soon+2*age, "no relay is idle", func() bool {
		first, second = shares()
		return first > 0 && second > 0 && first+second == float64(n)
	})
	w.notef("%v and %v after one age of connections", first, second)
	w.haveAll(soon, all, "a")
	w.unharmed(loads)
	w.unscathed(all...)
}
