package upstream

import (
	"slices"
	"testing"
	"testing/synctest"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// On a stream of one type a response without type_url is of that type.
func TestVAR1VAR2ResponseWithoutType(t *testing.T) {
	payload := &anypb.Any{TypeUrl: clusters, Value: named("c")}
	for api, tt := range map[APIType]struct {
		method   string
		response any
	}{
		GRPC: {stateCDS, &discoveryv3.DiscoveryResponse{VersionInfo: "1", Nonce: "n", Resources: []*anypb.Any{payload}}},
		DeltaGRPC: {deltaCDS, &discoveryv3.DeltaDiscoveryResponse{
			Nonce: "n", Resources: []*discoveryv3.Resource{{Name: "c", Version: "1", Resource: payload}},
		}},
	} {
		t.Run(string(api), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				srv := n.serveAny("a")
				store := newTypedStore(sub(clusters, "c"))
				s := run(t, newUpstream(t, n.speaking(api, "a")), store, nil)
				stream := srv.accept(tt.method)
				stream.next()
				stream.send(tt.response)
				if req := stream.next(); req.GetTypeUrl() != clusters || req.GetResponseNonce() != "n" || req.GetErrorDetail() != nil {
					t.Errorf("answered with %v", req)
				}
				if got := store.names(clusters); !slices.Equal(got, []string{"c"}) {
					t.Errorf("stored %v", got)
				}
				if st := s.Status(); st.Lost != 0 || st.Acks != 1 {
					t.Errorf("status %+v", st)
				}
			})
		})
	}
}
