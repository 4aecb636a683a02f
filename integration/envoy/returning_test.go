package envoy

import (
	"fmt"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/traffic"
	"google.golang.org/protobuf/types/known/durationpb"
)

// returnLimit is how soon an Envoy whose server restarted has a change (RES-2): the time
// to connect again is part of it.
const returnLimit = 3 * time.Second

func returningScenarios() []scenario {
	return []scenario{{
		name: "the server restarts, contents change right after", proves: "RES-2 RES-11", forms: everyForm,
		behaviour: plane.GoControlPlane(), play: func(w *world) { returning(w, false) },
	}, {
		name: "the server restarts, contents changed meanwhile", proves: "RES-2 RES-11", forms: everyForm,
		behaviour: plane.GoControlPlane(), play: func(w *world) { returning(w, true) },
	}, {
		name: "the server restarts, a route moved to a new cluster meanwhile", proves: "RES-11 ADS-4 WARM-4", forms: everyForm,
		play: func(w *world) { returningElsewhere(w, true) },
	}, {
		name: "the server restarts, a route moved to a new cluster meanwhile, beside the old one", proves: "RES-11 WARM-4", forms: everyForm,
		play: func(w *world) { returningElsewhere(w, false) },
	}, {
		name: "the relay restarts from its disk, a route moved to a new cluster meanwhile", proves: "SUR-1 ADS-4 WARM-4", forms: everyForm, only: relayed, disk: true,
		play: func(w *world) { returningElsewhere(w, true) },
	}}
}

// TestReturning restarts the server that an Envoy is connected to: a control plane that
// has its contents, or a relay that knows nothing.
func TestReturning_RES2_RES11(t *testing.T) { playAll(t, returningScenarios()) }

// down ends the server that the Envoys are connected to.
func (w *world) down() {
	if n := len(w.relays); n > 0 {
		w.relays[n-1].stop()
	} else {
		w.plane.Stop()
	}
}

// up brings it back.
func (w *world) up() {
	w.t.Helper()
	if n := len(w.relays); n > 0 {
		w.relays[n-1].restart()
	} else {
		w.plane.Restart(w.t)
	}
}

const many = 30

// numbered is one of many clusters, with a timeout in seconds.
func numbered(i int, addr string, timeout int) *clusterv3.Cluster {
	c := envoyproc.Static(fmt.Sprintf("c-%02d", i), addr)
	c.ConnectTimeout = durationpb.New(time.Duration(timeout) * time.Second)
	return c
}

// returningElsewhere has an Envoy come back with a cluster, which may be gone, and a route to one that it does not know.
func returningElsewhere(w *world, gone bool) {
	a, b := w.backend("a"), w.backend("b")
	w.plane.Set(w.cluster("old"), endpoints("old", a), w.listener("web", "routes"), route("routes", "old"))
	e := w.envoy("returning")
	w.need(soon, "backend a answers", w.answers(e, "web", "a"))
	load := traffic.StartLoad(w.t, e.Addr("web"), "", 5*time.Millisecond)
	w.down()
	change := plane.Change{Set: []plane.Resource{plane.Named(w.cluster("new")), plane.Named(endpoints("new", b)), plane.Named(route("routes", "new"))}}
	if gone {
		change.Remove = []plane.Key{plane.KeyOf(w.cluster("old")), plane.KeyOf(endpoints("old", a))}
	}
	w.plane.Apply(change)
	w.up()
	w.within(returnLimit, "the new route is in use", w.answers(e, "web", "b"))
	load.Stop()
	if failed := load.Failures(); len(failed) > 0 {
		w.faultf("%d of %d requests failed meanwhile: %s", len(failed), load.Sent(), traffic.Summary(failed))
	}
	w.unscathed(e)
}

func returning(w *world, meanwhile bool) {
	a, b := w.backend("a"), w.backend("b")
	w.plane.Set(
		w.cluster("one"), endpoints("one", a), w.cluster("two"), endpoints("two", b),
		w.listener("web", "routes"), route("routes", "one"),
	)
	for i := range many {
		w.plane.Set(numbered(i, a, 1))
	}
	e := w.envoy("returning")
	w.need(soon, "the Envoy has all clusters", func() bool { return len(e.ActiveClusters()) == many+2 })
	w.need(soon, "backend a answers", w.answers(e, "web", "a"))
	load := traffic.StartLoad(w.t, e.Addr("web"), "", 5*time.Millisecond)
	change := func() {
		w.plane.Apply(plane.Change{
			Set:    []plane.Resource{plane.Named(route("routes", "two")), plane.Named(numbered(5, a, 2)), plane.Named(numbered(many, a, 2))},
			Remove: []plane.Key{plane.KeyOf(numbered(7, a, 1))},
		})
	}
	fewest := many + 2
	// has looks at the clusters. None but one may ever be gone.
	has := func() bool {
		all := e.ActiveClusters()
		_, added := all[numbered(many, a, 1).GetName()]
		_, removed := all[numbered(7, a, 1).GetName()]
		fewest = min(fewest, len(all))
		return added && !removed && all[numbered(5, a, 1).GetName()].ConnectTimeout == "2s"
	}
	w.down()
	if meanwhile {
		change()
	}
	w.up()
	if !meanwhile {
		change()
	}
	took, _ := w.within(returnLimit, "the changes of clusters are in use", has)
	w.notef("changed after %v", took.Round(100*time.Millisecond))
	w.within(returnLimit, "the changed route is in use", w.answers(e, "web", "b"))
	w.stays(settled, "the changes are in use", has)
	if fewest < many+1 {
		w.faultf("the Envoy had but %d clusters", fewest)
	}
	load.Stop()
	if failed := load.Failures(); len(failed) > 0 {
		w.faultf("%d of %d requests failed meanwhile: %s", len(failed), load.Sent(), traffic.Summary(failed))
	}
	w.unscathed(e)
}
