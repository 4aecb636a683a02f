package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
)

func anyOf(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// stateOfTheWorld has every field set, and resources of both forms.
func stateOfTheWorld(t testing.TB) *discoveryv3.DiscoveryResponse {
	t.Helper()
	return &discoveryv3.DiscoveryResponse{
		VersionInfo: "v7",
		Resources: []*anypb.Any{
			anyOf(t, &clusterv3.Cluster{Name: "bare", AltStatName: "x"}),
			anyOf(t, fullResource()),
			anyOf(t, &discoveryv3.Resource{Name: "beating", Version: "3", Ttl: durationpb.New(time.Minute)}),
			anyOf(t, &discoveryv3.Resource{Resource: anyOf(t, &clusterv3.Cluster{Name: "inside"})}),
		},
		Canary:       true,
		TypeUrl:      clusterType,
		Nonce:        "42",
		ControlPlane: &corev3.ControlPlane{Identifier: "cp"},
		ResourceErrors: []*discoveryv3.ResourceError{{
			ResourceName: &discoveryv3.ResourceName{Name: "bad"},
			ErrorDetail:  &statuspb.Status{Code: int32(codes.NotFound), Message: "no such thing"},
		}},
	}
}

func TestRES13StateResponse(t *testing.T) {
	p := stateOfTheWorld(t)
	r := Response{State: true, Nonce: "of an earlier one", Complete: true}
	if err := r.Decode(encoded.Bytes(p)); err != nil {
		t.Fatal(err)
	}
	if r.TypeURL != p.TypeUrl || r.Nonce != "42" || r.Version != "v7" || r.ControlPlane != "cp" || r.Complete || len(r.Resources) != 4 {
		t.Fatalf("got %+v", r)
	}
	if len(r.Errors) != 1 || r.Errors[0].Name != "bad" || r.Errors[0].Code != codes.NotFound {
		t.Errorf("Errors = %+v", r.Errors)
	}
	want := []*discoveryv3.Resource{
		{Name: "bare", Resource: p.Resources[0]},
		fullResource(),
		{Name: "beating", Version: "3"},
		{Name: "inside", Resource: anyOf(t, &clusterv3.Cluster{Name: "inside"})},
	}
	for i, res := range r.Resources {
		var got discoveryv3.Resource
		if err := proto.Unmarshal(res.Raw(), &got); err != nil {
			t.Fatal(err)
		}
		equal(t, passed(want[i]), &got)
		if res.Name != want[i].Name || res.Version != want[i].Version {
			t.Errorf("%q@%q, want %q@%q", res.Name, res.Version, want[i].Name, want[i].Version)
		}
	}
	if bare := r.Resources[0]; !bytes.Equal(bare.Any(), encoded.Bytes(p.Resources[0])) || bare.Digest() == "" || bare.HasTTL {
		t.Errorf("VAR-8 the payload is %x", bare.Any())
	}
	if bare := r.Resources[0]; !lies(bare.Name, bare.framed) || !lies(bare.TypeURL(), bare.framed) {
		t.Error("a resource has strings of its own")
	}
	beat := r.Resources[2]
	if beat.HasPayload() || !beat.HasTTL || beat.TTL() != time.Minute {
		t.Errorf("TTL-3 the heartbeat is %+v", beat)
	}
}

// A resource is stored alike, whichever variant brought it.
func TestVAR7BareResourceIsStoredAsTheIncrementalOne(t *testing.T) {
	payload := anyOf(t, &clusterv3.Cluster{Name: "a"})
	r := Response{State: true}
	if err := r.Decode(encoded.Bytes(&discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{payload}})); err != nil {
		t.Fatal(err)
	}
	same := newResource(t, &discoveryv3.Resource{Name: "a", Resource: payload})
	if !r.Resources[0].SameContent(same) {
		t.Errorf("stored as %x, want %x", r.Resources[0].Raw(), same.Raw())
	}
}

// Sources that do not speak gRPC get the same resources, and the same refusals.
func TestRES13_NewStateResource(t *testing.T) {
	for _, packed := range stateOfTheWorld(t).Resources {
		r, err := NewStateResource(packed)
		if err != nil {
			t.Fatal(err)
		}
		checkState(t, packed, r)
	}
	for _, tt := range []struct {
		name, want string
		packed     *anypb.Any
	}{
		{"nothing", "wire: cannot decode value: a payload without a type", nil},
		{"half a payload", "wire: cannot decode value: unexpected EOF", &anypb.Any{TypeUrl: clusterType, Value: []byte{10}}},
		{"a broken wrapper", "wire: cannot decode value: unexpected EOF", &anypb.Any{TypeUrl: ResourceTypeURL, Value: []byte{0x80}}},
		{"an empty wrapper", "wire: cannot decode value: neither a name nor a payload nor a ttl", &anypb.Any{TypeUrl: ResourceTypeURL}},
		{"a name that is no text", "wire: cannot decode value.name: invalid UTF-8", &anypb.Any{TypeUrl: clusterType, Value: []byte{10, 1, 0xff}}},
		{"a type that is no text", "wire: cannot decode type_url: ", &anypb.Any{TypeUrl: "\xff", Value: []byte{10, 1, 'a'}}},
	} {
		t.Run("ACK-6 "+tt.name, func(t *testing.T) {
			r, err := NewStateResource(tt.packed)
			if _, ok := errors.AsType[*DecodeError](err); !ok || r != nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%v, %v, want %s", r, err, tt.want)
			}
		})
	}
}

