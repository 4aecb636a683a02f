package upstream

import (
	"testing"
	"testing/synctest"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// A server that sends a type that nobody asked for gets an ACK, nothing of the type is applied, and the stream goes on.
// When the type is wanted later, the request does not read as one that the server has answered.
func TestTypeThatNobodyAskedFor_SUB13_STR8(t *testing.T) {
	for name, c := range map[string]struct {
		api                APIType
		method, ack, wants string
	}{
		"incremental":        {AggregatedDeltaGRPC, deltaADS, "[] v= n=1", "[*] v= n="},
		"state of the world": {AggregatedGRPC, stateADS, "[] v=1 n=1", "[] v= n=1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				srv := n.serveAny("a")
				store := newStore(sub(endpoints, "e"))
				s := run(t, newUpstream(t, n.speaking(c.api, "a")), store, nil)
				as := srv.accept(c.method)
				as.expect("[e] v= n=")
				as.version(c.api.State(), "1", "c")
				as.expect(c.ack)
				synctest.Wait()
				as.silent()
				store.get(func(s *memStore) {
					if len(s.applied) > 0 {
						t.Errorf("%d responses applied", len(s.applied))
					}
				})
				if st := s.Status(); st.Acks != 1 || st.Nacks != 0 || st.LastRejection != nil || st.Opened != 1 {
					t.Errorf("status %+v", st)
				}
				store.want(0, []wire.Subscription{sub(endpoints, "e"), sub(clusters, "*")}, sub(clusters, "*"))
				as.expect(c.wants)
				as.version(c.api.State(), "2", "c")
				synctest.Wait()
				store.get(func(s *memStore) {
					if len(s.applied) != 1 {
						t.Errorf("%d responses applied of what was asked for", len(s.applied))
					}
				})
			})
		})
	}
}

// On the stream of one type another one is wrong (ACK-6).
func TestTypeOnTheStreamOfAnother_ACK6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serveAny("a")
		s := run(t, newUpstream(t, n.speaking(DeltaGRPC, "a")), newTypedStore(sub(endpoints, "e")), nil)
		as := srv.accept("/envoy.service.endpoint.v3.EndpointDiscoveryService/DeltaEndpoints")
		as.expect("[e] v= n=")
		as.send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: clusters, Nonce: "1"})
		as.expect("[] v= n=1 NACK " + errNotAsked.Error())
		if st := s.Status(); st.Acks != 0 || st.Nacks != 1 {
			t.Errorf("status %+v", st)
		}
	})
}
