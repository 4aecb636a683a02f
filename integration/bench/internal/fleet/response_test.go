package fleet

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// journal writes down what a decoder says.
type journal struct {
	said []string
	err  error // what it answers
}

func (j *journal) resource(name, version, payload []byte) error {
	var a anypb.Any
	if err := proto.Unmarshal(payload, &a); err != nil {
		return err
	}
	if name == nil && version == nil {
		j.said = append(j.said, "payload "+string(a.GetValue()))
	} else {
		j.said = append(j.said, fmt.Sprintf("resource %q %q %s", name, version, a.GetValue()))
	}
	return j.err
}

func (j *journal) removed(name []byte) error {
	j.said = append(j.said, "removed "+string(name))
	return j.err
}

func (j *journal) whole(r *response) {
	j.said = append(j.said, fmt.Sprintf("whole %s %s %s", r.version, r.typeURL, r.nonce))
}

// framed encodes messages as a gRPC stream has them.
func framed(t *testing.T, messages ...proto.Message) []byte {
	t.Helper()
	var b []byte
	for _, m := range messages {
		encoded, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		b = binary.BigEndian.AppendUint32(append(b, 0), uint32(len(encoded)))
		b = append(b, encoded...)
	}
	return b
}

// However the bytes of a stream are divided, they say the same.
func TestDecoderReadsWhatComesInParts(t *testing.T) {
	payload := func(s string) *anypb.Any { return &anypb.Any{TypeUrl: "type", Value: []byte(s)} }
	for form, c := range map[string]struct {
		state  bool
		stream []byte
		want   []string
	}{
		"incremental": {stream: framed(t,
			&discoveryv3.DeltaDiscoveryResponse{
				SystemVersionInfo: "v1", TypeUrl: "type", Nonce: "1",
				Resources: []*discoveryv3.Resource{
					{Name: "a", Version: "1", Resource: payload(strings.Repeat("x", 300))},
					{Name: "b", Aliases: []string{"c"}, Ttl: durationpb.New(1e9), Resource: payload("y")},
				},
				RemovedResources: []string{"d", "e"},
			},
			&discoveryv3.DeltaDiscoveryResponse{},
			&discoveryv3.DeltaDiscoveryResponse{TypeUrl: "type", Nonce: "2"},
		), want: []string{
			`resource "a" "1" ` + strings.Repeat("x", 300), `resource "b" "" y`, "removed d", "removed e",
			"whole v1 type 1", "whole   ", "whole  type 2",
		}},
		"state of the world": {state: true, stream: framed(t,
			&discoveryv3.DiscoveryResponse{VersionInfo: "v1", TypeUrl: "type", Nonce: "1", Canary: true, Resources: []*anypb.Any{payload("x"), payload("y")}},
		), want: []string{"payload x", "payload y", "whole v1 type 1"}},
	} {
		for size := 1; size <= len(c.stream); size++ {
			var d decoder
			var j journal
			for rest := c.stream; len(rest) > 0; {
				n := min(size, len(rest))
				if err := d.feed(rest[:n], c.state, &j); err != nil {
					t.Fatalf("%s, in parts of %d bytes: %v", form, size, err)
				}
				rest = rest[n:]
			}
			if diff := cmp.Diff(c.want, j.said); diff != "" {
				t.Fatalf("%s, in parts of %d bytes (-want +got):\n%s", form, size, diff)
			}
		}
	}
}

func TestDecoderRefuses(t *testing.T) {
	response := framed(t, &discoveryv3.DeltaDiscoveryResponse{Resources: []*discoveryv3.Resource{{Name: "a"}}})
	cutOff := func(b []byte, n int) []byte { // a message that ends within a field
		b = append([]byte{}, b[:len(b)-n]...)
		binary.BigEndian.PutUint32(b[1:], uint32(len(b)-messageHead))
		return b
	}
	for name, c := range map[string]struct {
		stream []byte
		want   string
	}{
		"compression":                     {[]byte{1, 0, 0, 0, 1, 0}, "a compressed message"},
		"a message that ends too early":   {cutOff(response, 1), "a response that cannot be decoded"},
		"a field with number 0":           {[]byte{0, 0, 0, 0, 2, 0, 0}, "a response that cannot be decoded"},
		"a resource that ends too early":  {[]byte{0, 0, 0, 0, 4, 0x12, 2, 0x1a, 9}, "a resource that cannot be decoded"},
		"a field longer than its message": {[]byte{0, 0, 0, 0, 2, 0x12, 3, 0x1a, 1, 'a'}, "a response that cannot be decoded"},
	} {
		t.Run(name, func(t *testing.T) {
			for size := 1; size <= len(c.stream); size++ {
				var d decoder
				var err error
				for rest := c.stream; len(rest) > 0 && err == nil; {
					n := min(size, len(rest))
					err = d.feed(rest[:n], false, &journal{})
					rest = rest[n:]
				}
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("in parts of %d bytes the error is %v, expected %q", size, err, c.want)
				}
			}
		})
	}
}

// One that is there as a whole is read where it lies.
func TestDecoderAllocations(t *testing.T) {
	stream := framed(t, &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: "type", Nonce: "1",
		Resources: []*discoveryv3.Resource{{Name: "a", Version: "1", Resource: &anypb.Any{Value: make([]byte, 1000)}}},
	})
	var d decoder
	if n := testing.AllocsPerRun(100, func() {
		if err := d.feed(stream, false, deaf{}); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a response, expected none", n)
	}
}

// deaf is a receiver that does nothing.
type deaf struct{}

func (deaf) resource(_, _, _ []byte) error { return nil }
func (deaf) removed([]byte) error          { return nil }
func (deaf) whole(*response)               {}
