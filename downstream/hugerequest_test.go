package downstream

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// operators has a server with the limits of names that operators have.
func operators(c *Config) {
	c.PerClient = ClientLimits{Subscriptions: 100_000, NamesBytes: 16 << 20, NameBytes: 2 << 10}
}

// served is a client that has what it wants.
func (h *harness) served() *client {
	h.Helper()
	c := h.client()
	c.subscribe(clusterType, ofA("a"))
	h.a.set(clusterType, "1", ofA("a"))
	h.quiet()
	c.take()
	return c
}

// A request for a million names has the names served for which there is room, and as many again refused one by one;
// the others are only counted. What is kept of it is bounded, and the other clients go on being served.
func TestMillionNames_LIM1_LIM2_LIM3(t *testing.T) {
	if raceEnabled {
		t.Skip("takes minutes with the race detector: a million names are a million calls of the observer")
	}
	const names, most = 1_000_000, 100_000
	bubble(t, func(h *harness) {
		other := h.served()
		h.opaque.away = true
		harmful := h.slowClient()
		before := live()
		size := func() int64 {
			r := &request{TypeUrl: clusterType, ResourceNamesSubscribe: make([]string, names)}
			for i := range r.ResourceNamesSubscribe {
				r.ResourceNamesSubscribe[i] = fmt.Sprintf("name-%07d", i)
			}
			harmful.send(r)
			return int64(proto.Size(r))
		}()
		h.quiet()
		refused := 0
		for _, r := range harmful.take() {
			for _, e := range r.GetResourceErrors() {
				if codes.Code(e.GetErrorDetail().GetCode()) != codes.ResourceExhausted {
					h.Fatalf("refused with %v", e)
				}
				refused++
			}
		}
		harmful.all = nil
		if served := h.seen.subscribed[clusterType] - 1; served != most {
			h.Errorf("%d names are served, want %d", served, most)
		}
		h.limited(LimitSubscriptions, names-most)
		if n := h.seen.count("limited: " + string(LimitNames)); n != 0 || refused == 0 || refused > 2*most {
			h.Errorf("%d names were answered", refused)
		}
		kept := live() - before
		t.Logf("a request of %d KiB has %d KiB kept, %d names were answered", size>>10, kept>>10, refused)
		if kept > 4*size {
			h.Errorf("a request of %d bytes has %d kept", size, kept)
		}
		h.a.set(clusterType, "2", ofA("a"))
		h.quiet()
		other.wants("Cluster +" + ofA("a") + "=2")
		harmful.cancel()
		h.quiet()
		if left := live() - before; left > 8<<20 {
			h.Errorf("%d bytes are left", left)
		}
	}, operators)
}

// Names of 60 KiB are refused one by one, by default and where there is no room for more, and cost nobody else anything.
func TestLongNames_LIM1_LIM2_ABS4(t *testing.T) {
	for what, c := range map[string]struct {
		most   int // bytes of a name
		served int // of 1,000 names
		limit  Limit
	}{
		"by default":        {2 << 10, 0, LimitName},
		"where they may be": {64 << 10, 16 << 20 / (60<<10 + 8), LimitNames},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(h *harness) {
				const names = 1000
				other := h.served()
				h.opaque.away = true
				harmful := h.slowClient() // one that acknowledges would wait for the relay, which waits for it
				harmful.subscribe(clusterType, "first")
				h.quiet()
				before := live()
				for i := range names / 20 {
					var some []string
					for k := range 20 {
						some = append(some, fmt.Sprintf("%08d%s", 20*i+k, strings.Repeat("n", 60<<10)))
					}
					harmful.subscribe(clusterType, some...)
				}
				h.quiet()
				harmful.take()
				harmful.all = nil
				if served := h.seen.subscribed[clusterType] - 2; served != c.served {
					h.Errorf("%d names are served, want %d", served, c.served)
				}
				h.limited(c.limit, names-c.served)
				kept := live() - before
				t.Logf("1,000 names of 60 KiB have %d KiB kept", kept>>10)
				if kept > 4*16<<20 {
					h.Errorf("%d bytes are kept", kept)
				}
				h.a.set(clusterType, "2", ofA("a"))
				h.quiet()
				other.wants("Cluster +" + ofA("a") + "=2")
				if n := len(h.server.Clients(nil, nil)); n != 2 {
					h.Errorf("%d streams, want that of the client with long names too", n)
				}
				harmful.cancel()
				h.quiet()
				if left := live() - before; left > 8<<20 {
					h.Errorf("%d bytes are left", left)
				}
			}, operators, func(conf *Config) { conf.PerClient.NameBytes = c.most })
		})
	}
}

