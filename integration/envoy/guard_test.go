package envoy

import (
	"fmt"
	"maps"
	"net"
	"strconv"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/internal/testkit/traffic"
	"google.golang.org/protobuf/proto"
)

func guardScenarios() []scenario {
	return []scenario{{
		name: "the control plane restarts empty, and comes back complete", proves: "SUR-3", only: relayed,
		forms:     []form{deltaADS, stateADS, deltaPerType, statePerType},
		behaviour: plane.GoControlPlane(), goCP: true, play: comesBackEmpty,
	}, {
		name: "listeners are renamed on their ports", proves: "SUR-3", forms: adsForms, only: relayed,
		behaviour: plane.GoControlPlane(), play: renamedListeners,
		relay: func(c *config.Config) { c.Upstreams[0].Guard.Hold = config.Duration(renamedHold) },
	}}
}

// TestGuard has a control plane take much away at once, which the relay holds back, and rename
// listeners, which it does not.
func TestGuard_SUR3(t *testing.T) { playAll(t, guardScenarios()) }

// goControlPlane is go-control-plane with a snapshot cache.
type goControlPlane struct {
	*gocontrolplane.ControlPlane

	t *testing.T
}

// startGoControlPlane starts one, plain without its ADS mode.
func startGoControlPlane(t *testing.T, plain bool) *goControlPlane {
	t.Helper()
	begin := gocontrolplane.NewSnapshot
	if plain {
		begin = gocontrolplane.NewPlainSnapshot
	}
	g := &goControlPlane{begin(), t}
	if err := g.Start(t.Context(), net.JoinHostPort("127.0.0.1", strconv.Itoa(ports.Free(t)))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// set adds or changes resources, one after the other.
func (g *goControlPlane) set(messages ...proto.Message) {
	g.t.Helper()
	for _, m := range messages {
		if _, err := g.UpdateResource(cache.GetResourceName(m), proto.Clone(m)); err != nil {
			g.t.Fatal(err)
		}
	}
}

// restartEmpty restarts it without the resources.
func (g *goControlPlane) restartEmpty(messages ...proto.Message) {
	g.t.Helper()
	g.Stop()
	for _, m := range messages {
		if err := g.DeleteResource(gocontrolplane.TypeURL(m), cache.GetResourceName(m)); err != nil {
			g.t.Fatal(err)
		}
	}
	if err := g.Restart(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
}

// restartWith restarts it with resources.
func (g *goControlPlane) restartWith(messages ...proto.Message) {
	g.t.Helper()
	g.Stop()
	g.set(messages...)
	if err := g.Restart(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
}

// guarded is the size of the fleet whose control plane comes back empty, and for how long it is.
func guarded() (envoys int, empty time.Duration) {
	if soaking() {
		return 20, 2 * time.Minute
	}
	return 3, settled
}

const (
	heldMetric   = "xdsrelay_table_held"
	lossesMetric = "xdsrelay_cache_held_losses_total"
)

// comesBackEmpty has the Envoys lose nothing, and sent nothing, while the control plane has nothing.
func comesBackEmpty(w *world) {
	a, b := w.backend("a"), w.backend("b")
	contents := []proto.Message{
		w.cluster("one"), endpoints("one", a), w.cluster("two"), endpoints("two", b),
		w.listener("web", "routes"), route("routes", "one"),
	}
	for i := range many {
		contents = append(contents, numbered(i, a, 1))
	}
	w.goCP.set(contents...)
	envoys, empty := guarded()
	var all []*envoyproc.Envoy
	for i := range envoys {
		all = append(all, w.envoy(fmt.Sprintf("fleet-%d", i)))
	}
	loads := w.loadsOf(all)
	complete := func(e *envoyproc.Envoy) bool { return len(e.ActiveClusters()) == many+2 && len(e.Listeners()) == 1 }
	was := make(map[string]map[string]int64)
	for _, e := range all {
		w.need(soon, e.Node()+" has everything", func() bool { return complete(e) })
		was[e.Node()] = w.received(e)
	}

	w.goCP.restartEmpty(contents...)
	lost := len(contents)
	if !w.variant.Delta {
		lost = many + 3 // the state of the world has no word for the loss of endpoints and routes
	}
	held := func() float64 { return w.relays[0].metric(heldMetric) }
	w.need(soon, "the relay holds everything back", func() bool { return held() == float64(lost) })
	fresh := w.envoy("fresh")
	loads = append(loads, w.loadsOf([]*envoyproc.Envoy{fresh})...)
	w.within(prompt, "the Envoy that joins has everything", func() bool { return complete(fresh) })
	w.stays(empty, "the Envoys have everything", func() bool { return complete(all[0]) && complete(fresh) })

	w.goCP.restartWith(contents...)
	w.need(soon, "the relay holds nothing back", func() bool { return held() == 0 })
	for _, e := range all {
		if now := w.received(e); !maps.Equal(now, was[e.Node()]) {
			w.faultf("%s was sent something: it counts %v, which was %v", e.Node(), now, was[e.Node()])
		}
	}
	all = append(all, fresh)
	w.goCP.set(route("routes", "two"))
	w.haveAll(soon, all, "b")
	w.unharmed(loads)
	w.unscathed(all...)
}

const (
	// renamed is how many listeners get another name, enough for the guard. The first few of them are
	// on ports of their own, the others on ports of the Envoy's choice.
	renamed, onPorts = 25, 3
	// renamedHold is how long the relay holds back what is lost.
	renamedHold = 2 * time.Second
)

// renamedListeners gives all listeners other names on the same ports, which is no loss. Then most of
// them go, and one has another name again: that waits for the others, and no Envoy has two listeners
// on a port.
func renamedListeners(w *world) {
	a := w.backend("a")
	var free [renamed]uint32
	for i := range onPorts {
		free[i] = uint32(ports.Free(w.t))
	}
	listener := func(prefix string, i int) *listenerv3.Listener {
		name := fmt.Sprintf("%s-%02d", prefix, i)
		return onPort(name, free[i], &hcmv3.HttpConnectionManager{
			StatPrefix: name, ServerName: name,
			RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: route("inline", "one")},
		})
	}
	named := func(prefix string) (c plane.Change) {
		for i := range free {
			c.Set = append(c.Set, plane.Named(listener(prefix, i)))
		}
		return c
	}
	gone := func(c plane.Change) (keys []plane.Key) {
		for _, r := range c.Set {
			keys = append(keys, plane.KeyOf(r.Message))
		}
		return keys
	}
	old, next := named("old"), named("new")
	w.plane.Set(envoyproc.Static("one", a))
	w.plane.Apply(old)
	e := w.envoy("renamed")
	w.need(soon, "the Envoy has its listeners", func() bool { return len(e.Listeners()) == renamed })
	w.need(soon, "the listener answers", func() bool { return w.get(e, "old-00").Server == "old-00" })
	load := traffic.StartLoad(w.t, e.Addr("old-00"), "", 10*time.Millisecond)

	next.Remove = gone(old)
	begin := time.Now()
	w.plane.Apply(next)
	w.need(prompt, "the Envoy has the renamed listeners", func() bool { return w.get(e, "new-00").Server == "new-00" && len(e.Listeners()) == renamed })
	w.notef("renamed after %v", time.Since(begin).Round(time.Millisecond))
	if n := w.relays[0].metric(lossesMetric); n > 0 {
		w.faultf("the relay held the renamed listeners back")
	}

	begin = time.Now()
	w.plane.Apply(plane.Change{Set: []plane.Resource{plane.Named(listener("last", 0))}, Remove: gone(next)})
	w.need(soon, "the Envoy has the last listener", func() bool { return w.get(e, "last-00").Server == "last-00" })
	if took := time.Since(begin); took < renamedHold {
		w.faultf("the last listener came after %v, while the loss of the others is held for %v", took, renamedHold)
	}
	w.within(prompt, "the Envoy has lost the others", func() bool { return len(e.Listeners()) == 1 })
	if n := w.relays[0].metric(lossesMetric); n != 1 {
		w.faultf("the relay held %v losses back, want 1", n)
	}
	w.unharmed([]*traffic.Load{load})
	w.unscathed(e)
}
