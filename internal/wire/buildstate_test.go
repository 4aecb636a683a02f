package wire

import (
	"fmt"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
)

// parseState decodes a message as a state-of-the-world client does.
func parseState(t testing.TB, m *Message) *discoveryv3.DiscoveryResponse {
	t.Helper()
	b := m.Bytes()
	if len(b) != m.Len() {
		t.Errorf("message has %d bytes, Len says %d", len(b), m.Len())
	}
	var p discoveryv3.DiscoveryResponse
	if err := proto.Unmarshal(b, &p); err != nil {
		t.Fatalf("a client cannot decode %x: %v", b, err)
	}
	return &p
}

// wrapped is how p goes out to a client that knows Resource.
func wrapped(t testing.TB, p *discoveryv3.Resource) *anypb.Any {
	t.Helper()
	return &anypb.Any{TypeUrl: wrapperType, Value: encoded.Bytes(p)}
}

// unwrapped decodes what a wrapped resource holds.
func unwrapped(t testing.TB, a *anypb.Any) *discoveryv3.Resource {
	t.Helper()
	if a.TypeUrl != wrapperType {
		t.Fatalf("wrapped in %q", a.TypeUrl)
	}
	var r discoveryv3.Resource
	if err := proto.Unmarshal(a.Value, &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

func TestStateResponse_VAR8_RES13(t *testing.T) {
	for _, size := range []int{10, 1000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			p := &discoveryv3.Resource{Name: "n", Version: "v", Resource: payload(size)}
			r := newResource(t, p)
			var b Builder
			b.AddAny(r)
			b.AddWrapped(r, "")
			b.AddWrapped(r, "other")
			b.AddAny(newResource(t, &discoveryv3.Resource{Name: "none"})) // nothing to send
			if b.Resources() != 3 {
				t.Errorf("%d resources, want 3", b.Resources())
			}
			n := b.Size()
			m := b.Finish(clusterType, "version", "7")
			var empty Builder
			if header := empty.Finish(clusterType, "version", "7").Len(); m.Len() != n+header {
				t.Errorf("Len = %d, but Size was %d and the header is %d", m.Len(), n, header)
			}
			got := parseState(t, m)
			if got.VersionInfo != "version" || got.Nonce != "7" || got.TypeUrl != clusterType {
				t.Errorf("header of %v", got)
			}
			equal(t, p.Resource, got.Resources[0])
			equal(t, p, unwrapped(t, got.Resources[1]))
			equal(t, renamed(p, "other"), unwrapped(t, got.Resources[2]))
		})
	}
}

// Every form that a name comes in can be wrapped, and under another spelling.
func TestStateResponse_NAME4_wrapped(t *testing.T) {
	for name, p := range map[string]*discoveryv3.Resource{
		"all fields":     fullResource(),
		"newer form":     {ResourceName: &discoveryv3.ResourceName{Name: "n"}, Version: "v", Resource: payload(500)},
		"no payload":     {Name: "n", Version: "v"},
		"no version":     {Name: "n", Resource: payload(500)},
		"small and bare": {Name: "n", Resource: payload(1)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newResource(t, p)
			for _, as := range []string{"", r.Name, "another spelling"} {
				var b Builder
				b.AddWrapped(r, as)
				got := unwrapped(t, parseState(t, b.Finish(clusterType, "", "1")).Resources[0])
				want := passed(renamed(p, as))
				if as == "" {
					want = passed(p)
				}
				equal(t, want, got)
			}
		})
	}
}

func TestStateResponse_sharesPayloads(t *testing.T) {
	r := newResource(t, &discoveryv3.Resource{Name: "n", Version: "v", Resource: payload(4096)})
	for name, add := range map[string]func(b *Builder){
		"bare":    func(b *Builder) { b.AddAny(r) },
		"wrapped": func(b *Builder) { b.AddWrapped(r, "") },
		"renamed": func(b *Builder) { b.AddWrapped(r, "m") },
	} {
		t.Run(name, func(t *testing.T) {
			var b Builder
			add(&b)
			m := b.Finish(clusterType, "1", "1")
			if len(m.gather) != 2 {
				t.Fatalf("%d pieces, want the header and the rest", len(m.gather))
			}
			if tail := m.gather[1].ReadOnlyData(); &tail[len(tail)-1] != &r.framed[len(r.framed)-1] {
				t.Error("the payload was copied")
			}
		})
	}
}

// A body is built once and sent any number of times.
func TestBody(t *testing.T) {
	var b Builder
	var want []*anypb.Any
	for i := range 10 {
		p := &discoveryv3.Resource{Name: fmt.Sprint(i), Version: "v", Resource: payload(20 * i)}
		r := newResource(t, p)
		if i%2 == 0 {
			b.AddAny(r)
			want = append(want, p.Resource)
		} else {
			b.AddWrapped(r, "")
			want = append(want, wrapped(t, p))
		}
	}
	size := b.Size()
	body := b.Body()
	if body.Resources() != 10 || body.Size() != size || b.Resources() != 0 || b.Size() != 0 {
		t.Fatalf("body of %d resources and %d bytes, left %d and %d", body.Resources(), body.Size(), b.Resources(), b.Size())
	}
	for range 2 {
		b.AddBody(body)
		if b.Resources() != 10 || b.Size() != size {
			t.Errorf("%d resources of %d bytes", b.Resources(), b.Size())
		}
		got := parseState(t, b.Finish(clusterType, "1", "1"))
		if len(got.Resources) != len(want) {
			t.Fatalf("%d resources, want %d", len(got.Resources), len(want))
		}
		for i := range want {
			if got.Resources[i].TypeUrl != wrapperType {
				equal(t, want[i], got.Resources[i])
			}
		}
	}
	var none Builder
	none.AddBody(new(Builder).Body())
	if got := parseState(t, none.Finish(clusterType, "1", "1")); len(got.Resources) != 0 || none.Size() != 0 {
		t.Errorf("an empty body: %v", got)
	}
	if n := testing.AllocsPerRun(100, func() {
		b.AddBody(body)
		b.Finish(clusterType, "1", "1")
	}); n > 3 {
		t.Errorf("%.0f allocations per response", n)
	}
}