// largeNode is a node of about so many bytes, in large numbers of small parts.
func largeNode(size int) *corev3.Node {
	n := &corev3.Node{Id: "n", Metadata: &structpb.Struct{Fields: make(map[string]*structpb.Value)}}
	for i := range size / 30 {
		n.Metadata.Fields[fmt.Sprintf("key-%09d", i)] = structpb.NewNumberValue(float64(i))
	}
	return n
}

// withNode puts an encoded node into a request, which need not be one.
func withNode(r *request, node []byte) *request {
	field := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), node)
	r.ProtoReflect().SetUnknown(field)
	return r
}

// Ten streams with nodes as large as a request may be are refused before anything of the nodes is read. Where operators allow
// large nodes, their memory comes back within half a minute. Others are served meanwhile.
func TestLargeNodes_LIM1_LIM2_LIM3(t *testing.T) {
	for what, c := range map[string]struct {
		node   *corev3.Node
		limit  int
		counts int
	}{
		"refused by default": {&corev3.Node{Id: strings.Repeat("n", 15<<20)}, 256 << 10, 10},
		"allowed":            {largeNode(1 << 20), 0, 0},
	} {
		t.Run(what, func(t *testing.T) {
			text, err := proto.Marshal(c.node)
			if err != nil {
				t.Fatal(err)
			}
			bubble(t, func(h *harness) {
				other := h.client()
				other.subscribe(clusterType, "a")
				h.opaque.set(clusterType, "1", "a")
				h.quiet()
				other.take()
				before := live()
				var harmful []*client
				for range 10 {
					c := h.slowClient()
					c.send(withNode(&request{TypeUrl: clusterType, ResourceNamesSubscribe: []string{"a"}}, text))
					h.quiet()
					harmful = append(harmful, c)
				}
				h.limited(LimitNode, c.counts)
				kept := live() - before
				t.Logf("10 nodes of %d KiB have %d KiB kept", len(text)>>10, kept>>10)
				if c.counts > 0 {
					harmful[0].endedWith(codes.ResourceExhausted, "the node has")
					if kept > 2<<20 {
						h.Errorf("%d bytes are kept of nodes that were refused", kept)
					}
				}
				h.opaque.set(clusterType, "2", "a")
				other.wants("Cluster +a=2")
				for _, c := range harmful {
					c.cancel()
				}
				h.quiet()
				h.router.mu.Lock()
				h.router.nodes = nil // the test's
				h.router.mu.Unlock()
				h.advance(30 * time.Second)
				if left := live() - before; left > 2<<20 {
					h.Errorf("%d bytes are left", left)
				}
			}, func(conf *Config) { conf.PerClient = ClientLimits{NodeBytes: c.limit} })
		})
	}
}

// A node that a client repeats in every request is skipped by its bytes (wire.TestRequestAllocations). It is not parsed: one that
// cannot be is no error. The first request's node counts (STR-1).
func TestRepeatedNode_LIM2_STR1(t *testing.T) {
	bubble(t, func(h *harness) {
		c := h.slowClient()
		c.send(&request{TypeUrl: clusterType, Node: node("n"), ResourceNamesSubscribe: []string{"a"}})
		for i := range 100 {
			h.opaque.set(clusterType, fmt.Sprint(i), "a")
			for _, r := range c.take() {
				broken := bytes.Repeat([]byte{0xff}, 60<<10) // no field begins so
				c.send(withNode(&request{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce}, broken))
			}
		}
		h.quiet()
		if acked := h.seen.count("acked"); acked != 100 {
			h.Errorf("%d responses were acknowledged, want 100", acked)
		}
		if n := len(h.router.nodes); n != 1 || h.router.nodes[0].GetId() != "n" {
			h.Errorf("%d nodes were taken from one stream", n)
		}
	})
}
