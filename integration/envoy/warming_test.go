package envoy

import (
	"fmt"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

func warmingScenarios() []scenario {
	forever := -time.Second
	return []scenario{{
		name: "clusters change while one warms for ever", proves: "ADS-2 WARM-4", forms: everyForm,
		behaviour: plane.GoControlPlane(), fetch: forever, play: changesWhileWarming,
	}, {
		name: "a cluster warms for ever, streams break, clusters change", proves: "ADS-2 RES-11", forms: adsForms,
		behaviour: plane.GoControlPlane(), fetch: forever, play: backWhileWarming,
	}}
}

// TestWarming has a cluster whose endpoints never come: an Envoy goes on warming it, and
// some acknowledge no clusters as long as they do.
func TestWarming_ADS2_WARM4(t *testing.T) { playAll(t, warmingScenarios()) }

// outstanding is more than the responses that may be without an acknowledgement.
const outstanding = 10

func changesWhileWarming(w *world) {
	a, b := w.backend("a"), w.backend("b")
	w.plane.Set(w.cluster("one"), endpoints("one", a), w.listener("web", "routes"), route("routes", "one"))
	e := w.envoy("warming")
	w.need(soon, "backend a answers", w.answers(e, "web", "a"))
	w.plane.Set(w.cluster("cold"))
	w.need(soon, "the cluster without endpoints warms", func() bool { return len(e.WarmingClusters()) > 0 })
	var longest time.Duration
	for i := range outstanding {
		name := fmt.Sprintf("changes-%d", i)
		w.plane.Set(envoyproc.Static(name, a))
		longest = max(longest, w.need(prompt, fmt.Sprintf("cluster %d of %d", i+1, outstanding), active(e, name)))
	}
	w.notef("a new cluster took at most %v", longest.Round(10*time.Millisecond))
	w.plane.Set(w.cluster("two"), endpoints("two", b), route("routes", "two"))
	w.within(prompt, "a new cluster of type EDS answers", w.answers(e, "web", "b"))
	w.plane.Set(endpoints("cold", b))
	w.within(prompt, "the cluster that warmed", active(e, "cold"))
	w.unscathed(e)
}

// backWhileWarming has the streams of an Envoy end that withholds its acknowledgement of clusters since one warms: it is
// to ask for clusters on its next stream (envoyproxy/envoy#36951), and does so at the latest when none warms any more.
func backWhileWarming(w *world) {
	a := w.backend("a")
	w.plane.Set(envoyproc.Static("one", a))
	e := w.envoy("back")
	w.need(soon, "the Envoy has a cluster", active(e, "one"))
	w.plane.Set(w.cluster("cold"))
	w.need(soon, "the cluster without endpoints warms", func() bool { return len(e.WarmingClusters()) > 0 })
	var last string
	for i, d := range w.disturbances() {
		w.suffer(d, e)
		last = fmt.Sprint("after-", i)
		w.plane.Set(envoyproc.Static(last, a))
		w.within(prompt, "the Envoy has a new cluster after "+d.what, active(e, last))
	}
	w.plane.Set(endpoints("cold", a))
	w.need(soon, "the cluster that warmed", active(e, "cold"))
	w.need(soon, "the Envoy has the new clusters when none warms any more", active(e, last))
}