func TestStateResponseNames(t *testing.T) {
	str := func(num protowire.Number, s string) string {
		return string(protowire.AppendString(protowire.AppendTag(nil, num, protowire.BytesType), s))
	}
	for name, c := range map[string]struct{ value, want string }{
		"first":                           {str(1, "n") + str(2, "x"), "n"},
		"last field":                      {str(2, "x") + str(1, "n"), "n"},
		"of two the last":                 {str(1, "a") + str(1, "b"), "b"},
		"field 1 of another type aside":   {"\x08\x05" + str(1, "n") + "\x08\x06", "n"},
		"a group that holds one like it":  {str(1, "n") + "\x13" + str(1, "g") + "\x14", "n"},
		"a fixed field with a large tag":  {"\xfd\x7f\x01\x02\x03\x04" + str(1, "n"), "n"},
		"not the one of a nested message": {str(2, str(1, "inner")) + str(1, "n"), "n"},
		"NAME-9 none":                     {str(2, "x"), ""},
		"NAME-9 the empty one":            {str(1, "") + str(2, "x"), ""},
		"NAME-9 field 1 of another type":  {"\x08\x05", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := Response{State: true}
			in := encoded.Bytes(&discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{{TypeUrl: clusterType, Value: []byte(c.value)}}})
			if err := r.Decode(in); err != nil {
				t.Fatal(err)
			}
			if got := r.Resources[0].Name; got != c.want {
				t.Errorf("name %q, want %q", got, c.want)
			}
		})
	}
}

func TestACK6_undecodableStateResponse(t *testing.T) {
	const (
		tail    = "\x22\x01T" + "\x2a\x017" // type URL, nonce
		wrapped = "\x0a\x37" + ResourceTypeURL
	)
	bare := func(value string) string {
		packed := string(encoded.Bytes(&anypb.Any{TypeUrl: clusterType, Value: []byte(value)}))
		return string(protowire.AppendString([]byte{0x12}, packed)) + tail
	}
	wrap := func(value string) string {
		holder := wrapped + string(protowire.AppendString([]byte{0x12}, value))
		return string(protowire.AppendString([]byte{0x12}, holder)) + tail
	}
	if len(ResourceTypeURL) != 0x37 {
		t.Fatalf("the type has %d bytes", len(ResourceTypeURL))
	}
	for name, c := range map[string]struct {
		in    string
		field string
		is    error
		text  string
	}{
		"truncated resource":         {"\x12\x05\x1a", "", io.ErrUnexpectedEOF, ""},
		"truncated Any":              {"\x12\x02\x0a\x05" + tail, "resources[0]", io.ErrUnexpectedEOF, ""},
		"type of the Any":            {"\x12\x03\x0a\x01\xff" + tail, "resources[0].type_url", ErrInvalidUTF8, ""},
		"empty Any":                  {"\x12\x00" + tail, "resources[0].value", errNoType, "resources[0].value: a payload without a type"},
		"payload without a type":     {"\x12\x03\x12\x01x" + tail, "resources[0].value", errNoType, ""},
		"name of the second":         {strings.TrimSuffix(bare("\x0a\x01a"), tail) + bare("\x0a\x01\xff"), "resources[1].value.name", ErrInvalidUTF8, ""},
		"broken behind the name":     {bare("\x0a\x01a\x12\x05"), "resources[0].value", io.ErrUnexpectedEOF, ""},
		"wrapped, broken":            {wrap("\x1a"), "resources[0].value", io.ErrUnexpectedEOF, ""},
		"wrapped, version":           {wrap("\x0a\x01\xff"), "resources[0].value.version", ErrInvalidUTF8, ""},
		"wrapped, nothing":           {wrap(""), "resources[0].value", errEmptyShell, ""},
		"wrapped, typeless payload":  {wrap("\x12\x02\x12\x00"), "resources[0].value.resource.value", errNoType, ""},
		"wrapped, payload's type":    {wrap("\x1a\x01a\x12\x03\x0a\x01\xff"), "resources[0].value.resource.type_url", ErrInvalidUTF8, ""},
		"version_info":               {"\x0a\x01\xff" + tail, "version_info", ErrInvalidUTF8, ""},
		"resource error":             {"\x3a\x01\x0a" + tail, "resource_errors[0]", nil, ""},
		"field number 0":             {tail + "\x00\x00", "", nil, ""},
		"of two mistakes, the first": {bare("\x0a") + "\x0a\x01\xff", "resources[0].value", io.ErrUnexpectedEOF, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := Response{State: true}
			err := r.Decode([]byte(c.in))
			var d *DecodeError
			if !errors.As(err, &d) {
				t.Fatalf("error %v", err)
			}
			if d.Field != c.field || (c.is != nil && !errors.Is(err, c.is)) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("error %q in field %q, want %q and %q", err, d.Field, c.text, c.field)
			}
			if strings.Contains(c.in, tail) && (r.TypeURL != "T" || r.Nonce != "7") || len(r.Resources) != 0 {
				t.Errorf("left: %+v", r)
			}
		})
	}
}

