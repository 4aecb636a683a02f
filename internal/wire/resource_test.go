package wire

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
)

// fullResource has every field set.
func fullResource() *discoveryv3.Resource {
	return &discoveryv3.Resource{
		Name: "cluster-1",
		ResourceName: &discoveryv3.ResourceName{
			Name: "cluster-1",
			DynamicParameterConstraints: &discoveryv3.DynamicParameterConstraints{
				Type: &discoveryv3.DynamicParameterConstraints_Constraint{
					Constraint: &discoveryv3.DynamicParameterConstraints_SingleConstraint{
						Key:            "env",
						ConstraintType: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Value{Value: "prod"},
					},
				},
			},
		},
		Aliases:      []string{"a/1", "b/1"},
		Version:      "v1",
		Resource:     payload(300),
		Ttl:          durationpb.New(90 * time.Second),
		CacheControl: &discoveryv3.Resource_CacheControl{DoNotCache: true},
		Metadata: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
			"trace": {Fields: map[string]*structpb.Value{"id": structpb.NewStringValue("7")}},
		}},
	}
}

// A resource that loses aliases has everything else as it was, but its ttl.
func TestResourceWithoutAliases_ACC3(t *testing.T) {
	r, err := NewResource(fullResource())
	if err != nil {
		t.Fatal(err)
	}
	if all := r.Without(nil); all != r {
		t.Error("a resource that keeps all aliases is copied")
	}
	fewer := r.Without([]string{"a/1"})
	got, want := new(discoveryv3.Resource), fullResource()
	if err := proto.Unmarshal(fewer.Raw(), got); err != nil {
		t.Fatal(err)
	}
	want.Aliases, want.Ttl = []string{"b/1"}, nil
	if !proto.Equal(got, want) || !slices.Equal(fewer.Aliases(), want.GetAliases()) || !fewer.DoNotCache {
		t.Errorf("it is %v", got)
	}
	if !r.AsRestored().Without(r.Aliases()).Restored() {
		t.Error("SUR-1: it counts as confirmed")
	}
	none := r.Without(r.Aliases())
	if none.Aliases() != nil || none.Name != r.Name || none.Version != r.Version || none.Constrained() != r.Constrained() || !bytes.Equal(none.Any(), r.Any()) {
		t.Errorf("without aliases it is %v", none.Shown())
	}
}

func TestResourceFields(t *testing.T) {
	r := newResource(t, fullResource())
	if r.Name != "cluster-1" || r.Version != "v1" || r.TypeURL() != clusterType ||
		!r.HasTTL || r.TTL() != 90*time.Second || !r.DoNotCache || !r.HasPayload() {
		t.Errorf("got %+v", r)
	}
	if diff := cmp.Diff([]string{"a/1", "b/1"}, r.Aliases()); diff != "" {
		t.Error(diff)
	}
	var got discoveryv3.Resource
	if err := proto.Unmarshal(r.Raw(), &got); err != nil {
		t.Fatal(err)
	}
	equal(t, passed(fullResource()), &got)
	if r.Size() != protowire.SizeBytes(len(r.Raw()))+1 {
		t.Errorf("Size = %d for %d bytes", r.Size(), len(r.Raw()))
	}
	if !bytes.HasSuffix(r.Raw(), r.FramedAny()) || !bytes.HasSuffix(r.FramedAny(), r.Any()) {
		t.Error("the payload is not the tail of the stored bytes")
	}
}

