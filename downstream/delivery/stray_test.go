package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const secret = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"

func packed(tb testing.TB, m proto.Message) *anypb.Any {
	tb.Helper()
	a, err := anypb.New(m)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// edsCluster is a cluster with the endpoints of a service.
func edsCluster(name, service string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{ServiceName: service},
	}
}

// routeTo is a route configuration that leads to clusters by weight, in a virtual host that
// is called like it.
func routeTo(name string, clusters ...string) *routev3.RouteConfiguration {
	weighted := &routev3.WeightedCluster{}
	for _, c := range clusters {
		weighted.Clusters = append(weighted.Clusters, &routev3.WeightedCluster_ClusterWeight{Name: c})
	}
	return &routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{{
		Name: name, Domains: []string{name},
		Routes: []*routev3.Route{{Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_WeightedClusters{WeightedClusters: weighted},
		}}}},
	}}}
}

// listenerOf is a gRPC client's listener that names its routes.
func listenerOf(tb testing.TB, name, route string) *listenerv3.Listener {
	tb.Helper()
	return &listenerv3.Listener{Name: name, ApiListener: &listenerv3.ApiListener{
		ApiListener: packed(tb, &hcmv3.HttpConnectionManager{
			RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: route}},
		}),
	}}
}

// secretCluster is a cluster whose connections take a secret.
func secretCluster(tb testing.TB, name, secret string) *clusterv3.Cluster {
	tb.Helper()
	c := edsCluster(name, "")
	c.TransportSocket = &corev3.TransportSocket{
		Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(tb, &tlsv3.UpstreamTlsContext{
			CommonTlsContext: &tlsv3.CommonTlsContext{
				TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{{Name: secret}},
			},
		})},
	}
	return c
}

// holds applies a state of the world of messages on stream 0.
func (b *bed) holds(typeURL, version string, messages ...proto.Message) {
	b.Helper()
	r := &wire.Response{State: true, TypeURL: typeURL, Version: version}
	for _, m := range messages {
		res, err := wire.NewResource(&discovery.Resource{
			Name: m.(interface{ GetName() string }).GetName(), Resource: packed(b, m),
		})
		if err != nil {
			b.Fatal(err)
		}
		r.Resources = append(r.Resources, res)
	}
	if err := b.applyState(r); err != nil {
		b.Fatalf("Apply: %v", err)
	}
}

// strays lets the time of strays pass, and expects that the server is told something, and that
// as many names as it is told to be wanted no more were strays.
func (b *bed) strays(n int, want ...string) {
	b.Helper()
	b.store.Session().Settle(time.Now())
	<-time.After(time.Second)
	b.store.Session().Settle(time.Now())
	b.seesStrays(n, want...)
}

func (b *bed) seesStrays(n int, want ...string) {
	b.Helper()
	b.expectAll(b.demand(0), want...)
	if got := b.seen.evicted[cache.ReasonUnreferenced]; got != n || (got == 0) != (len(b.seen.evicted) == 0) || len(b.seen.evicted) > 1 {
		b.Fatalf("evicted %v, want %d strays", b.seen.evicted, n)
	}
	clear(b.seen.evicted)
}

