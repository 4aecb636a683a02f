package envoy

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

// silentFetch is how long Envoys wait for what a control plane never answers, and
// silentRelay how long the relay does: it gives up first.
const (
	silentFetch = 2 * time.Second
	silentRelay = time.Second
)

func silenceScenarios() []scenario {
	return []scenario{{
		name: "names that the control plane never answers", proves: "RES-7 ABS-3", forms: everyForm,
		behaviour: plane.GoControlPlane(), fetch: silentFetch, relay: absentAfter(silentRelay), play: silence,
	}}
}

// TestSilence has the control plane say nothing of a route and of a cluster's endpoints:
// an Envoy waits for them as long as it was told to, and serves what there is.
func TestSilence_RES7_ABS3(t *testing.T) { playAll(t, silenceScenarios()) }

// absentAfter sets how long the relay waits for the answer to a name.
func absentAfter(d time.Duration) func(*config.Config) {
	return func(c *config.Config) {
		for i := range c.Upstreams {
			c.Upstreams[i].AbsentAfter = config.Duration(d)
		}
	}
}

func silence(w *world) {
	a := w.backend("a")
	w.plane.Set(
		w.cluster("one"), endpoints("one", a), w.listener("web", "routes"), route("routes", "one"),
		w.cluster("silent"), w.listener("waits", "silent"),
	)
	first := w.envoy("first")
	w.silent(first)
	// The relay knows by now that there is no answer.
	second := w.envoy("second")
	w.silent(second)
	w.plane.Set(route("silent", "silent"), endpoints("silent", a))
	for _, e := range []*envoyproc.Envoy{first, second} {
		w.within(prompt, e.Node()+" has what is answered at last", w.answers(e, "waits", "a"))
	}
	w.unscathed(first, second)
}

// silent has an Envoy start without what is not answered.
func (w *world) silent(e *envoyproc.Envoy) {
	// It waits first for endpoints, then for routes.
	took := w.need(2*silentFetch+prompt, e.Node()+" is live", e.Live)
	w.notef("%s is live after %v", e.Node(), took.Round(100*time.Millisecond))
	if took < silentFetch {
		w.faultf("%s is live after %v: it was told that there is nothing, which nobody knows", e.Node(), took)
	}
	w.within(prompt, e.Node()+" serves what was answered", w.answers(e, "web", "a"))
	w.within(prompt, e.Node()+" serves what waits for routes", func() bool { return w.get(e, "waits").Status == 404 })
	w.within(prompt, e.Node()+" has the cluster without endpoints", active(e, "silent"))
}

// unscathed notes a fault if an Envoy rejected something, or is gone.
func (w *world) unscathed(envoys ...*envoyproc.Envoy) {
	for _, e := range envoys {
		if e.Ended() {
			w.faultf("%s is gone", e.Node())
		} else if n := rejected(e); n > 0 {
			w.faultf("%s rejected %d responses", e.Node(), n)
		}
	}
}