func TestResourceStoredForm(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		// Literals are protobuf text in Go syntax: tag, length, content.
		"name first, payload last": {
			"\x0a\x01v" + "\x12\x03\x0a\x01T" + "\x1a\x01n" + "\x22\x01a",
			"\x12\x0e" + "\x1a\x01n" + "\x0a\x01v" + "\x22\x01a" + "\x12\x03\x0a\x01T",
		},
		"ttl taken out": {
			"\x0a\x01v" + "\x1a\x01n" + "\x32\x02\x08\x05",
			"\x12\x06" + "\x1a\x01n" + "\x0a\x01v",
		},
		"resource_name behind the name, its own name first": {
			"\x0a\x01v" + "\x42\x08\x12\x00\x0a\x01n\xf8\x01\x01" + "\x1a\x01n",
			"\x12\x10" + "\x1a\x01n" + "\x42\x08\x0a\x01n\x12\x00\xf8\x01\x01" + "\x0a\x01v",
		},
		"two payloads are one, merged": {
			"\x12\x03\x0a\x01T" + "\x0a\x01v" + "\x12\x03\x12\x01x",
			"\x12\x0b" + "\x0a\x01v" + "\x12\x06\x0a\x01T\x12\x01x",
		},
		"empty payload is a payload": {
			"\x1a\x01n" + "\x0a\x01v" + "\x12\x00",
			"\x12\x08" + "\x1a\x01n" + "\x0a\x01v" + "\x12\x00",
		},
		"wrong wire type is an unknown field": {
			"\x18\x05" + "\x1a\x01n" + "\x10\x01",
			"\x12\x07" + "\x1a\x01n" + "\x18\x05" + "\x10\x01",
		},
		"empty": {"", "\x12\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			r := cutOne(t, []byte(c.in))
			if got := string(r.framed); got != c.want {
				t.Errorf("got  %x\nwant %x", got, c.want)
			}
			if cap(r.framed) != len(r.framed) {
				t.Errorf("%d bytes allocated for %d", cap(r.framed), len(r.framed))
			}
		})
	}
}

func TestVAR8_payloadByteExact(t *testing.T) {
	// An encoding that no generated type would produce: the value before the
	// type URL, long varints, an unknown field, a type that nobody knows.
	anyBytes := []byte("\x12\x82\x00hi" + "\x0a\x0bexample/New" + "\x9a\x06\x01z")
	encoded := append([]byte{0x12, byte(len(anyBytes))}, anyBytes...)
	encoded = append(encoded, "\x1a\x01n\x0a\x01v"...)
	r := cutOne(t, encoded)
	if !bytes.Equal(r.Any(), anyBytes) {
		t.Errorf("got  %x\nwant %x", r.Any(), anyBytes)
	}
	if r.TypeURL() != "example/New" {
		t.Errorf("TypeURL = %q", r.TypeURL())
	}
	var b Builder
	b.Add(r)
	if m := b.Finish("example/New", "", "1"); !bytes.Contains(m.Bytes(), anyBytes) {
		t.Errorf("the payload was changed: %x", m.Bytes())
	}
}

func TestVAR8_unknownFieldsSurvive(t *testing.T) {
	unknown := []byte("\x52\x03new" + "\x58\x07" + "\x63\x08\x01\x64") // bytes, varint, group
	encoded := append(append([]byte("\x0a\x01v"), unknown...), "\x1a\x01n\x12\x03\x0a\x01T"...)
	r := cutOne(t, encoded)
	var b Builder
	b.AddAs(r, "other")
	got := parse(t, b.Finish("T", "", "1")).Resources[0]
	if diff := cmp.Diff(unknown, []byte(got.ProtoReflect().GetUnknown())); diff != "" {
		t.Error(diff)
	}
}

func TestRES16_noPayload(t *testing.T) {
	r := newResource(t, &discoveryv3.Resource{Name: "n", Version: "v1", Ttl: durationpb.New(time.Second)})
	if r.HasPayload() || r.Any() != nil || r.FramedAny() != nil || r.TypeURL() != "" || r.Digest() != "" {
		t.Errorf("a heartbeat has a payload: %+v", r)
	}
	if !r.HasTTL || r.TTL() != time.Second || r.Version != "v1" {
		t.Errorf("got %+v", r)
	}
	var b Builder
	b.Add(r)
	equal(t, &discoveryv3.Resource{Name: "n", Version: "v1"}, parse(t, b.Finish("T", "", "1")).Resources[0])

	empty := newResource(t, &discoveryv3.Resource{Name: "n", Resource: &anypb.Any{}})
	if !empty.HasPayload() || empty.Any() == nil || len(empty.Any()) != 0 {
		t.Errorf("an empty Any is a payload: %+v", empty)
	}
}

