package envoy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// badLimit is how soon the good clusters have to serve beside bad ones (ACK-3).
const badLimit = 2 * time.Second

func badScenarios() []scenario {
	several := plane.GoControlPlane()
	several.PerResponse = 10
	inParts := []form{deltaADS, deltaPerType, stateOnDelta} // SotW lists of clusters have no parts
	return []scenario{{
		name: "3 of 100 clusters refused, an Envoy joins", proves: "ACK-3", forms: everyForm,
		behaviour: plane.GoControlPlane(), play: func(w *world) { badJoin(w, refused) },
	}, {
		name: "3 of 100 clusters invalid, an Envoy joins", proves: "ACK-3", forms: everyForm,
		behaviour: plane.GoControlPlane(), play: func(w *world) { badJoin(w, invalid) },
	}, {
		name: "3 of 100 clusters invalid, an Envoy joins, several responses", proves: "ACK-3", forms: inParts,
		behaviour: several, play: func(w *world) { badJoin(w, invalid) },
	}, {
		name: "3 of 100 clusters become refused", proves: "ACK-3", forms: everyForm,
		behaviour: plane.GoControlPlane(), play: func(w *world) { badSteady(w, refused) },
	}, {
		name: "3 of 100 clusters become invalid", proves: "ACK-3", forms: everyForm,
		behaviour: plane.GoControlPlane(), play: func(w *world) { badSteady(w, invalid) },
	}, {
		name: "3 of 100 clusters become invalid, several responses", proves: "ACK-3", forms: inParts,
		behaviour: several, play: func(w *world) { badSteady(w, invalid) },
	}, {
		name: "clusters become refused, streams break, clusters change", proves: "ACK-3 RES-11", forms: adsForms,
		behaviour: plane.GoControlPlane(), play: func(w *world) { badThenBack(w, refused) },
	}, {
		name: "clusters become invalid, streams break, clusters change", proves: "ACK-3 RES-11", forms: adsForms,
		behaviour: plane.GoControlPlane(), play: func(w *world) { badThenBack(w, invalid) },
	}, {
		name: "a listener whose address another listener has", proves: "ACK-3", forms: everyForm,
		behaviour: plane.GoControlPlane(), play: inTheWay,
	}, {
		name: "one of many clusters invalid, responses counted", proves: "ACK-3", forms: []form{deltaADS, deltaOnState},
		only: relayed, alone: true, behaviour: plane.GoControlPlane(), play: badOfMany,
	}}
}

// TestBadClusters has Envoys reject a few of many clusters: they are to have the others
// all the same.
func TestBadClusters_ACK3(t *testing.T) { playAll(t, badScenarios()) }

// good leaves a cluster as it is.
func good(*clusterv3.Cluster, int) {}

// hundred are clusters with a connect timeout, of which spoil makes those at three
// places bad. It is told which of them.
func hundred(addr string, timeout time.Duration, spoil func(*clusterv3.Cluster, int)) []proto.Message {
	var all []proto.Message
	for i := range 100 {
		c := envoyproc.Static(fmt.Sprintf("c-%02d", i), addr)
		c.ConnectTimeout = durationpb.New(timeout)
		if at := slices.Index(badPlaces, i); at >= 0 {
			spoil(c, at)
		}
		all = append(all, c)
	}
	return all
}

var badPlaces = []int{17, 50, 83}

// invalid breaks a rule of the API: with such a cluster an Envoy uses nothing of the
// whole response, in either form.
func invalid(c *clusterv3.Cluster, _ int) { c.ConnectTimeout = durationpb.New(0) }

// refused makes a cluster that keeps to the rules of the API, and that an Envoy refuses
// all the same, in one of three ways. It uses the others of the response.
func refused(c *clusterv3.Cluster, way int) {
	switch way {
	case 0: // EDS without a source
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
		c.LoadAssignment = nil
	case 1: // a policy that only some types of clusters provide
		c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	default: // certificates that are none
		c.TransportSocket = &corev3.TransportSocket{
			Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: envoyproc.Any(&tlsv3.UpstreamTlsContext{
				CommonTlsContext: &tlsv3.CommonTlsContext{ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{
					ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: &corev3.DataSource{
						Specifier: &corev3.DataSource_InlineString{InlineString: "no certificate"},
					}},
				}},
			})},
		}
	}
}

// inUse is how many of the hundred clusters serve with this timeout.
func inUse(e *envoyproc.Envoy, timeout time.Duration) int {
	n := 0
	for _, c := range e.ActiveClusters() {
		if c.ConnectTimeout == timeout.String() {
			n++
		}
	}
	return n
}

// wantsGood reports whether the good clusters beside bad ones are to serve: in the state
// of the world an Envoy takes an invalid list as a whole or not at all.
func (w *world) wantsGood(bad func(*clusterv3.Cluster, int)) bool {
	c := new(clusterv3.Cluster)
	bad(c, 0)
	return w.variant.Delta || c.GetConnectTimeout() == nil
}

// badJoin has Envoys join whose first clusters are partly bad, one after the other. Then
// the bad ones are repaired.
func badJoin(w *world, spoil func(*clusterv3.Cluster, int)) {
	a := w.backend("a")
	w.plane.Set(hundred(a, time.Second, spoil)...)
	first := w.envoy("first")
	if w.wantsGood(spoil) {
		w.awaitClusters(first, 97, time.Second)
	} else {
		w.need(soon, "the first Envoy rejects", func() bool { return rejected(first) > 0 })
	}
	second := w.envoy("second")
	if w.wantsGood(spoil) {
		w.awaitClusters(second, 97, time.Second)
	} else {
		w.need(soon, "the second Envoy rejects", func() bool { return rejected(second) > 0 })
	}
	w.plane.Set(hundred(a, time.Second, good)...)
	w.awaitClusters(first, 100, time.Second)
	w.awaitClusters(second, 100, time.Second)
}

