package envoy

import (
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

func globScenarios() []scenario {
	return []scenario{{
		name: "xdstp globs of clusters and listeners", proves: "GLOB-1 GLOB-2 NAME-3", forms: deltaForms,
		behaviour: plane.GoControlPlane(), play: globs,
	}}
}

// TestGlobs has Envoys begin with collections in place of wildcards.
func TestGlobs_GLOB1_GLOB2_NAME3(t *testing.T) { playAll(t, globScenarios()) }

const (
	clusterFolder  = "xdstp://authority/envoy.config.cluster.v3.Cluster/fleet/"
	listenerFolder = "xdstp://authority/envoy.config.listener.v3.Listener/fleet/"
)

// member is a cluster of the folder.
func member(name string, backends ...string) *clusterv3.Cluster {
	return envoyproc.Static(clusterFolder+name, backends...)
}

// withGlobs has an Envoy ask for folders.
func (w *world) withGlobs(b *bootstrapv3.Bootstrap) *bootstrapv3.Bootstrap {
	b.GetDynamicResources().CdsResourcesLocator = clusterFolder + "*"
	b.GetDynamicResources().LdsResourcesLocator = listenerFolder + "*"
	return b
}

func globs(w *world) {
	a, b := w.backend("a"), w.backend("b")
	const web = listenerFolder + "web"
	w.plane.Set(member("one", a), member("two", b), w.listener(web, "routes"), route("routes", clusterFolder+"one"))
	first := envoyproc.Start(w.t, w.binary, w.withGlobs(w.variant.Bootstrap("first", w.addr)))
	second := envoyproc.Start(w.t, w.binary, w.withGlobs(w.variant.Bootstrap("second", w.addr)))
	both := []*envoyproc.Envoy{first, second}
	for _, e := range both {
		w.need(soon, "a cluster of the folder answers", w.answers(e, web, "a"))
		w.within(prompt, "the other cluster is there", active(e, clusterFolder+"two"))
	}
	w.plane.Set(member("three", b))
	for _, e := range both {
		w.within(prompt, "a new member", active(e, clusterFolder+"three"))
	}
	w.plane.Set(route("routes", clusterFolder+"three"))
	for _, e := range both {
		w.within(prompt, "the new member answers", w.answers(e, web, "b"))
	}
	w.plane.Remove(member("one"))
	for _, e := range both {
		w.within(prompt, "a removed member is gone", func() bool { return !active(e, clusterFolder+"one")() })
		w.within(prompt, "the others stay", active(e, clusterFolder+"two"))
	}
	for _, d := range w.disturbances() {
		w.suffer(d, first)
		w.stays(settled, "the members after "+d.what, func() bool {
			return active(first, clusterFolder+"two")() && active(second, clusterFolder+"three")()
		})
	}
	w.plane.Set(member("one", a))
	for _, e := range both {
		w.within(returnLimit, "a member that comes back", active(e, clusterFolder+"one"))
	}
	w.unscathed(both...)
}