func TestReceivedState(t *testing.T) {
	in := encoded.Bytes(stateOfTheWorld(t))
	r := Received{Response: Response{State: true}}
	if err := Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(in)}, &r); err != nil || r.Err != nil {
		t.Fatal(err, r.Err)
	}
	if r.Size != len(in) || len(r.Resources) != 4 {
		t.Errorf("size %d of %d, %d resources", r.Size, len(in), len(r.Resources))
	}
	bad := mem.BufferSlice{mem.SliceBuffer("\x12\x00\x22\x01T\x2a\x017")}
	if err := Codec().Unmarshal(bad, &r); err != nil || r.Err == nil || r.Nonce != "7" || len(r.Resources) != 0 {
		t.Errorf("error %v, received %+v", err, r)
	}
	if err := Codec().Unmarshal(bad, &Response{State: true}); err == nil {
		t.Error("a broken response is no error of the stream")
	}
}

func TestStateResponseAllocs(t *testing.T) {
	const n = 100
	p := &discoveryv3.DiscoveryResponse{TypeUrl: clusterType, VersionInfo: "1", Nonce: "1"}
	for i := range n {
		p.Resources = append(p.Resources, anyOf(t, &clusterv3.Cluster{Name: "cluster-" + strings.Repeat("x", i)}))
	}
	in := encoded.Bytes(p)
	r := Response{State: true}
	got := testing.AllocsPerRun(100, func() {
		if err := r.Decode(in); err != nil {
			t.Fatal(err)
		}
	})
	// The Resource and its bytes; beside them what the response needs once.
	if want := 2.0*n + 20; got > want {
		t.Errorf("%v allocations for %d resources, want at most %v", got, n, want)
	}
}

// FuzzStateResponse holds Decode to what the package comment says: it refuses
// what proto.Unmarshal refuses of what it passes on, and where it accepts, the
// payloads are the server's.
func FuzzStateResponse(f *testing.F) {
	f.Add(encoded.Bytes(stateOfTheWorld(f)))
	f.Add([]byte("\x12\x05\x12\x03\x0a\x01a\x22\x01T\x2a\x017"))
	f.Add([]byte("\x12\x09\x12\x03\x0a\x01a\x12\x02\x0a\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var want discoveryv3.DiscoveryResponse
		unmarshalErr := proto.Unmarshal(in, &want)
		r := Response{State: true}
		buf := bytes.Clone(in) // the fuzzer's own must not be changed
		if err := r.Decode(buf); err != nil {
			return
		}
		clear(buf) // whatever was kept of it shows now
		if unmarshalErr != nil {
			return // control_plane, which no response is refused for, was broken
		}
		if r.TypeURL != want.TypeUrl || r.Nonce != want.Nonce || r.Version != want.VersionInfo ||
			len(r.Resources) != len(want.Resources) || len(r.Errors) != len(want.ResourceErrors) {
			t.Fatalf("got %+v\nof %v", r, &want)
		}
		for i, res := range r.Resources {
			checkState(t, want.Resources[i], res)
		}
	})
}

// checkState compares a resource with the Any that it came in.
func checkState(t *testing.T, p *anypb.Any, r *Resource) {
	t.Helper()
	var wrapped discoveryv3.Resource
	if p.TypeUrl == ResourceTypeURL {
		if err := proto.Unmarshal(p.Value, &wrapped); err != nil {
			t.Fatalf("a wrapped resource that cannot be decoded was accepted: %v", err)
		}
		if wrapped.Name == "" && wrapped.ResourceName.GetName() == "" {
			wrapped.Name = r.Name // out of the payload
		}
		checkFields(t, &wrapped, r)
		return
	}
	var got anypb.Any
	if err := proto.Unmarshal(r.Any(), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.Value, got.Value); diff != "" || got.TypeUrl != p.TypeUrl || r.Name == "" {
		t.Errorf("%q of type %q: %s", r.Name, got.TypeUrl, diff)
	}
}

func TestStreamID(t *testing.T) {
	for want, id := range map[string]StreamID{"ads": {}, "ads#2": {Second: true}, "T": {TypeURL: "T"}, "T#2": {"T", true}} {
		if got := id.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
