package envoy

import (
	"maps"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"
)

// prompt is how soon a change has to be in use where nothing stands in its way.
const prompt = 2 * time.Second

func steadyScenarios() []scenario {
	return []scenario{{
		name: "steady state", proves: "VAR-7 ADS-1 CSDS-1", forms: everyForm,
		behaviour: plane.GoControlPlane(), play: steady,
	}}
}

func TestSteady_VAR1_VAR2_VAR3_VAR4_VAR5_VAR7(t *testing.T) { playAll(t, steadyScenarios()) }

// steady changes and removes one resource of each type after the other.
func steady(w *world) {
	a, b, c := w.backend("a"), w.backend("b"), w.backend("c")
	w.plane.Set(w.cluster("one"), endpoints("one", a), w.listener("web", "routes"), route("routes", "one"))
	e := w.envoy("steady")
	w.notef("live in %v", w.need(soon, "the Envoy is live", e.Live).Round(time.Millisecond))
	w.need(soon, "backend a answers", w.answers(e, "web", "a"))

	w.plane.Set(endpoints("one", b))
	w.within(prompt, "changed endpoints are in use", w.answers(e, "web", "b"))

	w.plane.Set(w.cluster("two"), endpoints("two", c))
	w.need(prompt, "a new cluster is active", active(e, "two"))
	w.plane.Set(route("routes", "two"))
	w.within(prompt, "a changed route is in use", w.answers(e, "web", "c"))

	// A cluster that has its endpoints in itself: one of EDS waits for them when it
	// changes, which is a scenario of its own.
	fixed := envoyproc.Static("fixed", a)
	w.plane.Set(fixed)
	w.need(prompt, "a cluster with endpoints of its own is active", active(e, "fixed"))
	changed := envoyproc.Static("fixed", a)
	changed.ConnectTimeout = durationpb.New(3 * time.Second)
	w.plane.Set(changed)
	w.within(prompt, "the changed cluster is active", func() bool { return e.ActiveClusters()["fixed"].ConnectTimeout == "3s" })

	w.plane.Set(w.named("web", "routes", "changed"))
	w.within(prompt, "the changed listener is in use", func() bool { return w.get(e, "web").Server == "changed" })
	w.within(prompt, "the changed listener has its routes", w.answers(e, "web", "c"))

	w.within(prompt, "the relay knows what the Envoy has", func() bool { return w.knows(e) })

	w.plane.Remove(fixed)
	w.within(prompt, "a removed cluster is gone", func() bool { return !active(e, "fixed")() })
	// Envoys keep endpoints and routes that are removed: the cluster or listener that
	// needs them has to go first.
	w.plane.Remove(route("routes", "two"), endpoints("two"))
	w.stays(300*time.Millisecond, "a request is answered after its route and endpoints were removed", w.answers(e, "web", "c"))
	w.plane.Remove(w.listener("web", "routes"))
	w.within(prompt, "a removed listener is gone", func() bool { return len(e.Listeners()) == 0 })
	w.plane.Remove(&clusterv3.Cluster{Name: "two"})
	w.within(prompt, "the last but one cluster is gone", func() bool { return !active(e, "two")() && active(e, "one")() })
	if n := rejected(e); n > 0 {
		w.faultf("the Envoy rejected %d responses", n)
	}
	if got := w.plane.Rejections(""); len(got) > 0 {
		w.faultf("the control plane was told of rejections: %q", got)
	}
}

// named is a listener that names itself in its answers.
func (r resources) named(name, route, server string) *listenerv3.Listener {
	return onPort(name, 0, &hcmv3.HttpConnectionManager{
		StatPrefix: name, ServerName: server,
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{ConfigSource: r.source(), RouteConfigName: route}},
	})
}

// active is the condition that a cluster serves.
func active(e *envoyproc.Envoy, cluster string) func() bool {
	return func() bool {
		_, ok := e.ActiveClusters()[cluster]
		return ok
	}
}

// rejected is how many responses an Envoy has rejected, of all types.
func rejected(e *envoyproc.Envoy) int64 {
	var n int64
	for _, v := range e.Stats(`\.update_rejected$`) {
		n += v
	}
	return n
}

// knows reports whether the relay's client status has the clusters and listeners that the Envoy has (CSDS-1), and for an
// incremental one the versions of clusters: an Envoy shows a listener whose filter chains alone changed in the version
// before. Polls have no names there. It is true without a relay.
func (w *world) knows(e *envoyproc.Envoy) bool {
	if len(w.relays) == 0 || w.form.envoy.REST {
		return true
	}
	version := func(typeURL, version string) string {
		if !w.form.envoy.Delta || typeURL != plane.Cluster {
			return ""
		}
		return version
	}
	conn, err := grpc.NewClient("passthrough:///"+w.relays[0].admin, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	id := &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: e.Node()}}
	resp, err := statusv3.NewClientStatusDiscoveryServiceClient(conn).FetchClientStatus(w.t.Context(),
		&statusv3.ClientStatusRequest{NodeMatchers: []*matcherv3.NodeMatcher{{NodeId: id}}})
	if err != nil {
		w.stopf("client status: %v", err)
	}
	told, has := make(map[string]string), make(map[string]string)
	for _, c := range resp.GetConfig() {
		for _, x := range c.GetGenericXdsConfigs() {
			if x.GetTypeUrl() == plane.Cluster || x.GetTypeUrl() == plane.Listener {
				told[x.GetTypeUrl()+" "+x.GetName()] = version(x.GetTypeUrl(), x.GetVersionInfo()) + " " + x.GetClientStatus().String()
			}
		}
	}
	for name, c := range e.ActiveClusters() {
		has[plane.Cluster+" "+name] = version(plane.Cluster, c.Version) + " ACKED"
	}
	for name := range e.Listeners() {
		has[plane.Listener+" "+name] = " ACKED"
	}
	if !maps.Equal(told, has) {
		w.t.Logf("told %v, the Envoy has %v", told, has)
		return false
	}
	return true
}
