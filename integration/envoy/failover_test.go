package envoy

import (
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"google.golang.org/protobuf/types/known/structpb"
)

// failoverLimit is how soon an Envoy is served by its second server (ABS-2).
const failoverLimit = 8 * time.Second

func failoverScenarios() []scenario {
	return []scenario{{
		name: "the control plane is dead, a second server lives", proves: "ABS-2", forms: adsForms,
		behaviour: plane.GoControlPlane(), play: failover,
	}}
}

// TestFailover has Envoys with two servers, of which the first has no control plane.
func TestFailover_ABS2(t *testing.T) { playAll(t, failoverScenarios()) }

// withSecond gives an Envoy's bootstrap a second server.
func (w *world) withSecond(b *bootstrapv3.Bootstrap, addr string) *bootstrapv3.Bootstrap {
	// Envoys start clusters by their names, and ask the second server at once if the first
	// one's cluster has not started by then.
	const name = "xds-second"
	b.StaticResources.Clusters = append(b.StaticResources.Clusters, w.variant.ServerCluster(name, addr))
	ads := b.GetDynamicResources().GetAdsConfig()
	ads.GrpcServices = append(ads.GrpcServices, envoyproc.Service(name))
	flags, err := structpb.NewStruct(map[string]any{"envoy.restart_features.xds_failover_support": true})
	if err != nil {
		w.t.Fatal(err)
	}
	b.LayeredRuntime = &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{{
		Name: "flags", LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: flags},
	}}}
	return b
}

func failover(w *world) {
	a, b := w.backend("a"), w.backend("b")
	second := plane.Start(w.t, plane.GoControlPlane())
	set := func(p *plane.Plane, backend string) {
		p.Set(w.cluster("one"), endpoints("one", backend), w.listener("web", "routes"), route("routes", "one"))
	}
	set(w.plane, a)
	set(second, b)
	w.plane.Stop()
	e := envoyproc.Start(w.t, w.binary, w.withSecond(w.variant.Bootstrap("fails-over", w.addr), second.Addr()))
	took, _ := w.within(failoverLimit, "the second server serves", w.answers(e, "web", "b"))
	w.notef("served after %v", took.Round(100*time.Millisecond))
	w.unscathed(e)
}
