package wire

import (
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// A message that is decoded later is the one that came, whatever came behind it, and can be freed again.
func TestEncodedIsDecodedLater_LIM2(t *testing.T) {
	m, want := fullMessage(t)
	stream := openStream(t, serve(t, sendOnRequest(m), withCodec()))
	var came [3]Encoded
	for i := range came {
		if err := stream.RecvMsg(&came[i]); err != nil {
			t.Fatal(err)
		}
		if err := stream.SendMsg(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: want.TypeUrl}); err != nil {
			t.Fatal(err)
		}
	}
	came[0].Free()
	for i := range came[1:] {
		var r Received
		if err := came[1+i].Decode(&r); err != nil || r.Err != nil {
			t.Fatal(err, r.Err)
		}
		if r.Nonce != want.Nonce || len(r.Resources) != len(want.Resources) || len(r.Removed) != len(want.RemovedResources) {
			t.Errorf("got %+v", r)
		}
		came[1+i].Free()
	}
}
