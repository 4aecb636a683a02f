package envoy

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

func wildcardScenarios() []scenario {
	return []scenario{{
		name: "a control plane that knows only the legacy wildcard", proves: "SUB-14 SUB-3", forms: everyForm,
		behaviour: plane.Consul(), play: legacyWildcard,
	}}
}

// TestLegacyWildcard has a control plane that takes nothing but an empty first request for
// a wildcard, as Envoys send it.
func TestLegacyWildcard_SUB3_SUB14(t *testing.T) { playAll(t, wildcardScenarios()) }

func legacyWildcard(w *world) {
	a := w.backend("a")
	w.plane.Set(w.cluster("one"), endpoints("one", a), w.listener("web", "routes"), route("routes", "one"))
	first := w.envoy("first")
	w.need(soon, "backend a answers", w.answers(first, "web", "a"))
	second := w.envoy("second")
	w.need(soon, "backend a answers", w.answers(second, "web", "a"))
	both := []*envoyproc.Envoy{first, second}
	w.plane.Set(envoyproc.Static("new", a))
	for _, e := range both {
		w.within(prompt, e.Node()+" has a new cluster", active(e, "new"))
	}
	for _, d := range w.disturbances() {
		if !w.variant.REST {
			w.suffer(d, first)
		} else {
			d.now()
		}
		w.stays(settled, "the Envoys have their clusters after "+d.what, func() bool {
			return active(first, "new")() && active(second, "new")()
		})
		for _, e := range both {
			w.within(prompt, e.Node()+" serves after "+d.what, w.answers(e, "web", "a"))
		}
	}
	w.plane.Remove(envoyproc.Static("new", a))
	w.plane.Set(envoyproc.Static("newer", a))
	for _, e := range both {
		w.within(returnLimit, e.Node()+" has the last cluster", active(e, "newer"))
		w.within(returnLimit, e.Node()+" has not what was removed", func() bool { return !active(e, "new")() })
	}
	w.unscathed(both...)
}
