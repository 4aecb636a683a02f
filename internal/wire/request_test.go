package wire

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
)

func fullDeltaRequest() *discoveryv3.DeltaDiscoveryRequest {
	return &discoveryv3.DeltaDiscoveryRequest{
		Node: &corev3.Node{Id: "node", Cluster: "c"}, TypeUrl: clusterType, ResponseNonce: "12",
		ResourceNamesSubscribe: []string{"a", "*", "ä"}, ResourceNamesUnsubscribe: []string{"b", ""},
		ResourceLocatorsSubscribe:   []*discoveryv3.ResourceLocator{{Name: "l", DynamicParameters: map[string]string{"k": "v"}}},
		ResourceLocatorsUnsubscribe: []*discoveryv3.ResourceLocator{{Name: "m"}},
		InitialResourceVersions: map[string]string{
			"a": "1", "": "", "no version": "", strings.Repeat("n", 127): "x", strings.Repeat("n", 128): "x",
			"long": strings.Repeat("v", 300),
		},
		ErrorDetail: &statuspb.Status{Code: 3, Message: "no"},
	}
}

func fullStateRequest() *discoveryv3.DiscoveryRequest {
	return &discoveryv3.DiscoveryRequest{
		Node: &corev3.Node{Id: "node"}, TypeUrl: "a type of somebody's own", ResponseNonce: "not ours", VersionInfo: "v7",
		ResourceNames:    []string{"a", "b"},
		ResourceLocators: []*discoveryv3.ResourceLocator{{Name: "l", DynamicParameters: map[string]string{"k": "v"}}},
		ErrorDetail:      &statuspb.Status{Code: 3, Message: "no"},
	}
}

// byName is what a walk through versions gives, the last of each name.
func byName(v *Versions) map[string]string {
	all := map[string]string{}
	for it := v.Walk(); it.Next(); {
		all[it.NameString()] = it.VersionString()
	}
	return all
}

// generated is the request as the generated type has it.
func (r *DeltaRequest) generated(t testing.TB) *discoveryv3.DeltaDiscoveryRequest {
	t.Helper()
	node, err := r.Node()
	if err != nil {
		t.Fatal(err)
	}
	return &discoveryv3.DeltaDiscoveryRequest{
		Node: node, TypeUrl: r.TypeURL, ResponseNonce: r.Nonce, ErrorDetail: r.Rejection,
		ResourceNamesSubscribe: r.Subscribe, ResourceNamesUnsubscribe: r.Unsubscribe,
		ResourceLocatorsSubscribe: r.SubscribeLocators, ResourceLocatorsUnsubscribe: r.UnsubscribeLocators,
		InitialResourceVersions: byName(&r.Versions),
	}
}

func (r *StateRequest) generated(t testing.TB) *discoveryv3.DiscoveryRequest {
	t.Helper()
	node, err := r.Node()
	if err != nil {
		t.Fatal(err)
	}
	return &discoveryv3.DiscoveryRequest{
		Node: node, TypeUrl: r.TypeURL, ResponseNonce: r.Nonce, ErrorDetail: r.Rejection, VersionInfo: r.VersionInfo,
		ResourceNames: r.Names, ResourceLocators: r.Locators,
	}
}

func TestDeltaRequest_VAR2_STR1(t *testing.T) {
	want := fullDeltaRequest()
	var r DeltaRequest
	for range 2 { // the second time everything is replaced
		if err := r.Decode(encoded.Bytes(want)); err != nil {
			t.Fatal(err)
		}
		if r.Versions.Len() != len(want.InitialResourceVersions) {
			t.Errorf("%d versions", r.Versions.Len())
		}
		got := r.generated(t)
		equal(t, want, got)
	}
	if err := r.Decode(nil); err != nil || r.node != nil || r.Nonce != "" || r.Versions.Len() > 0 || r.Subscribe != nil {
		t.Errorf("%v, left %+v", err, r)
	}
}

func TestStateRequest_VAR1_STR1(t *testing.T) {
	want := fullStateRequest()
	var r StateRequest
	if err := r.Decode(encoded.Bytes(want)); err != nil {
		t.Fatal(err)
	}
	equal(t, want, r.generated(t))
}

