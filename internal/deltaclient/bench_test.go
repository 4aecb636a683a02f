package deltaclient

import (
	"strconv"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// update gives a client that holds n clusters, and a function that has it take
// up the next version of one of them, decoding aside.
func update(tb testing.TB, n int) func() {
	tb.Helper()
	c := New(nil, Options{})
	c.Subscribe(clusterType)
	c.stream = &stream{wake: make(chan struct{}, 1)}
	c.types[clusterType].requested = true
	var elements []string
	for i := range n {
		elements = append(elements, "cluster-"+strconv.Itoa(i)+"@1")
	}
	decode := func(elements ...string) *wire.Received {
		r := new(wire.Received)
		b, err := proto.Marshal(response("1", elements...))
		if err != nil {
			tb.Fatal(err)
		}
		if err := r.Decode(b); err != nil {
			tb.Fatal(err)
		}
		return r
	}
	c.handle(decode(elements...))
	versions := []*wire.Received{decode("cluster-0@2"), decode("cluster-0@3")}
	i := 0
	return func() {
		c.handle(versions[i&1])
		c.stream.queue = c.stream.queue[:0]
		i++
	}
}

// TestAllocs holds an update, once decoded, to the request that answers it.
func TestAllocs(t *testing.T) {
	f := update(t, 1000)
	if n := testing.AllocsPerRun(1000, f); n > 1 {
		t.Errorf("%v allocations per update, want the answer only", n)
	}
}

func BenchmarkUpdate(b *testing.B) {
	f := update(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		f()
	}
}
