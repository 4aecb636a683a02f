package upstream

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

func TestVAR1VAR2VAR3VAR4Methods(t *testing.T) {
	const prefix = "/envoy.service."
	want := map[APIType]map[string]string{
		GRPC: {
			"lds": "listener.v3.ListenerDiscoveryService/StreamListeners", "rds": "route.v3.RouteDiscoveryService/StreamRoutes",
			"srds": "route.v3.ScopedRoutesDiscoveryService/StreamScopedRoutes", "vhds": "",
			"cds": "cluster.v3.ClusterDiscoveryService/StreamClusters", "eds": "endpoint.v3.EndpointDiscoveryService/StreamEndpoints",
			"sds": "secret.v3.SecretDiscoveryService/StreamSecrets", "rtds": "runtime.v3.RuntimeDiscoveryService/StreamRuntime",
			"ecds": "extension.v3.ExtensionConfigDiscoveryService/StreamExtensionConfigs",
		},
		DeltaGRPC: {
			"lds": "listener.v3.ListenerDiscoveryService/DeltaListeners", "rds": "route.v3.RouteDiscoveryService/DeltaRoutes",
			"srds": "route.v3.ScopedRoutesDiscoveryService/DeltaScopedRoutes", "vhds": "route.v3.VirtualHostDiscoveryService/DeltaVirtualHosts",
			"cds": "cluster.v3.ClusterDiscoveryService/DeltaClusters", "eds": "endpoint.v3.EndpointDiscoveryService/DeltaEndpoints",
			"sds": "secret.v3.SecretDiscoveryService/DeltaSecrets", "rtds": "runtime.v3.RuntimeDiscoveryService/DeltaRuntime",
			"ecds": "extension.v3.ExtensionConfigDiscoveryService/DeltaExtensionConfigs",
		},
	}
	for api, methods := range want {
		for _, short := range keyer.ShortNames() {
			typeURL, _ := keyer.TypeURL(short)
			method := methods[short]
			if method != "" {
				method = prefix + method
			}
			for _, asked := range []string{typeURL, typeURL + "Collection"} { // LIST-1
				if got := api.method(wire.StreamID{TypeURL: asked, Second: true}); got != method {
					t.Errorf("%s of %s: %q, want %q", api, asked, got, method)
				}
			}
		}
		leds := map[APIType]string{DeltaGRPC: prefix + "endpoint.v3.LocalityEndpointDiscoveryService/DeltaLocalityEndpoints"}[api]
		if got := api.method(wire.StreamID{TypeURL: "type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint"}); got != leds {
			t.Errorf("%s of LbEndpoint: %q, want %q", api, got, leds)
		}
		for _, other := range []string{"lds", "type.googleapis.com/x.Unheard", ""} {
			if got := api.method(wire.StreamID{TypeURL: other}); got != "" {
				t.Errorf("%s of %q: %q", api, other, got)
			}
		}
	}
	for api, method := range map[APIType]string{
		AggregatedGRPC:      prefix + "discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources",
		AggregatedDeltaGRPC: prefix + "discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources",
	} {
		if got := api.method(wire.StreamID{}); got != method {
			t.Errorf("%s: %q, want %q", api, got, method)
		}
	}
	if got := APIType("REST").check(); got == nil || got.Error() != `API type "REST" is none of [AGGREGATED_DELTA_GRPC AGGREGATED_GRPC DELTA_GRPC GRPC]` {
		t.Errorf("REST: %v", got)
	}
}

// Each type has its own stream, with the node in its first request; a stream ends with
// what was wanted on it, and the others do not notice (VAR-1, VAR-2, STR-2).
func TestVAR1VAR2STR2OneStreamPerType(t *testing.T) {
	for api, methods := range map[APIType][2]string{GRPC: {stateCDS, stateEDS}, DeltaGRPC: {deltaCDS, deltaEDS}} {
		t.Run(string(api), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				srv := n.serveAny("a")
				store, obs := newTypedStore(sub(clusters, "*"), sub(endpoints, "x")), &recorder{}
				s := run(t, newUpstream(t, n.speaking(api, "a")), store, obs)
				cds, eds := srv.accept(methods[0]), srv.accept(methods[1])
				for stream, typeURL := range map[*anyStream]string{cds: clusters, eds: endpoints} {
					if req := stream.next(); req.GetNode().GetId() != "relay" || req.GetTypeUrl() != typeURL {
						t.Errorf("first request %v", req)
					}
				}
				if got := len(n.dialled("a")); got != 1 {
					t.Errorf("%d connections", got)
				}
				cds.send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: clusters, Nonce: "1"})
				cds.next()
				store.wantOn(wire.StreamID{TypeURL: endpoints}, nil, unsub(endpoints, "x"))
				<-eds.halfEnd
				eds.end <- nil
				synctest.Wait()
				if st := s.Status(); st.Streams != 1 || st.State != StateConnected || st.Lost != 0 {
					t.Errorf("status %+v", st)
				}
				obs.locked(func() {
					if diff := cmp.Diff([]string{endpoints + " unwanted"}, obs.closed); diff != "" {
						t.Errorf("closed (-want +got):\n%s", diff)
					}
				})
				cds.silent()
			})
		})
	}
}