// What is gathered once is in any number of incremental responses, without a copy.
func TestGather_VAR8(t *testing.T) {
	want := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: clusterType, Nonce: "1"}
	var resources []*Resource
	for i := range 10 {
		p := &discoveryv3.Resource{Name: fmt.Sprint(i), Version: "v", Resource: payload(20 * i)}
		want.Resources = append(want.Resources, p)
		resources = append(resources, newResource(t, p))
	}
	body := Gather(resources)
	var b Builder
	for range 2 {
		b.AddBody(body)
		if b.Resources() != 10 || b.Size() != body.Size() {
			t.Errorf("%d resources of %d bytes, want %d", b.Resources(), b.Size(), body.Size())
		}
		msg := b.Finish(clusterType, "", "1")
		if len(msg.gather) != 1+10 {
			t.Errorf("%d pieces", len(msg.gather))
		}
		equal(t, want, parse(t, msg))
	}
	if !body.Shares(Gather(resources)) || body.Shares(Gather(resources[1:])) {
		t.Error("a body does not know its memory")
	}
	b.AddBody(Gather(nil))
	if b.Resources() != 0 || b.Size() != 0 {
		t.Errorf("nothing is %d resources of %d bytes", b.Resources(), b.Size())
	}
}

func TestBuilderJoin_RES4(t *testing.T) {
	resource := func(name, version string) *Resource {
		return newResource(t, &discoveryv3.Resource{Name: name, Version: version, Resource: payload(200)})
	}
	var one, two Builder
	one.AddWrapped(resource("a", "1"), "")
	one.AddWrapped(resource("b", "1"), "c")
	two.AddWrapped(resource("a", "2"), "")
	two.AddWrapped(resource("b", "2"), "")
	two.AddWrapped(resource("x", "2"), "c")
	one.Join(&two)
	if two.Resources() != 0 || two.Size() != 0 {
		t.Errorf("%d resources left", two.Resources())
	}
	var got []string
	for _, a := range parseState(t, one.Finish(clusterType, "1", "1")).Resources {
		r := unwrapped(t, a)
		got = append(got, r.Name+"="+r.Version)
	}
	if s := fmt.Sprint(got); s != "[a=1 c=1 b=2]" {
		t.Errorf("got %s", s)
	}
}

// Errors have another field here than in the incremental form, and go with the parts
// that are joined.
func TestStateErrors_ERR1_NAME4(t *testing.T) {
	detail, err := NewResourceError(&discoveryv3.ResourceError{
		ResourceName: &discoveryv3.ResourceName{Name: "a"},
		ErrorDetail:  &statuspb.Status{Code: int32(codes.Unavailable), Message: "why", Details: []*anypb.Any{payload(10)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !detail.Transient() || detail.Size() < 20 {
		t.Errorf("transient %t, size %d", detail.Transient(), detail.Size())
	}
	var one, two Builder
	one.AddStateError(detail, "b")
	two.AddAny(newResource(t, &discoveryv3.Resource{Name: "x", Resource: payload(300)}))
	two.AddStateError(ResourceError{Name: "c", Code: codes.NotFound}, "c")
	one.Join(&two)
	if one.Errors() != 2 || two.Errors() != 0 {
		t.Errorf("%d errors, %d left", one.Errors(), two.Errors())
	}
	size := one.Size()
	m := one.Finish("T", "", "")
	if m.Len() != size+len("T")+2 {
		t.Errorf("Len %d, Size was %d", m.Len(), size)
	}
	got := parseState(t, m)
	if len(got.Resources) != 1 || len(got.ResourceErrors) != 2 || len(got.ProtoReflect().GetUnknown()) > 0 {
		t.Fatalf("got %v", got)
	}
	first, second := got.ResourceErrors[0], got.ResourceErrors[1]
	if first.ResourceName.Name != "b" || first.ErrorDetail.Message != "why" || len(first.ErrorDetail.Details) != 1 ||
		second.ResourceName.Name != "c" || codes.Code(second.ErrorDetail.Code) != codes.NotFound {
		t.Errorf("got %v", got.ResourceErrors)
	}
	one.AddStateError(detail, "b")
	one.AddStateError(ResourceError{Name: "c", Code: codes.NotFound}, "c")
	decoded := Response{State: true}
	if err := decoded.Decode(one.Finish("T", "", "").Bytes()); err != nil || len(decoded.Errors) != 2 || decoded.Errors[1].Transient() {
		t.Errorf("decoded %+v: %v", decoded.Errors, err)
	}
	if _, err := NewResourceError(&discoveryv3.ResourceError{ResourceName: &discoveryv3.ResourceName{Name: "\xff"}}); err == nil {
		t.Error("a name that is not UTF-8 is accepted")
	}
}
