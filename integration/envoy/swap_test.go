package envoy

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/traffic"
)

// swaps is how often everything is replaced.
const swaps = 20

func swapScenarios() []scenario {
	return []scenario{{
		name: "cluster, endpoints and route replaced at once", proves: "UPS-3 WARM-4 ADS-1 ADS-4", forms: adsForms,
		behaviour: plane.GoControlPlane(), alone: true, play: func(w *world) { replacedAtOnce(w, false) },
	}, {
		name: "cluster, endpoints and route replaced in quick succession", proves: "UPS-3 WARM-4 ADS-1 ADS-4", forms: adsForms,
		behaviour: plane.GoControlPlane(), alone: true, play: func(w *world) { replacedAtOnce(w, true) },
	}}
}

// TestReplacedAtOnce has the control plane replace a cluster, its endpoints and the
// route to it in one go, which leaves an order to nobody but the relay.
func TestReplacedAtOnce_ADS1_ADS4_WARM4_UPS3(t *testing.T) { playAll(t, swapScenarios()) }

// replacedAtOnce replaces everything again and again: hastily as soon as the new cluster
// answers, else when the old one is gone.
func replacedAtOnce(w *world, hastily bool) {
	backends := map[string]string{"a": w.backend("a"), "b": w.backend("b")}
	w.plane.Set(w.cluster("to-a"), endpoints("to-a", backends["a"]), w.listener("web", "routes"), route("routes", "to-a"))
	e := w.envoy("swaps")
	w.need(soon, "backend a answers", w.answers(e, "web", "a"))
	load := traffic.StartLoad(w.t, e.Addr("web"), "", 2*time.Millisecond)
	failing, now, next := 0, "a", "b"
	var longest time.Duration
	for range swaps {
		before := len(load.Failures())
		begin := time.Now()
		w.plane.Apply(plane.Change{
			Set: []plane.Resource{
				plane.Named(w.cluster("to-" + next)), plane.Named(endpoints("to-"+next, backends[next])),
				plane.Named(route("routes", "to-"+next)),
			},
			Remove: []plane.Key{
				plane.KeyOf(w.cluster("to-" + now)), plane.KeyOf(endpoints("to-" + now)),
			},
		})
		longest = max(longest, w.need(soon, "backend "+next+" answers", func() bool { return load.AnsweredSince(begin, next) }))
		if !hastily {
			w.need(soon, "the old cluster is gone", func() bool { return !active(e, "to-"+now)() })
			done := load.Done()
			w.need(soon, "50 more requests", func() bool { return load.Done() > done+50 })
		}
		if len(load.Failures()) > before {
			failing++
		}
		now, next = next, now
	}
	load.Stop()
	failed := load.Failures()
	w.notef("%d of %d requests failed, in %d of %d replacements (%s); a replacement took at most %v",
		len(failed), load.Sent(), failing, swaps, traffic.Summary(failed), longest.Round(time.Millisecond))
	if len(failed) > 0 {
		w.faultf("%d requests failed in %d of %d replacements", len(failed), failing, swaps)
	}
}