// What comes more than once means what protobuf says.
func TestRequestRepeatedFields(t *testing.T) {
	type d = discoveryv3.DeltaDiscoveryRequest
	var in []byte
	for _, part := range []*d{
		{Node: &corev3.Node{Id: "one", Cluster: "c"}, TypeUrl: "T", ResponseNonce: "1", InitialResourceVersions: map[string]string{"a": "1"}, ErrorDetail: &statuspb.Status{Code: 3, Message: "no"}},
		{ResourceNamesSubscribe: []string{"x"}, InitialResourceVersions: map[string]string{"a": "2"}},
		{Node: &corev3.Node{Id: "two"}, TypeUrl: "U", ResponseNonce: "2", InitialResourceVersions: map[string]string{"b": "1"}, ErrorDetail: &statuspb.Status{Code: 4}},
	} {
		in = append(in, encoded.Bytes(part)...)
	}
	var want d
	if err := proto.Unmarshal(in, &want); err != nil {
		t.Fatal(err)
	}
	var r DeltaRequest
	if err := r.Decode(in); err != nil {
		t.Fatal(err)
	}
	equal(t, &want, r.generated(t))
}

func TestRequestUndecodable(t *testing.T) {
	for name, c := range map[string]struct {
		in, field string
		is        error
	}{
		"truncated field":    {"\x12\x05T", "", io.ErrUnexpectedEOF},
		"type URL":           {"\x12\x01\xff", "type_url", ErrInvalidUTF8},
		"name":               {"\x1a\x01\xff", "resource_names_subscribe", ErrInvalidUTF8},
		"unsubscribed name":  {"\x22\x01\xff", "resource_names_unsubscribe", ErrInvalidUTF8},
		"version's name":     {"\x2a\x05\x0a\x01\xff\x12\x00", "initial_resource_versions.key", ErrInvalidUTF8},
		"version":            {"\x2a\x05\x12\x01\xff\x0a\x00", "initial_resource_versions.value", ErrInvalidUTF8},
		"a name twice":       {"\x2a\x06\x0a\x01\xff\x0a\x01b", "initial_resource_versions.key", ErrInvalidUTF8},
		"a version twice":    {"\x2a\x06\x12\x01\xff\x12\x01b", "initial_resource_versions.value", ErrInvalidUTF8},
		"a version's length": {"\x2a\x04\x0a\x00\x12\x05", "initial_resource_versions", io.ErrUnexpectedEOF},
		"a name's length":    {"\x2a\x02\x0a\x7f", "initial_resource_versions", io.ErrUnexpectedEOF},
		"nonce":              {"\x32\x01\xff", "response_nonce", ErrInvalidUTF8},
		"error_detail":       {"\x3a\x03\x12\x01\xff", "error_detail.message", ErrInvalidUTF8},
		"half of a code":     {"\x3a\x01\x08", "error_detail", io.ErrUnexpectedEOF},
		"locator":            {"\x42\x03\x0a\x01\xff", "resource_locators_subscribe[0]", nil},
		"unsubscribed one":   {"\x4a\x02\x0a\x00\x4a\x03\x0a\x01\xff", "resource_locators_unsubscribe[1]", nil},
		"field number 0":     {"\x00\x00", "", nil},
		"end of no group":    {"\x0c", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if proto.Unmarshal([]byte(c.in), new(discoveryv3.DeltaDiscoveryRequest)) == nil {
				t.Fatal("the generated type accepts this")
			}
			err := new(DeltaRequest).Decode([]byte(c.in))
			de, ok := errors.AsType[*DecodeError](err)
			if !ok || de.Field != c.field || (c.is != nil && !errors.Is(err, c.is)) {
				t.Errorf("err = %v, want one of %q", err, c.field)
			}
		})
	}
	t.Run("STR-1 a node is looked at when it is wanted", func(t *testing.T) {
		var r StateRequest
		if err := r.Decode([]byte("\x12\x03\x0a\x01\xff")); err != nil {
			t.Fatal(err)
		}
		_, err := r.Node()
		if want := "wire: cannot decode node: "; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("err = %v", err)
		}
	})
}