// badSteady changes all clusters of Envoys, some of them for the bad. Those keep what
// they had.
func badSteady(w *world, spoil func(*clusterv3.Cluster, int)) {
	a := w.backend("a")
	w.plane.Set(hundred(a, time.Second, good)...)
	both := []*envoyproc.Envoy{w.envoy("first"), w.envoy("second")}
	for _, e := range both {
		w.need(soon, "an Envoy has all clusters", func() bool { return inUse(e, time.Second) == 100 })
	}
	w.plane.Set(hundred(a, 2*time.Second, spoil)...)
	for _, e := range both {
		w.need(soon, "an Envoy rejects", func() bool { return rejected(e) > 0 })
		if w.wantsGood(spoil) {
			w.awaitClusters(e, 97, 2*time.Second)
		}
		// Of a list that came in parts over another form some parts may be in use.
		if was, is := inUse(e, time.Second), inUse(e, 2*time.Second); was+is != 100 {
			w.faultf("%s: %d clusters are as they were and %d changed, want 100 in all", e.Node(), was, is)
		}
	}
	w.plane.Set(hundred(a, 2*time.Second, good)...)
	for _, e := range both {
		w.awaitClusters(e, 100, 2*time.Second)
	}
}

// badThenBack has the streams of an Envoy end that rejected clusters: it is to ask for clusters on its next stream
// (envoyproxy/envoy#34334).
func badThenBack(w *world, spoil func(*clusterv3.Cluster, int)) {
	a := w.backend("a")
	timeout := time.Second
	w.plane.Set(hundred(a, timeout, good)...)
	e := w.envoy("back")
	w.need(soon, "the Envoy has all clusters", func() bool { return inUse(e, timeout) == 100 })
	for _, d := range w.disturbances() {
		before := rejected(e)
		w.plane.Set(hundred(a, timeout+time.Second, spoil)...)
		w.need(soon, "the Envoy rejects", func() bool { return rejected(e) > before })
		w.suffer(d, e)
		timeout += 2 * time.Second
		w.plane.Set(hundred(a, timeout, good)...)
		w.need(soon, "the Envoy has all clusters after "+d.what, func() bool { return inUse(e, timeout) == 100 })
	}
}

// awaitClusters waits until so many clusters serve in their version with the timeout.
func (w *world) awaitClusters(e *envoyproc.Envoy, n int, timeout time.Duration) {
	took := w.need(badLimit, fmt.Sprintf("%s has %d clusters", e.Node(), n), func() bool { return inUse(e, timeout) == n })
	w.notef("%d after %v", n, took.Round(10*time.Millisecond))
}

// inTheWay has an Envoy reject a listener only because another one has its address.
// That one is removed, and nobody changes the rejected one.
func inTheWay(w *world) {
	a := w.backend("a")
	port := uint32(once(w, "port", func() int { return ports.Free(w.owner()) }))
	listener := func(name, answer string) *listenerv3.Listener {
		return onPort(name, port, &hcmv3.HttpConnectionManager{
			StatPrefix: name, ServerName: answer,
			RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: route("inline", "one")},
		})
	}
	w.plane.Set(envoyproc.Static("one", a), listener("1-first", "first"))
	e := w.envoy("in-the-way")
	w.need(soon, "the first listener answers", func() bool { return w.get(e, "1-first").Server == "first" })
	w.plane.Set(listener("2-second", "second"))
	w.need(soon, "the Envoy rejects the second listener", func() bool { return rejected(e) > 0 })
	w.plane.Remove(listener("1-first", "first"))
	took, _ := w.within(badLimit, "the second listener answers", func() bool { return w.get(e, "2-second").Server == "second" })
	w.notef("answers after %v", took.Round(10*time.Millisecond))
}

// badOfMany counts the responses that it takes to find one bad cluster among many: an
// Envoy counts them as updates.
func badOfMany(w *world) {
	many, limit := 1000, soon
	if soaking() {
		many, limit = 10_000, 10*soon
	}
	const (
		extraFirst = 40
		extraLater = 1
	)
	a := w.backend("a")
	var all []proto.Message
	for i := range many {
		c := envoyproc.Static(fmt.Sprintf("c-%05d", i), a)
		c.ConnectTimeout = durationpb.New(time.Second)
		if i == many*2/3 {
			invalid(c, 0)
		}
		all = append(all, c)
	}
	w.plane.Set(all...)
	for i, extra := range []int64{extraFirst, extraLater, extraLater} {
		e := w.envoy(fmt.Sprintf("number-%d", i+1))
		w.need(limit, "an Envoy has all clusters but one", func() bool {
			return e.Stat("cluster_manager.active_clusters") == int64(many) // that of the xDS server is one of them
		})
		w.need(soon, "an Envoy rejects", func() bool { return rejected(e) > 0 })
		w.stays(500*time.Millisecond, "an Envoy has all clusters but one", func() bool {
			return e.Stat("cluster_manager.active_clusters") == int64(many)
		})
		n := e.Stat("cluster_manager.cds.update_success") + rejected(e)
		w.notef("%d responses", n)
		if n > 1+extra {
			w.faultf("Envoy number %d was sent %d responses with clusters, want at most 1 and %d more", i+1, n, extra)
		}
	}
}
