package envoy

import (
	"net/http"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	ondemandv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/on_demand/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"google.golang.org/protobuf/types/known/durationpb"
)

func demandScenarios() []scenario {
	behaviour := plane.GoControlPlane()
	behaviour.Absent = plane.AbsentRemoved
	return []scenario{{
		name: "clusters on demand", proves: "RES-6 SUB-12", forms: deltaForms,
		behaviour: behaviour, play: clustersOnDemand,
	}}
}

// TestOnDemandClusters has Envoys ask for clusters when the first request for them comes.
func TestOnDemandClusters_RES6_SUB12(t *testing.T) { playAll(t, demandScenarios()) }

// demandTimeout is how long a request waits for its cluster.
const demandTimeout = 3 * time.Second

// byHost sends each request to the cluster that its host names.
func byHost(name string) *routev3.RouteConfiguration {
	r := route(name, "")
	r.GetVirtualHosts()[0].GetRoutes()[0].GetRoute().ClusterSpecifier = &routev3.RouteAction_ClusterHeader{ClusterHeader: ":authority"}
	return r
}

// demanding is a listener whose filter waits for clusters.
func (r resources) demanding(name string) *listenerv3.Listener {
	source := r.source()
	return onPort(name, 0, &hcmv3.HttpConnectionManager{
		StatPrefix: name, RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: byHost("inline")},
		HttpFilters: []*hcmv3.HttpFilter{filter("on-demand", &ondemandv3.OnDemand{
			Odcds: &ondemandv3.OnDemandCds{Source: source, Timeout: durationpb.New(demandTimeout)},
		})},
	})
}

// unlisted is a cluster that only those get who name it.
func unlisted(name, addr string) plane.Resource {
	r := plane.Named(envoyproc.Static(name, addr))
	r.Unlisted = true
	return r
}

// refusedAtOnce is the condition that a request is answered without waiting for its cluster.
func (w *world) refusedAtOnce(e *envoyproc.Envoy, host string) func() bool {
	return func() bool {
		o := w.ask(e, "web", host)
		return o.Status == http.StatusServiceUnavailable && o.Took < demandTimeout/2
	}
}

func clustersOnDemand(w *world) {
	a, b := w.backend("a"), w.backend("b")
	w.plane.Set(envoyproc.Static("always", a), w.demanding("web"))
	w.plane.Apply(plane.Change{Set: []plane.Resource{unlisted("known.test", a)}})
	first := w.envoy("first")
	second := w.envoy("second")
	both := []*envoyproc.Envoy{first, second}
	for _, e := range both {
		w.needListener(e)
		w.atOnce(e.Node()+": a known cluster", w.asked(e, "known.test", "a"))
		w.atOnce(e.Node()+": an unknown cluster", w.refusedAtOnce(e, "unknown.test"))
		w.atOnce(e.Node()+": a cluster that is to come", w.refusedAtOnce(e, "later.test"))
	}
	w.plane.Apply(plane.Change{Set: []plane.Resource{unlisted("known.test", b), unlisted("later.test", a)}})
	for _, e := range both {
		w.within(prompt, e.Node()+": a changed cluster", w.asked(e, "known.test", "b"))
		w.within(prompt, e.Node()+": a cluster that has come", w.asked(e, "later.test", "a"))
		w.within(prompt, e.Node()+": the cluster of the wildcard", active(e, "always"))
	}
	w.plane.Apply(plane.Change{Remove: []plane.Key{plane.KeyOf(envoyproc.Static("known.test", b))}})
	for _, e := range both {
		w.within(prompt, e.Node()+": a removed cluster", w.refusedAtOnce(e, "known.test"))
		w.atOnce(e.Node()+": a cluster that stays", w.asked(e, "later.test", "a"))
	}
	w.unscathed(both...)
}
