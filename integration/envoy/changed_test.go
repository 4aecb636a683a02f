package envoy

import (
	"slices"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/traffic"
	"google.golang.org/protobuf/types/known/durationpb"
)

// warmTime is how long a changed cluster may take to serve (WARM-3).
const warmTime = time.Second

// fetchTime is how long the Envoys of a scenario wait for what does not come: Envoy's
// default where time does not matter.
func fetchTime() time.Duration {
	if soaking() {
		return 15 * time.Second
	}
	return 4 * time.Second
}

func changedScenarios() []scenario {
	return []scenario{{
		name: "changed cluster, ordinary control plane", proves: "WARM-3 WARM-1", forms: everyForm,
		behaviour: plane.GoControlPlane(), fetch: fetchTime(), play: changedCluster,
	}, {
		name: "changed cluster, endpoints pushed again", proves: "WARM-3 WARM-1", forms: everyForm,
		behaviour: plane.Istio(), fetch: fetchTime(), play: changedCluster,
	}}
}

// TestChangedCluster changes a cluster, and not its endpoints. An Envoy warms the new
// one until it has endpoints, for which an incremental one does not ask again.
func TestChangedCluster_WARM1_WARM3(t *testing.T) { playAll(t, changedScenarios()) }

func changedCluster(w *world) {
	a := w.backend("a")
	w.plane.Set(w.cluster("one"), endpoints("one", a), w.listener("web", "routes"), route("routes", "one"))
	e := w.envoy("changed")
	w.need(soon, "backend a answers", w.answers(e, "web", "a"))
	load := traffic.StartLoad(w.t, e.Addr("web"), "", 5*time.Millisecond)
	limit := warmTime
	if !slices.ContainsFunc(adsForms, func(f form) bool { return f.name == w.form.name }) {
		// Without a stream for all types nobody can know what the Envoy lacks.
		limit += w.fetch
	}
	for _, timeout := range []time.Duration{2 * time.Second, 3 * time.Second} {
		changed := w.cluster("one")
		changed.ConnectTimeout = durationpb.New(timeout)
		w.plane.Set(changed)
		took := w.need(w.fetch+soon, "the changed cluster serves", func() bool {
			return e.ActiveClusters()["one"].ConnectTimeout == timeout.String()
		})
		w.notef("warm after %v", took.Round(10*time.Millisecond))
		if allowed := w.allowed(limit); took > allowed {
			w.faultf("the changed cluster served only after %v, not within %v", took.Round(100*time.Millisecond), allowed)
		}
	}
	load.Stop()
	if failed := load.Failures(); len(failed) > 0 {
		w.faultf("%d of %d requests failed meanwhile: %s", len(failed), load.Sent(), traffic.Summary(failed))
	}
}