func TestSUB11Strays(t *testing.T) {
	// begin has a client with clusters and the endpoints e1.
	begin := func(t *testing.T, clusters ...proto.Message) (*bed, *peer) {
		t.Helper()
		b := newStateBed(t)
		c := b.join()
		c.sub(cds, "*")
		c.sub(eds, "e1")
		b.connect(0)
		b.holds(cds, "1", clusters...)
		b.state(eds, "1", "+e1@1")
		return b, c
	}
	t.Run("SUB-11 endpoints that a changed cluster does not name any more are let go with the client that names others", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := begin(t, edsCluster("c", "e1"))
			b.holds(cds, "2", edsCluster("c", "e2"))
			b.strays(0) // the client wants them still
			c.unsub(eds, "e1")
			b.strays(1, "EDS -e1")
			c.sub(eds, "e1")
			b.strays(0, "EDS +e1")
		})
	})
	t.Run("SUB-11 ADS-6 a route that a changed filter chain does not name any more is let go", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			const fcds = "type.googleapis.com/envoy.config.listener.v3.FilterChain"
			b := newStateBed(t)
			c := b.join()
			c.sub(fcds, "f")
			c.sub(rds, "r")
			b.connect(0)
			naming := func(route string) proto.Message {
				return &listenerv3.FilterChain{Name: "f", Filters: []*listenerv3.Filter{{Name: route}}}
			}
			b.holds(fcds, "1", naming("r"))
			b.state(rds, "1", "+r@1")
			c.unsub(rds, "r")
			b.strays(0)
			b.holds(fcds, "2", naming("other"))
			b.strays(1, "RDS -r")
		})
	})
	t.Run("SUB-11 RES-8 what waits in the LRU goes with the cluster", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := begin(t, edsCluster("c", "e1"), edsCluster("d", ""))
			c.sub(eds, "d")
			b.demand(0)
			b.state(eds, "2", "+d@1")
			c.unsub(eds, "e1", "d")
			b.strays(0)
			b.holds(cds, "2", edsCluster("d", ""))
			b.strays(1, "EDS -e1")
			b.holds(cds, "3")
			b.strays(1, "EDS -d")
		})
	})
	t.Run("SUB-11 OPS-1 what is referred to, or never was, stays warm", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := begin(t, edsCluster("c", "e1"), edsCluster("d", "e1"))
			c.sub(eds, "free")
			b.demand(0)
			b.state(eds, "2", "+free@1")
			c.unsub(eds, "free")
			b.holds(cds, "2", edsCluster("d", "e1"))
			c.leave()
			b.strays(0)
			b.holds(cds, "3", edsCluster("d", "e2"), edsCluster("e", "e1"))
			b.strays(0)
			b.holds(cds, "4", edsCluster("d", "e2"), edsCluster("e", "e2"))
			b.strays(1, "EDS -e1")
		})
	})
	t.Run("SUB-11 a cluster that comes back in time keeps its endpoints", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := begin(t, edsCluster("c", "e1"))
			c.unsub(eds, "e1")
			b.holds(cds, "2")
			b.holds(cds, "3", edsCluster("c", "e1"))
			b.strays(0)
			b.holds(cds, "4")
			c.sub(eds, "e1")
			b.strays(0) // it is wanted again
			c.unsub(eds, "e1")
			b.strays(1, "EDS -e1")
		})
	})
	t.Run("SUB-11 RES-12 a new stream does not name it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := begin(t, edsCluster("c", "e1"))
			c.sub(eds, "e2")
			b.demand(0)
			b.state(eds, "2", "+e2@1")
			b.store.Session().Lost(streamOf(0))
			b.holds(cds, "2", edsCluster("c", "e2"))
			c.unsub(eds, "e1")
			b.expectAll(b.connect(0), "CDS +* held", "EDS +e2 held")
			b.seesStrays(1)
		})
	})
	t.Run("SUB-11 LIST-2 what is pinned is wanted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := begin(t, edsCluster("c", "e1"))
			b.pin(eds, "e1")
			c.unsub(eds, "e1")
			b.holds(cds, "2")
			b.strays(0)
			b.unpin(eds, "e1")
			b.strays(1, "EDS -e1")
		})
	})
	t.Run("SUB-11 NAME-3 a cluster may spell the name otherwise", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := begin(t)
			const key, other = "xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/e?a=1&b=2",
				"xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/e?b=2&a=1"
			c.sub(eds, key)
			b.demand(0)
			b.state(eds, "2", "+"+key+"@1")
			c.unsub(eds, key)
			b.holds(cds, "2", edsCluster("c", other), edsCluster("bad", "xdstp://%"))
			b.holds(cds, "3", edsCluster("bad", "xdstp://%"))
			b.strays(1, "EDS -"+key)
		})
	})
	t.Run("SUB-11 a gRPC client that goes elsewhere takes everything with it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newStateBed(t)
			c := b.join()
			c.sub(lds, "l")
			c.sub(rds, "r1")
			c.sub(cds, "c1", "c2")
			c.sub(eds, "e1", "e2")
			b.connect(0)
			b.holds(lds, "1", listenerOf(t, "l", "r1"))
			b.holds(rds, "1", routeTo("r1", "c1", "c2"))
			b.holds(cds, "1", edsCluster("c1", "e1"), edsCluster("c2", "e2"))
			b.state(eds, "1", "+e1@1", "+e2@1")
			b.holds(rds, "2", routeTo("r1", "c2"))
			c.unsub(cds, "c1")
			c.unsub(eds, "e1")
			b.strays(1, "CDS -c1")
			b.strays(1, "EDS -e1") // its cluster is forgotten now
			b.holds(lds, "2", listenerOf(t, "l", "r2"))
			c.unsub(rds, "r1")
			c.leave()
			b.strays(1, "RDS -r1")
			b.strays(1, "CDS -c2")
			b.strays(1, "EDS -e2")
			b.strays(0)
		})
	})
	t.Run("SUB-11 a cluster called like its route, and like its endpoints", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newStateBed(t)
			c := b.join()
			c.sub(rds, "x")
			c.sub(cds, "x", "y")
			c.sub(eds, "x")
			b.connect(0)
			b.holds(rds, "1", routeTo("x", "x"))
			b.holds(cds, "1", edsCluster("x", "x"), edsCluster("y", "y"))
			b.state(eds, "1", "+x@1")
			b.holds(rds, "2", routeTo("x", "y"))
			c.unsub(cds, "x")
			b.strays(1, "CDS -x")
			c.unsub(eds, "x")
			b.strays(1, "EDS -x")
		})
	})
	t.Run("SUB-11 secrets of clusters", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newStateBed(t)
			c := b.join()
			c.sub(cds, "*")
			c.sub(secret, "s1")
			b.connect(0)
			b.holds(cds, "1", secretCluster(t, "c", "s1"))
			b.state(secret, "1", "+s1@1")
			c.unsub(secret, "s1")
			b.strays(0)
			b.holds(cds, "2", secretCluster(t, "c", "s2"))
			b.strays(1, " -s1")
		})
	})
	t.Run("SUB-11 a secret of a cluster whose endpoints stay", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newStateBed(t)
			c := b.join()
			c.sub(cds, "*")
			c.sub(eds, "c")
			c.sub(secret, "s1")
			b.connect(0)
			b.holds(cds, "1", secretCluster(t, "c", "s1"))
			b.state(eds, "1", "+c@1")
			b.state(secret, "1", "+s1@1")
			c.unsub(secret, "s1")
			b.holds(cds, "2", secretCluster(t, "c", "s2"))
			b.strays(1, " -s1")
		})
	})
	t.Run("SUB-11 several that one other resource refers to", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newStateBed(t)
			c := b.join()
			c.sub(rds, "r1", "r2")
			c.sub(cds, "c1", "c2", "c3")
			b.connect(0)
			b.holds(rds, "1", routeTo("r1", "c1", "c2", "c3"), routeTo("r2", "c1", "c2", "c3"))
			b.holds(cds, "1", edsCluster("c1", ""), edsCluster("c2", ""), edsCluster("c3", ""))
			c.unsub(cds, "c1", "c2", "c3")
			b.holds(rds, "2", routeTo("r1"), routeTo("r2", "c1", "c2", "c3"))
			b.strays(0)
			b.holds(rds, "3", routeTo("r1"), routeTo("r2"))
			b.strays(3, "CDS -c1 -c2 -c3")
		})
	})
	t.Run("SUB-11 what changed content still refers to is not looked for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newStateBed(t)
			c := b.join()
			c.sub(rds, "r")
			c.sub(cds, "c1", "c2")
			b.connect(0)
			b.holds(rds, "1", routeTo("r", "c1"))
			b.holds(cds, "1", edsCluster("c1", ""), edsCluster("c2", ""))
			c.unsub(cds, "c1")
			b.holds(rds, "2", routeTo("r", "c1", "c2"))
			if at := b.store.Session().Settle(time.Now()); !at.IsZero() {
				t.Errorf("something waits until %v", at)
			}
			b.holds(rds, "3", routeTo("r", "c2"))
			b.strays(1, "CDS -c1")
		})
	})
	t.Run("SUB-11 a server that says what is gone is asked on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			c := b.join()
			c.sub(eds, "e1")
			c.sub(cds, "c")
			b.connect(0)
			res, err := wire.NewResource(&discovery.Resource{Name: "c", Version: "1", Resource: packed(t, edsCluster("c", "e1"))})
			if err != nil {
				t.Fatal(err)
			}
			if err := b.apply(0, &wire.Response{TypeURL: cds, Resources: []*wire.Resource{res}}); err != nil {
				t.Fatal(err)
			}
			b.says(eds, "+e1@1")
			c.unsub(eds, "e1")
			b.says(cds, "-c")
			b.strays(0)
		})
	})
	t.Run("SUB-11 what a resource lost is looked at when it is let go, however late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := begin(t, edsCluster("c", "e1"))
			b.holds(cds, "2", edsCluster("c", "e2"))
			b.strays(0)
			<-time.After(time.Hour)
			c.leave()
			b.strays(1, "EDS -e1")
		})
	})
	t.Run("SUB-11 strays wait for the answer to what is asked for beside them", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := begin(t, edsCluster("c", "e1"))
			b.holds(cds, "2", edsCluster("c", "e2"))
			c.unsub(eds, "e1")
			now := time.Now()
			if at := b.store.Session().Settle(now); !at.Equal(now.Add(time.Second)) {
				t.Errorf("waits until %v, want %v", at, now.Add(time.Second))
			}
			b.seesStrays(0)
			<-time.After(time.Second - time.Millisecond)
			c.sub(eds, "e2")
			b.seesStrays(0, "EDS +e2")
			<-time.After(time.Millisecond)
			b.store.Session().Settle(time.Now())
			b.seesStrays(0)
			b.state(eds, "2", "+e2@1")
			if at := b.store.Session().Settle(time.Now()); !at.IsZero() {
				t.Errorf("waits until %v", at)
			}
			b.seesStrays(1, "EDS -e1")
		})
	})
	t.Run("SUB-11 RES-7 strays do not wait for what is never answered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := begin(t, edsCluster("c", "e1"))
			b.holds(cds, "2", edsCluster("c", "e2"))
			c.sub(eds, "e2")
			c.unsub(eds, "e1")
			b.demand(0)
			b.store.Session().Settle(time.Now())
			<-time.After(time.Second)
			b.store.Session().Settle(time.Now())
			b.expect(b.demand(0), "EDS -e1")
			if b.seen.evicted[cache.ReasonSilence] != 1 {
				t.Errorf("evicted %v", b.seen.evicted)
			}
		})
	})
}