func TestACK4_digestWhereThereIsNoVersion(t *testing.T) {
	p := &discoveryv3.Resource{Name: "n", Resource: payload(300)}
	r := newResource(t, p)
	if r.Version != "" {
		t.Errorf("Version = %q, but the server gave none", r.Version)
	}
	if len(r.Digest()) != 2*digestLen || strings.Trim(r.Digest(), "0123456789abcdef") != "" {
		t.Errorf("Digest = %q", r.Digest())
	}

	t.Run("clients see it", func(t *testing.T) {
		var b Builder
		b.Add(r)
		if got := parse(t, b.Finish(clusterType, "", "1")).Resources[0].Version; got != r.Digest() {
			t.Errorf("version %q, want %q", got, r.Digest())
		}
	})
	t.Run("it overrules an explicit empty version", func(t *testing.T) {
		o := cutOne(t, append(encoded.Bytes(p), "\x0a\x01v\x0a\x00"...))
		var got discoveryv3.Resource
		if err := proto.Unmarshal(o.Raw(), &got); err != nil {
			t.Fatal(err)
		}
		if o.Version != "" || got.Version != r.Digest() {
			t.Errorf("Version = %q, stored %q", o.Version, got.Version)
		}
	})
	t.Run("it depends on the payload only", func(t *testing.T) {
		same := newResource(t, &discoveryv3.Resource{Name: "m", Version: "v9", Aliases: []string{"a"}, Resource: payload(300)})
		if same.Digest() != r.Digest() {
			t.Errorf("%q and %q for the same payload", same.Digest(), r.Digest())
		}
		other := newResource(t, &discoveryv3.Resource{Name: "n", Resource: payload(301)})
		if other.Digest() == r.Digest() {
			t.Error("the same for another payload")
		}
	})
	t.Run("a version of the server's is passed through", func(t *testing.T) {
		v := newResource(t, &discoveryv3.Resource{Name: "n", Version: "7", Resource: payload(3)})
		if bytes.Contains(v.Raw(), []byte(v.Digest())) {
			t.Error("the digest is in the stored bytes")
		}
	})
}

func TestSameContent(t *testing.T) {
	base := newResource(t, fullResource())
	for name, c := range map[string]struct {
		change func(*discoveryv3.Resource)
		want   bool
	}{
		"nothing": {func(*discoveryv3.Resource) {}, true},
		"ttl":     {func(p *discoveryv3.Resource) { p.Ttl = durationpb.New(time.Hour) }, true},
		"no ttl":  {func(p *discoveryv3.Resource) { p.Ttl = nil }, true},
		"version": {func(p *discoveryv3.Resource) { p.Version = "v2" }, false},
		"payload": {func(p *discoveryv3.Resource) { p.Resource.Value[0]++ }, false},
		"alias":   {func(p *discoveryv3.Resource) { p.Aliases[0] = "c" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := fullResource()
			c.change(p)
			if got := base.SameContent(newResource(t, p)); got != c.want {
				t.Errorf("SameContent = %v, want %v", got, c.want)
			}
		})
	}
}

func TestResourceNameInItsNewerForm(t *testing.T) {
	r := newResource(t, &discoveryv3.Resource{ResourceName: &discoveryv3.ResourceName{Name: "n"}, Version: "v"})
	if r.Name != "n" {
		t.Errorf("Name = %q", r.Name)
	}
	r = newResource(t, &discoveryv3.Resource{Name: "old", ResourceName: &discoveryv3.ResourceName{Name: "new"}})
	if r.Name != "old" {
		t.Errorf("Name = %q", r.Name)
	}
}

func TestNewResourceRefusesInvalidUTF8(t *testing.T) {
	if _, err := NewResource(&discoveryv3.Resource{Name: "\xff"}); err == nil {
		t.Error("no error")
	}
}
