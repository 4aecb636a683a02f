package wire

import (
	"errors"
	"io"
	"strings"
	"testing"
	"unsafe"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
)

// fullResponse has every field set.
func fullResponse() *discoveryv3.DeltaDiscoveryResponse {
	return &discoveryv3.DeltaDiscoveryResponse{
		SystemVersionInfo: "sys",
		Resources: []*discoveryv3.Resource{
			fullResource(),
			{Name: "cluster-2", Version: "v2", Resource: payload(1000)},
			{Name: "cluster-3", Resource: payload(3)},
		},
		TypeUrl:              clusterType,
		RemovedResources:     []string{"gone-1", "gone-2"},
		RemovedResourceNames: []*discoveryv3.ResourceName{{Name: "gone-3"}},
		Nonce:                "42",
		ControlPlane:         &corev3.ControlPlane{Identifier: "cp"},
		ResourceErrors: []*discoveryv3.ResourceError{{
			ResourceName: &discoveryv3.ResourceName{Name: "bad"},
			ErrorDetail:  &statuspb.Status{Code: int32(codes.NotFound), Message: "no such thing"},
		}},
	}
}

func TestDecode(t *testing.T) {
	p := fullResponse()
	r := Response{Nonce: "of an earlier one", Removed: []string{"x"}}
	if err := r.Decode(encoded.Bytes(p)); err != nil {
		t.Fatal(err)
	}
	if r.TypeURL != p.TypeUrl || r.Nonce != p.Nonce || r.Version != p.SystemVersionInfo || r.ControlPlane != "cp" {
		t.Errorf("got %+v", r)
	}
	if diff := cmp.Diff([]string{"gone-1", "gone-2", "gone-3"}, r.Removed); diff != "" {
		t.Error(diff)
	}
	if len(r.Errors) != 1 || r.Errors[0].Name != "bad" || r.Errors[0].Code != codes.NotFound || r.Errors[0].Message != "no such thing" {
		t.Errorf("Errors = %+v", r.Errors)
	}
	if len(r.Resources) != len(p.Resources) {
		t.Fatalf("%d resources", len(r.Resources))
	}
	for i, res := range r.Resources {
		var got discoveryv3.Resource
		if err := proto.Unmarshal(res.Raw(), &got); err != nil {
			t.Fatal(err)
		}
		equal(t, passed(p.Resources[i]), &got)
		for _, s := range []string{res.Name, res.Version, res.TypeURL()} {
			if s != "" && !lies(s, res.framed) {
				t.Errorf("resource %d has a string of its own for %q", i, s)
			}
		}
	}
}

// lies reports whether a string is part of some bytes, and no copy.
func lies(s string, within []byte) bool {
	from := uintptr(unsafe.Pointer(unsafe.StringData(s)))
	start := uintptr(unsafe.Pointer(unsafe.SliceData(within)))
	return from >= start && from+uintptr(len(s)) <= start+uintptr(len(within))
}

func TestDecodeKeepsNothingOfTheInput(t *testing.T) {
	in := encoded.Bytes(fullResponse())
	var want, got Response
	if err := want.Decode(append([]byte(nil), in...)); err != nil {
		t.Fatal(err)
	}
	if err := got.Decode(in); err != nil {
		t.Fatal(err)
	}
	for i := range in {
		in[i] = 0xff
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Resource{}, ResourceError{}, rare{})); diff != "" {
		t.Error(diff)
	}
}

