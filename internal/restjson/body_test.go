package restjson

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
)

// A response to one client more takes no memory for what is in it: polls of 20 MiB would take that
// much each.
func TestBodySharesPayloads_LIM3(t *testing.T) {
	const size = 1 << 20
	big := stored(t, &discoveryv3.Resource{
		Name: "a", Version: "1", Resource: encoded.Any(&clusterv3.Cluster{Name: "a", AltStatName: strings.Repeat("x", size)}),
	})
	once, err := Transcode(big)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrapped := range []bool{false, true} {
		o := &Outgoing{
			VersionInfo: "<1>", TypeURL: big.TypeURL(), Nonce: "n", ControlPlane: `a "b" & c`, Wrapped: wrapped,
			Resources: []OutgoingResource{{Resource: big, Transcoded: once}, {Resource: big, Transcoded: once}},
		}
		encoded, err := EncodeResponse(o)
		if err != nil {
			t.Fatal(err)
		}
		var w bytes.Buffer
		n, err := encoded.Body.WriteTo(&w)
		if err != nil || int(n) != w.Len() || w.Len() != encoded.Body.Size() || w.String() != encoded.Body.String() {
			t.Errorf("%d bytes are said to be written, %d are, of %d: %v", n, w.Len(), encoded.Body.Size(), err)
		}
		if !json.Valid(w.Bytes()) || w.Len() < 2*size {
			t.Errorf("%d bytes are not the JSON of two resources of %d", w.Len(), size)
		}
		if !wrapped { // the head of a wrapped one is read from its bytes
			got := bytesPerRun(func() { _, _ = EncodeResponse(o) })
			if got > size/100 {
				t.Errorf("LIM-3: a response takes %d bytes beside payloads of %d", got, 2*size)
			}
		}
	}
}

// bytesPerRun gives what f allocates.
func bytesPerRun(f func()) uint64 {
	const runs = 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / runs
}