// FuzzDeltaRequest and FuzzStateRequest hold Decode to the generated types: they accept
// the same, and it means the same.
func FuzzDeltaRequest(f *testing.F) {
	f.Add(encoded.Bytes(fullDeltaRequest()))
	f.Add([]byte("\x2a\x04\x12\x00\x0a\x00\x1a\x01a\x2a\x00\x2a\x06\x0a\x01a\x0a\x01b"))
	f.Add([]byte("\x2a\x06\x0a\x01\xff\x0a\x01b\x2a\x06\x12\x01\xff\x12\x01b"))
	f.Add([]byte("\x0a\x01\x0a\x0a\x01\x00")) // a node in pieces, none of which is one
	f.Add([]byte("\x0a\x03\x0a\x01n\x0a\x00\x3a\x02\x08\x03\x3a\x02\x08\x04\x28\x01\x2b\x2c"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var want discoveryv3.DeltaDiscoveryRequest
		var r DeltaRequest
		buf := bytes.Clone(in)
		if agreed(t, proto.Unmarshal(in, &want), r.Decode(buf), details(in, fieldDeltaError), &r.Request) {
			want.ProtoReflect().SetUnknown(nil)
			want.ErrorDetail = undetailed(want.ErrorDetail)
			held := r.Versions.Clone()
			equal(t, &want, r.generated(t))
			r.Release()
			clear(buf) // whatever is kept of it shows now
			if !maps.Equal(byName(&held), want.InitialResourceVersions) {
				t.Errorf("versions %v, want %v", byName(&held), want.InitialResourceVersions)
			}
			want.Node, want.InitialResourceVersions = nil, nil
			equal(t, &want, r.generated(t))
		}
	})
}

func FuzzStateRequest(f *testing.F) {
	f.Add(encoded.Bytes(fullStateRequest()))
	f.Add([]byte("\x12\x03\x0a\x01n\x12\x00\x32\x02\x08\x03\x32\x02\x08\x04"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var want discoveryv3.DiscoveryRequest
		var r StateRequest
		buf := bytes.Clone(in)
		if agreed(t, proto.Unmarshal(in, &want), r.Decode(buf), details(in, fieldRequestError), &r.Request) {
			want.ProtoReflect().SetUnknown(nil)
			want.ErrorDetail = undetailed(want.ErrorDetail)
			equal(t, &want, r.generated(t))
			r.Release()
			clear(buf)
			want.Node = nil
			equal(t, &want, r.generated(t))
		}
	})
}

// details finds what is wrong with the details of a request's errors, which Decode does not look at.
func details(in []byte, number protowire.Number) error {
	for it := (fields{rest: in}); it.next(); {
		if !it.is(number, protowire.BytesType) {
			continue
		}
		for s := (fields{rest: it.body}); s.next(); {
			if !s.is(3, protowire.BytesType) {
				continue
			}
			if err := proto.Unmarshal(s.body, new(anypb.Any)); err != nil {
				return err
			}
		}
	}
	return nil
}

// undetailed is what Decode takes of an error.
func undetailed(s *statuspb.Status) *statuspb.Status {
	if s == nil {
		return nil
	}
	return &statuspb.Status{Code: s.GetCode(), Message: s.GetMessage()}
}

// agreed compares what both say of an input, the node and what is not read included, and reports
// whether they accept it. Of one with too many names nothing is compared.
func agreed(t *testing.T, generated, decoded, unread error, r *Request) bool {
	t.Helper()
	if _, crammed := errors.AsType[*NamesError](decoded); crammed {
		return false
	}
	if decoded == nil {
		_, decoded = r.Node()
	}
	if decoded == nil {
		decoded = unread
	}
	if (generated == nil) != (decoded == nil) {
		t.Fatalf("proto.Unmarshal says %v, Decode %v", generated, decoded)
	}
	return generated == nil
}

// A node in very many pieces costs what its bytes do (OPS-5).
func TestOPS5_hostileNodes(t *testing.T) {
	in := bytes.Repeat([]byte("\x12\x02\x0a\x00\x0a\x00"), 1<<18) // and version_info between them
	var r StateRequest
	allocs := testing.AllocsPerRun(1, func() {
		if err := r.Decode(in); err != nil {
			t.Fatal(err)
		}
	})
	if node, err := r.Node(); allocs > 0 || node == nil || err != nil {
		t.Errorf("%.0f allocations, %v, %v", allocs, node, err)
	}
}