func TestACK6_undecodableEnvelope(t *testing.T) {
	const tail = "\x22\x01T" + "\x2a\x017" // type URL, nonce
	for name, c := range map[string]struct {
		in    string
		field string
		is    error
	}{
		"truncated resource":     {"\x12\x05\x1a", "", io.ErrUnexpectedEOF},
		"truncated field":        {"\x12\x02\x1a\x05" + tail, "resources[0]", io.ErrUnexpectedEOF},
		"second resource":        {"\x12\x00\x12\x01\x1a" + tail, "resources[1]", io.ErrUnexpectedEOF},
		"name":                   {"\x12\x03\x1a\x01\xff" + tail, "resources[0].name", ErrInvalidUTF8},
		"version":                {"\x12\x03\x0a\x01\xff" + tail, "resources[0].version", ErrInvalidUTF8},
		"alias":                  {"\x12\x03\x22\x01\xff" + tail, "resources[0].aliases", ErrInvalidUTF8},
		"payload's type":         {"\x12\x05\x12\x03\x0a\x01\xff" + tail, "resources[0].resource.type_url", ErrInvalidUTF8},
		"payload":                {"\x12\x03\x12\x01\x0a" + tail, "resources[0].resource", io.ErrUnexpectedEOF},
		"ttl":                    {"\x12\x03\x32\x01\x08" + tail, "resources[0].ttl", io.ErrUnexpectedEOF},
		"cache_control":          {"\x12\x03\x3a\x01\x08" + tail, "resources[0].cache_control", io.ErrUnexpectedEOF},
		"resource_name's name":   {"\x12\x05\x42\x03\x0a\x01\xff" + tail, "resources[0].resource_name.name", ErrInvalidUTF8},
		"constraints":            {"\x12\x05\x42\x03\x12\x01\x0a" + tail, "resources[0].resource_name", nil},
		"metadata":               {"\x12\x03\x4a\x01\x0a" + tail, "resources[0].metadata", nil},
		"removed":                {"\x32\x01\xff" + tail, "removed_resources", ErrInvalidUTF8},
		"removed name":           {"\x42\x03\x0a\x01\xff" + tail, "removed_resource_names.name", ErrInvalidUTF8},
		"resource error":         {"\x4a\x01\x0a" + tail, "resource_errors[0]", nil},
		"system version":         {"\x0a\x01\xff" + tail, "system_version_info", ErrInvalidUTF8},
		"field number 0":         {tail + "\x00\x00", "", nil},
		"field number too large": {tail + "\x80\x80\x80\x80\x10\x00", "", errFieldNumber},
		"end of no group":        {tail + "\x0c", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if proto.Unmarshal([]byte(c.in), new(discoveryv3.DeltaDiscoveryResponse)) == nil {
				t.Fatal("clients would accept this")
			}
			var r Response
			err := r.Decode([]byte(c.in))
			de, ok := errors.AsType[*DecodeError](err)
			if !ok {
				t.Fatalf("err = %v", err)
			}
			if de.Field != c.field {
				t.Errorf("Field = %q, want %q", de.Field, c.field)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("err = %v, want %v", err, c.is)
			}
			if r.Resources != nil || r.Removed != nil || r.Errors != nil {
				t.Errorf("something is left: %+v", r)
			}
			if strings.Contains(c.in, tail) && (r.TypeURL != "T" || r.Nonce != "7") {
				t.Errorf("no telling what to refuse: %+v", r)
			}
		})
	}
}

func TestACK6_duplicatesAreTheReceiversBusiness(t *testing.T) {
	var r Response
	if err := r.Decode([]byte("\x12\x03\x1a\x01n\x12\x03\x1a\x01n")); err != nil {
		t.Fatal(err)
	}
	if len(r.Resources) != 2 {
		t.Errorf("%d resources, want both", len(r.Resources))
	}
}

func TestDecodeSkipsWhatIsNotPassedOn(t *testing.T) {
	// A broken control_plane, and fields that nobody knows.
	var r Response
	if err := r.Decode([]byte("\x3a\x01\x0a" + "\x18\x01" + "\x9b\x06\x9c\x06" + "\x2a\x017")); err != nil {
		t.Fatal(err)
	}
	if r.Nonce != "7" {
		t.Errorf("got %+v", r)
	}
}

func TestDecodeErrorText(t *testing.T) {
	var r Response
	err := r.Decode([]byte("\x12\x03\x1a\x01\xff"))
	if want := "wire: cannot decode resources[0].name: invalid UTF-8"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestDecodeAllocations(t *testing.T) {
	const n = 100
	p := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: clusterType, Nonce: "1"}
	for range n {
		p.Resources = append(p.Resources, &discoveryv3.Resource{Name: "cluster", Version: "v1", Resource: payload(1024)})
	}
	in := encoded.Bytes(p)
	var r Response
	got := testing.AllocsPerRun(100, func() {
		if err := r.Decode(in); err != nil {
			t.Fatal(err)
		}
	})
	// The Resource and its bytes; beside them what the response needs once.
	if want := 2.0*n + 13; got > want {
		t.Errorf("%v allocations for %d resources, want at most %v", got, n, want)
	}
}

// Metadata is decoded on its own, so that its limit of nesting has to be
// counted from where it stands: what a client would find too deep is refused
// here already, and nothing else.
func TestDecodeNestingLimit(t *testing.T) {
	wrap := func(num protowire.Number, b []byte) []byte {
		return append(appendBytesTag(nil, num, len(b)), b...)
	}
	refused := 0
	var value []byte
	for depth := range protowire.DefaultRecursionLimit/2 + 2 {
		value = wrap(6, wrap(1, value)) // a Value of a ListValue of a Value
		if depth < protowire.DefaultRecursionLimit/2-8 {
			continue
		}
		filter := wrap(2, wrap(1, append([]byte("\x0a\x01k"), wrap(2, value)...))) // Struct.fields["k"]
		in := wrap(2, wrap(9, wrap(1, append([]byte("\x0a\x01f"), filter...))))
		want := proto.Unmarshal(in, new(discoveryv3.DeltaDiscoveryResponse))
		err := new(Response).Decode(in)
		if (err == nil) != (want == nil) {
			t.Errorf("depth %d: Decode says %v, proto.Unmarshal %v", depth, err, want)
		}
		if err != nil {
			refused++
		}
	}
	if refused == 0 || refused > 8 {
		t.Errorf("%d depths refused: the limit was not crossed", refused)
	}
}
