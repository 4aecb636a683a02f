package xdsclient

import (
	"strconv"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// received is a decoded response with clusters in one version.
func received(tb testing.TB, version string, names ...string) *wire.Received {
	tb.Helper()
	resp := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: clusterType, Nonce: version}
	for _, name := range names {
		resp.Resources = append(resp.Resources, &discoveryv3.Resource{
			Name: name, Version: version, Resource: &anypb.Any{TypeUrl: clusterType, Value: []byte(name)},
		})
	}
	b, err := proto.Marshal(resp)
	if err != nil {
		tb.Fatal(err)
	}
	r := new(wire.Received)
	if err := r.Decode(b); err != nil {
		tb.Fatal(err)
	}
	return r
}

// update gives a function that has a client that holds n clusters take up the
// next version of one of them, decoding aside.
func update(tb testing.TB, n int) func() {
	tb.Helper()
	c := New(Options{})
	c.Subscribe(clusterType)
	l := c.links[0]
	l.stream = &stream{wake: make(chan struct{}, 1), nodeSent: true}
	c.types[clusterType].requested = true
	var names []string
	for i := range n {
		names = append(names, "cluster-"+strconv.Itoa(i))
	}
	l.handle(received(tb, "1", names...))
	versions := []*wire.Received{received(tb, "2", names[0]), received(tb, "3", names[0])}
	i := 0
	return func() {
		l.handle(versions[i&1])
		l.stream.queue = l.stream.queue[:0]
		i++
	}
}

// TestAllocs holds an update, once decoded, to the request that answers it, and what
// is kept of the resource.
func TestAllocs(t *testing.T) {
	f := update(t, 1000)
	if n := testing.AllocsPerRun(1000, f); n > 2 {
		t.Errorf("%v allocations per update, want the answer, and a name with its version", n)
	}
}

func BenchmarkUpdate(b *testing.B) {
	f := update(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		f()
	}
}