// Details of errors cost nothing, however many there are, and whatever they say.
func TestLIM3_hostileDetails(t *testing.T) {
	for name, detail := range map[string]string{"empty": "\x1a\x00", "errors": "\x32\x02\x1a\x00", "no message": "\x1a\x01\xff"} {
		in := []byte(strings.Repeat(detail, 1<<18))
		if name != "errors" {
			in = appendBytesTag(nil, fieldRequestError, len(in))
			in = append(in, strings.Repeat(detail, 1<<18)...)
		}
		var r StateRequest
		allocs := testing.AllocsPerRun(1, func() {
			if err := r.Decode(in); err != nil || r.Rejection == nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		if allocs > 1 { // the status
			t.Errorf("%s: %.0f allocations", name, allocs)
		}
	}
}

// Hostile versions cost what their bytes do (OPS-5).
func TestOPS5_hostileVersions(t *testing.T) {
	const n = 1 << 20
	for name, entry := range map[string]string{"empty": "\x2a\x00", "no name": "\x2a\x02\x12\x00", "the same": "\x2a\x03\x0a\x01a"} {
		t.Run(name, func(t *testing.T) {
			in := bytes.Repeat([]byte(entry), n)
			var r DeltaRequest
			allocs := testing.AllocsPerRun(1, func() {
				if err := r.Decode(in); err != nil || r.Versions.Len() != n {
					t.Fatalf("%d versions, %v", r.Versions.Len(), err)
				}
			})
			if allocs > 0 || len(byName(&r.Versions)) != 1 {
				t.Errorf("%.0f allocations, %d names", allocs, len(byName(&r.Versions)))
			}
		})
	}
}

func TestVersions(t *testing.T) {
	v := NewVersions(map[string]string{"a": "1", strings.Repeat("b", 200): "2"})
	first := v.Clone()
	v.Add("a", "3")
	first.Add("c", "4")
	if got := byName(&v); len(got) != 2 || got["a"] != "3" || v.Len() != 3 {
		t.Errorf("%d, %v", v.Len(), got)
	}
	if got := byName(&first); len(got) != 3 || got["a"] != "1" || got["c"] != "4" {
		t.Errorf("the copy is %v", got)
	}
	var r DeltaRequest
	in := encoded.Bytes(&discoveryv3.DeltaDiscoveryRequest{InitialResourceVersions: map[string]string{"x": "1"}, ResponseNonce: "9"})
	before := slices.Clone(in)
	if err := r.Decode(in); err != nil {
		t.Fatal(err)
	}
	r.Versions.Add("y", "2")
	if got := byName(&r.Versions); !maps.Equal(got, map[string]string{"x": "1", "y": "2"}) || !bytes.Equal(in, before) {
		t.Errorf("got %v, and the request is %x", got, in)
	}
}

// Acknowledgements are what a relay receives most, and reconnecting clients the most of.
func TestRequestAllocations(t *testing.T) {
	ack := encoded.Bytes(&discoveryv3.DeltaDiscoveryRequest{
		Node: &corev3.Node{Id: "node"}, TypeUrl: clusterType, ResponseNonce: "1234567",
	})
	envoy := encoded.Bytes(&discoveryv3.DeltaDiscoveryRequest{ // it sends its node with each
		Node: &corev3.Node{Id: strings.Repeat("n", 60<<10)}, TypeUrl: clusterType, ResponseNonce: "1234567",
	})
	versions := map[string]string{}
	for i := range 1000 {
		versions["cluster-with-a-long-name-"+strconv.Itoa(i)] = strconv.Itoa(i)
	}
	resume := encoded.Bytes(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: clusterType, ResourceNamesSubscribe: []string{"*"}, InitialResourceVersions: versions,
	})
	state := encoded.Bytes(&discoveryv3.DiscoveryRequest{TypeUrl: clusterType, ResponseNonce: "1", VersionInfo: "7"})
	for name, c := range map[string]struct {
		in   []byte
		into interface{ Decode(b []byte) error }
		most float64
	}{
		"ACK, its nonce":                {ack, new(DeltaRequest), 1},
		"LIM-2 ACK with a large node":   {envoy, new(DeltaRequest), 1},
		"ACK of the state of the world": {state, new(StateRequest), 0},
		"RES-11 1,000 versions":         {resume, new(DeltaRequest), 1},
	} {
		got := testing.AllocsPerRun(100, func() {
			if err := c.into.Decode(c.in); err != nil {
				t.Fatal(err)
			}
		})
		if got > c.most {
			t.Errorf("%s: %.0f allocations, at most %.0f are expected", name, got, c.most)
		}
	}
}

// Through gRPC: requests of more than one frame, in memory that is used again.
func TestRequestsEndToEnd(t *testing.T) {
	big := fullDeltaRequest()
	for i := range 5000 {
		big.InitialResourceVersions["resource-"+strconv.Itoa(i)] = "version-" + strconv.Itoa(i)
	}
	requests := []*discoveryv3.DeltaDiscoveryRequest{fullDeltaRequest(), big, {TypeUrl: clusterType}, fullDeltaRequest(), big}
	got := make(chan *discoveryv3.DeltaDiscoveryRequest, len(requests))
	conn := serve(t, func(s grpc.ServerStream) error {
		for {
			r := new(DeltaRequest)
			if err := s.RecvMsg(r); err != nil {
				return err
			}
			got <- r.generated(t)
			r.Release()
			r.Release() // the second time does nothing
		}
	})
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, deltaMethod)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range requests {
		if err := stream.SendMsg(want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, <-got, protocmp.Transform()); diff != "" {
			t.Fatal(diff)
		}
	}
	if err := stream.SendMsg(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: "\x12"}); err != nil {
		t.Fatal(err)
	}
	<-got
}

