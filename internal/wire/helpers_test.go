package wire

import (
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
)

const clusterType = "type.googleapis.com/envoy.config.cluster.v3.Cluster"

func newResource(t testing.TB, p *discoveryv3.Resource) *Resource {
	t.Helper()
	r, err := NewResource(p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// cutOne cuts one encoded resource out of a response.
func cutOne(t testing.TB, encoded []byte) *Resource {
	t.Helper()
	var r Response
	if err := r.Decode(protowire.AppendBytes([]byte{0x12}, encoded)); err != nil {
		t.Fatal(err)
	}
	if len(r.Resources) != 1 {
		t.Fatalf("%d resources, want 1", len(r.Resources))
	}
	return r.Resources[0]
}

// parse decodes a message as a client does.
func parse(t testing.TB, m *Message) *discoveryv3.DeltaDiscoveryResponse {
	t.Helper()
	b := m.Bytes()
	if len(b) != m.Len() {
		t.Errorf("message has %d bytes, Len says %d", len(b), m.Len())
	}
	var p discoveryv3.DeltaDiscoveryResponse
	if err := proto.Unmarshal(b, &p); err != nil {
		t.Fatalf("a client cannot decode %x: %v", b, err)
	}
	return &p
}

func equal(t testing.TB, want, got proto.Message) {
	t.Helper()
	if !proto.Equal(want, got) {
		t.Errorf("(-want +got)\n%s", cmp.Diff(want, got, protocmp.Transform()))
	}
}

// passed is what clients are to see of p: no ttl, and a digest where there is no version.
func passed(p *discoveryv3.Resource) *discoveryv3.Resource {
	p = proto.CloneOf(p)
	p.Ttl = nil
	if p.Version == "" && p.Resource != nil {
		b, err := proto.Marshal(p.Resource)
		if err != nil {
			panic(err)
		}
		var text [2 * digestLen]byte
		encodeDigest(text[:], b)
		p.Version = string(text[:])
	}
	return p
}

// renamed is p under another name.
func renamed(p *discoveryv3.Resource, name string) *discoveryv3.Resource {
	p = proto.CloneOf(p)
	if p.Name != "" || p.ResourceName.GetName() == "" {
		p.Name = name
	}
	if p.ResourceName != nil {
		p.ResourceName.Name = name
	}
	return p
}

func payload(n int) *anypb.Any {
	value := make([]byte, n)
	for i := range value {
		value[i] = byte(i * 7)
	}
	return &anypb.Any{TypeUrl: clusterType, Value: value}
}