// A second stream of a type's own is opened where the type is wanted as a whole and by
// name (SUB-12).
func TestSUB12SecondStreamOfAType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serveAny("a")
		store := newTypedStore(sub(clusters, "*"))
		store.wanted[wire.StreamID{TypeURL: clusters, Second: true}] = []wire.Subscription{sub(clusters, "c")}
		run(t, newUpstream(t, n.speaking(GRPC, "a")), store, nil)
		got := []string{saidOne(srv.accept(stateCDS).next()), saidOne(srv.accept(stateCDS).next())}
		slices.Sort(got)
		if diff := cmp.Diff([]string{"[] v= n=", "[c] v= n="}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A type that the server does not serve costs only its own stream, which is tried
// again at growing intervals, and no endpoint is left for it.
func TestTypeThatIsNotServedCostsItsOwnStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serveAny("a", stateEDS)
		n.serveAny("b")
		store, obs := newTypedStore(sub(clusters, "*"), sub(endpoints, "x")), &recorder{}
		s := run(t, newUpstream(t, n.speaking(GRPC, "a", "b")), store, obs)
		cds := srv.accept(stateCDS)
		cds.next()
		cds.state(clusters, "1", "1", "c")
		cds.next()
		<-time.After(2 * time.Hour)
		synctest.Wait()
		if st := s.Status(); st.State != StateConnected || st.Streams != 1 || !slices.Equal(sortedKeys(st.Refused), []string{endpoints}) {
			t.Errorf("status %+v", st)
		}
		if cds.Context().Err() != nil {
			t.Error("the other type lost its stream")
		}
		// A delay is at most five minutes, and half of that on average.
		if tries := len(srv.opened(stateEDS)); tries < 24 || tries > 200 {
			t.Errorf("%d attempts in two hours", tries)
		}
		store.wantOn(wire.StreamID{TypeURL: endpoints}, nil)
		<-time.After(time.Hour)
		if st := s.Status(); len(st.Refused) > 0 || st.Endpoint != "passthrough:///a" {
			t.Errorf("status %+v", st)
		}
	})
}

// A type that is served again is taken up, and refused no longer.
func TestRefusedTypeComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serveAny("a")
		s := run(t, newUpstream(t, n.speaking(DeltaGRPC, "a")), newTypedStore(sub(endpoints, "x")), nil)
		first := srv.accept(deltaEDS)
		first.end <- status.Error(codes.PermissionDenied, "not yours")
		synctest.Wait()
		if st := s.Status(); st.State != StateConnecting || !slices.Equal(sortedKeys(st.Refused), []string{endpoints}) {
			t.Errorf("status %+v", st)
		}
		second := srv.accept(deltaEDS)
		second.next()
		second.send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: endpoints, Nonce: "1"})
		second.next()
		synctest.Wait()
		if st := s.Status(); st.State != StateConnected || len(st.Refused) > 0 {
			t.Errorf("status %+v", st)
		}
	})
}

// A server that ends every stream is left for the next endpoint all the same.
func TestLOC6EndpointThatServesNoType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.serveAny("a", stateCDS)
		b := n.serveAny("b")
		run(t, newUpstream(t, n.speaking(GRPC, "a", "b")), newTypedStore(sub(clusters, "*")), nil)
		if req := b.accept(stateCDS).next(); req.GetNode().GetId() != "relay" {
			t.Errorf("request %v", req)
		}
	})
}

// A type without a service of its own is told of once and not asked for.
func TestTypeWithoutService(t *testing.T) {
	const unheard = "type.googleapis.com/x.Unheard"
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serveAny("a")
		store, obs := newTypedStore(sub(clusters, "*"), sub(unheard, "x")), &recorder{}
		s := run(t, newUpstream(t, n.speaking(GRPC, "a")), store, obs)
		srv.accept(stateCDS).next()
		store.wantOn(wire.StreamID{TypeURL: endpoints}, []wire.Subscription{sub(endpoints, "x")})
		srv.accept(stateEDS).next()
		synctest.Wait()
		if st := s.Status(); st.Streams != 2 || !slices.Equal(st.Unavailable, []string{unheard}) {
			t.Errorf("status %+v", st)
		}
		store.wantOn(wire.StreamID{TypeURL: unheard}, nil)
		<-time.After(time.Second)
		synctest.Wait()
		if st := s.Status(); len(st.Unavailable) > 0 {
			t.Errorf("status %+v", st)
		}
		obs.locked(func() {
			if !slices.Equal(obs.unavailable, []string{unheard}) {
				t.Errorf("told of %v", obs.unavailable)
			}
		})
		store.get(func(s *memStore) {
			if want := map[wire.StreamID]int{{TypeURL: clusters}: 1, {TypeURL: endpoints}: 1}; !maps.Equal(s.restarts, want) {
				t.Errorf("restarts %v", s.restarts)
			}
		})
	})
}
