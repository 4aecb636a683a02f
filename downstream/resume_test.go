package downstream

import (
	"strconv"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// resumption returns a function that has a stream without a network receive its first
// request, with the current versions of n resources, carry it out and make its pass. As a
// glob the names are those of an authority.
func resumption(tb testing.TB, n int, glob bool) func() {
	tb.Helper()
	p := newPlane(tb, cache.New(cache.Limits{}, nil).Open(source()))
	s := NewServer(Config{Router: &testRouter{
		scoped:      func(*corev3.Node, string, keyer.Peer) (*cache.Store, error) { return p.store, nil },
		authorities: map[string]*cache.Store{"a": p.store},
	}})
	s.shared.senders.stop() // the stream is served here
	first := &request{TypeUrl: clusterType, Node: node("n"), InitialResourceVersions: map[string]string{}}
	names := make([]string, n)
	for i := range names {
		if names[i] = "resource-" + strconv.Itoa(i); glob {
			names[i] = ofA("d/" + strconv.Itoa(i))
		}
		first.InitialResourceVersions[names[i]] = "1"
	}
	if first.ResourceNamesSubscribe = []string{cache.Wildcard}; glob {
		first.ResourceNamesSubscribe = []string{ofA("d/*")}
	}
	p.set(clusterType, "1", names...)
	encoded, err := proto.Marshal(first)
	if err != nil {
		tb.Fatal(err)
	}
	codec, buffers := wire.Codec(), mem.BufferSlice{mem.SliceBuffer(encoded)}
	stream := &fakeStream{
		ctx:  tb.Context(),
		recv: func(m any) error { return codec.Unmarshal(buffers, m) },
		sent: func(any) error { tb.Error("RES-11: something was sent"); return nil },
	}
	keeper := newStream(s.shared, &fakeStream{ctx: tb.Context(), sent: func(any) error { return nil }}, &variant{deltaForm, &services[0]})
	if _, err := keeper.request(&discoveryRequest{typeURL: clusterType, subscribe: first.ResourceNamesSubscribe}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(keeper.close)
	p.pump()
	return func() {
		st := newStream(s.shared, stream, &variant{deltaForm, &services[0]})
		r, err := st.variant.receive(stream)
		if err == nil {
			_, err = st.request(&r)
		}
		if err == nil {
			err = st.deliver()
		}
		if err != nil {
			tb.Fatal(err)
		}
		st.close()
	}
}

// A client that comes back with everything costs the same memory however much that is:
// its versions are looked at where they were received, and none is kept (RES-11).
func TestResume_RES11_Allocations(t *testing.T) {
	for _, glob := range []bool{false, true} {
		few, many := testing.AllocsPerRun(20, resumption(t, 10, glob)), testing.AllocsPerRun(20, resumption(t, 1000, glob))
		if many > few+5 {
			t.Errorf("glob %t: %.0f allocations for 1,000 versions, %.0f for 10", glob, many, few)
		}
		t.Logf("glob %t: %.0f allocations", glob, many)
	}
}

// BenchmarkResume measures a client that comes back, without gRPC under it.
func BenchmarkResume(b *testing.B) {
	for name, glob := range map[string]bool{"wildcard": false, "glob": true} {
		b.Run(name, func(b *testing.B) {
			resume := resumption(b, 1000, glob)
			b.ReportAllocs()
			for b.Loop() {
				resume()
			}
		})
	}
}

// Versions are for what the client subscribes to with them, whatever their names are
// (RES-11).
func TestResume_RES11(t *testing.T) {
	runAll(t, []scenario{
		{"RES-11 names, a glob and the wildcard in one request", func(h *harness) {
			h.opaque.set(clusterType, "1", "same", "changed", "named")
			h.a.set(clusterType, "1", ofA("d/1"), ofA("d/2"), ofA("x?p=1&q=2"))
			c := h.client()
			c.send(&request{
				TypeUrl: clusterType, Node: node("n"),
				ResourceNamesSubscribe: []string{cache.Wildcard, ofA("d/*"), ofA("x?q=2&p=1"), "named"},
				InitialResourceVersions: map[string]string{
					"same": "1", "changed": "0", "gone": "1", "named": "1", ofA("d/1"): "1", ofA("d/2"): "0", ofA("d/3"): "1",
					ofA("x?q=2&p=1"): "1", ofA("other/1"): "1", "xdstp://nobody/z": "1", "x": "1",
				},
			})
			h.quiet()
			h.opaque.settle()
			h.a.settle()
			c.wants("Cluster +changed=1", "Cluster +"+ofA("d/2")+"=1", "Cluster -gone -x", "Cluster -"+ofA("d/3"))
		}},
		{"RES-11 names that are long, or begin like others", func(h *harness) {
			long := strings.Repeat("l", 300)
			h.opaque.set(clusterType, "1", long, "xray", "a")
			c := h.client()
			c.send(&request{
				TypeUrl: clusterType, Node: node("n"),
				InitialResourceVersions: map[string]string{long: "1", "xray": "1", "a": "1"},
			})
			h.quiet()
			h.opaque.settle()
			c.wants()
		}},
	})
}

// A request that cannot be decoded ends the stream as one of the generated types does, and
// so does a node that cannot, if it is looked at.
func TestResume_undecodable(t *testing.T) {
	for _, in := range []string{
		"\x12\x01\xff",                  // type_url
		"\x2a\x03\x0a\x01\xff",          // a name in initial_resource_versions
		"\x12\x01T\x2a\x02\x0a\x7f",     // a length that lies
		"\x0a\x03\x0a\x01\xff\x12\x01T", // the node's id
	} {
		s := NewServer(Config{Router: &testRouter{}})
		st := newStream(s.shared, &fakeStream{
			ctx: t.Context(),
			recv: func(m any) error {
				if err := wire.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(in)}, m); err != nil {
					return status.Error(codes.Internal, err.Error()) // as grpc does
				}
				return nil
			},
		}, deltaADS())
		r, err := st.variant.receive(st.link.grpc)
		if err == nil {
			_, err = st.request(&r)
		}
		if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "wire: cannot decode") {
			t.Errorf("%q ends with %v", in, err)
		}
		s.Stop()
	}
}
