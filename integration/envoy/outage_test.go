package envoy

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/traffic"
)

func outageScenarios() []scenario {
	return []scenario{{
		name: "an Envoy joins while the control plane is away", proves: "OPS-1 ACK-4", forms: everyForm, only: relayed,
		behaviour: plane.GoControlPlane(), play: outage,
	}}
}

// TestOutage takes the control plane away from a relay that knows what the Envoys want.
func TestOutage_OPS1_ACK4(t *testing.T) { playAll(t, outageScenarios()) }

func outage(w *world) {
	a, b := w.backend("a"), w.backend("b")
	w.plane.Set(
		w.cluster("one"), endpoints("one", a), w.cluster("two"), endpoints("two", b),
		w.listener("web", "routes"), route("routes", "one"), envoyproc.Static("removed", a),
	)
	first := w.envoy("first")
	w.need(soon, "backend a answers", w.answers(first, "web", "a"))
	load := traffic.StartLoad(w.t, first.Addr("web"), "", 5*time.Millisecond)
	w.plane.Stop()
	second := w.envoy("second")
	took, _ := w.within(prompt, "the Envoy that joins is live", second.Live)
	w.notef("live in %v", took.Round(10*time.Millisecond))
	both := []*envoyproc.Envoy{first, second}
	for _, e := range both {
		w.stays(settled/2, e.Node()+" serves during the outage", w.answers(e, "web", "a"))
	}
	w.plane.Set(route("routes", "two"))
	w.plane.Remove(envoyproc.Static("removed", a)) // nothing leads there: not every form has an order of types
	w.plane.Restart(w.t)
	for _, e := range both {
		w.within(soon, e.Node()+" has what changed meanwhile", w.answers(e, "web", "b"))
		w.within(soon, e.Node()+" has lost what was removed meanwhile", func() bool { return !active(e, "removed")() })
	}
	load.Stop()
	if failed := load.Failures(); len(failed) > 0 {
		w.faultf("%d of %d requests failed meanwhile: %s", len(failed), load.Sent(), traffic.Summary(failed))
	}
	w.unscathed(both...)
}
