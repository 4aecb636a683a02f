package envoy

import (
	"fmt"
	"net/http"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	ondemandv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/on_demand/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

func hostScenarios() []scenario {
	behaviour := plane.GoControlPlane()
	behaviour.Absent = plane.AbsentUnresolved
	return []scenario{{
		name: "virtual hosts on demand", proves: "RES-16 RES-10", forms: deltaForms,
		behaviour: behaviour, play: hostsOnDemand,
	}, {
		name: "virtual hosts on demand, streams break", proves: "RES-10 RES-11", forms: deltaForms,
		behaviour: behaviour, play: hostsReconnect,
	}}
}

// TestVirtualHosts has Envoys ask for virtual hosts when the first request for them
// comes.
func TestVirtualHosts_RES10_RES16(t *testing.T) { playAll(t, hostScenarios()) }

// onDemand is a listener whose filter waits for virtual hosts.
func (r resources) onDemand(name, route string) *listenerv3.Listener {
	return onPort(name, 0, &hcmv3.HttpConnectionManager{
		StatPrefix:     name,
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{ConfigSource: r.source(), RouteConfigName: route}},
		HttpFilters:    []*hcmv3.HttpFilter{filter("on-demand", &ondemandv3.OnDemand{})},
	})
}

// host is a virtual host of the route configuration "routes". It is asked for by its
// domains.
func host(name, cluster string, domains ...string) plane.Resource {
	// Envoys take the name of a removed resource for that of its virtual host.
	name = "routes/" + name
	r := plane.Resource{Name: name, Message: toCluster(name, cluster, domains...), Unlisted: true}
	for _, d := range domains {
		if "routes/"+d != name {
			r.Aliases = append(r.Aliases, "routes/"+d)
		}
	}
	return r
}

func hostKey(name string) plane.Key {
	return plane.Key{TypeURL: plane.VirtualHost, Name: "routes/" + name}
}

// withHosts starts a control plane's part: two clusters, and a route configuration that
// has its virtual hosts over VHDS.
func (w *world) withHosts() {
	a, b := w.backend("a"), w.backend("b")
	w.plane.Set(
		w.cluster("one"), endpoints("one", a), w.cluster("two"), endpoints("two", b),
		w.onDemand("web", "routes"),
		&routev3.RouteConfiguration{Name: "routes", Vhds: &routev3.Vhds{ConfigSource: w.source()}},
	)
	// An Envoy begins with the hosts that nobody asks for, and waits for one.
	always := host("always.test", "one", "always.test")
	always.Unlisted = false
	w.plane.Apply(plane.Change{Set: []plane.Resource{
		always, host("known.test", "one", "known.test"), host("both", "one", "first.test", "second.test"),
	}})
}

// asked is the condition that a backend answers requests for a host.
func (w *world) asked(e *envoyproc.Envoy, host, backend string) func() bool {
	return func() bool { return w.ask(e, "web", host).OK(backend) }
}

// unknown is the condition that requests for a host are answered: by the word that there
// is none.
func (w *world) unknown(e *envoyproc.Envoy, host string) func() bool {
	return func() bool { return w.ask(e, "web", host).Status == http.StatusNotFound }
}

// atOnce makes a request that must not wait for anything: the first one has to be
// answered. One that hangs takes long, and ends the play.
func (w *world) atOnce(what string, cond func() bool) {
	if !cond() {
		w.stopf("%s: not at once: the last request ended with %+v", what, w.last)
	}
}

// needListener waits until the listener "web" takes connections: an Envoy names the address
// of a listener on its admin port before its workers listen there.
func (w *world) needListener(e *envoyproc.Envoy) {
	w.need(soon, "the listener takes connections", func() bool { return e.Accepts("web") })
}

func hostsOnDemand(w *world) {
	w.withHosts()
	first := w.envoy("first")
	w.needListener(first)
	for _, e := range []*envoyproc.Envoy{first, w.envoy("second")} {
		w.needListener(e)
		w.atOnce(e.Node()+": a known host", w.asked(e, "known.test", "a"))
		w.atOnce(e.Node()+": a host by its alias", w.asked(e, "first.test", "a"))
		w.atOnce(e.Node()+": a host by another alias", w.asked(e, "second.test", "a"))
		w.atOnce(e.Node()+": an unknown host", w.unknown(e, "unknown.test"))
		w.atOnce(e.Node()+": an unknown host again", w.unknown(e, "unknown.test"))
		w.atOnce(e.Node()+": a host that is to come", w.unknown(e, "later.test"))
	}
	w.plane.Apply(plane.Change{Set: []plane.Resource{
		host("known.test", "two", "known.test"), host("both", "two", "first.test", "second.test"),
		host("later.test", "one", "later.test"),
	}})
	third := w.envoy("third")
	w.needListener(third)
	for _, e := range []*envoyproc.Envoy{first, third} {
		w.within(prompt, e.Node()+": a changed host", w.asked(e, "known.test", "b"))
		w.within(prompt, e.Node()+": a changed host by its alias", w.asked(e, "first.test", "b"))
		w.within(prompt, e.Node()+": a host that has come", w.asked(e, "later.test", "a"))
	}
	w.plane.Apply(plane.Change{Remove: []plane.Key{hostKey("known.test"), hostKey("both")}})
	for _, e := range []*envoyproc.Envoy{first, third} {
		w.within(prompt, e.Node()+": a removed host", w.unknown(e, "known.test"))
		w.within(prompt, e.Node()+": a removed host by its alias", w.unknown(e, "first.test"))
		w.atOnce(e.Node()+": a host that stays", w.asked(e, "later.test", "a"))
	}
	w.unscathed(first, third)
}

func hostsReconnect(w *world) {
	w.withHosts()
	e := w.envoy("reconnects")
	w.needListener(e)
	w.within(prompt, "a host by its alias", w.asked(e, "first.test", "a"))
	w.within(prompt, "a known host", w.asked(e, "known.test", "a"))
	for i, d := range w.disturbances() {
		w.suffer(d, e)
		w.stays(settled, "an aliased host after "+d.what, w.asked(e, "first.test", "a"))
		w.atOnce("a known host after "+d.what, w.asked(e, "known.test", "a"))
		w.atOnce("another alias after "+d.what, w.asked(e, "second.test", "a"))
		w.atOnce("an unknown host after "+d.what, w.unknown(e, fmt.Sprintf("unknown-%d.test", i)))
	}
	w.plane.Apply(plane.Change{Set: []plane.Resource{host("both", "two", "first.test", "second.test")}})
	w.within(prompt, "the changed host", w.asked(e, "first.test", "b"))
	w.unscathed(e)
}