// What cannot be decoded ends the stream as it does with the generated types.
func TestRequestsEndToEnd_undecodable(t *testing.T) {
	conn := serve(t, func(s grpc.ServerStream) error { return s.RecvMsg(new(StateRequest)) }, withCodec())
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, deltaMethod)
	if err != nil {
		t.Fatal(err)
	}
	b := []byte("\x22\x01\xff")
	if err := stream.SendMsg(&Message{gather: mem.BufferSlice{mem.SliceBuffer(b)}, size: len(b)}); err != nil {
		t.Fatal(err)
	}
	err = stream.RecvMsg(new(Response))
	if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "wire: cannot decode type_url: invalid UTF-8") {
		t.Errorf("err = %v", err)
	}
}

// BenchmarkDecodeRequest is a client that comes back, and one that acknowledges.
func BenchmarkDecodeRequest(b *testing.B) {
	p := &discoveryv3.DeltaDiscoveryRequest{
		Node: &corev3.Node{Id: "node", Cluster: "bench"}, TypeUrl: clusterType, ResponseNonce: "12",
	}
	ack := encoded.Bytes(p)
	p.InitialResourceVersions = map[string]string{}
	for i := range 1000 {
		p.InitialResourceVersions["cluster-"+strconv.Itoa(i)] = "0123456789abcdef"
	}
	for name, in := range map[string][]byte{"ack": ack, "versions=1000": encoded.Bytes(p)} {
		for by, decode := range map[string]func() error{
			"wire":  func() error { return new(DeltaRequest).Decode(in) },
			"proto": func() error { return proto.Unmarshal(in, new(discoveryv3.DeltaDiscoveryRequest)) },
		} {
			b.Run(name+"/"+by, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := decode(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func TestRequestPool(t *testing.T) {
	var p requestPool
	for _, size := range []int{0, 1, 1<<14 - 1, 1 << 14, 1<<14 + 1, 1 << 20, 1<<20 + 1} {
		b := p.Get(size)
		if len(*b) != size || (size <= 1<<20 && cap(*b) > max(1<<14, 2*size)) {
			t.Errorf("%d bytes of %d for %d", len(*b), cap(*b), size)
		}
		p.Put(b)
		if again := p.Get(size); len(*again) != size {
			t.Errorf("%d bytes for %d", len(*again), size)
		}
	}
	odd := make([]byte, 20_000)
	p.Put(&odd) // not one of its own
	if b := p.Get(20_001); len(*b) != 20_001 {
		t.Errorf("%d bytes", len(*b))
	}
}
