package wire

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
)

const clusterCollectionType = clusterType + "Collection"

func TestMayHold(t *testing.T) {
	for _, tc := range []struct {
		name, response, payload string
		want                    bool
	}{
		{"ACK-6 same type", clusterType, clusterType, true},
		{"LOC-1 redirect", clusterType, RedirectTypeURL, true},
		{"LIST-1 collection under its own type", clusterCollectionType, clusterCollectionType, true},
		{"LIST-1 collection under the type of its members", clusterType, clusterCollectionType, true},
		{"LIST-1 collection of another type", clusterType, "type.googleapis.com/envoy.config.listener.v3.ListenerCollection", false},
		{"LIST-1 member under the type of the collection", clusterCollectionType, clusterType, false},
		{"ACK-6 no type", "", "Collection", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := MayHold(tc.response, tc.payload); got != tc.want {
				t.Errorf("MayHold(%q, %q) = %v", tc.response, tc.payload, got)
			}
		})
	}
}

// LIST-1, LOC-1: what has no name is left out and told of, and the rest is there.
func TestStateResponse_LIST1_LOC1_unnamed(t *testing.T) {
	collection := anyOf(t, &clusterv3.ClusterCollection{Entries: &xdscorev3.CollectionEntry{
		ResourceSpecifier: &xdscorev3.CollectionEntry_InlineEntry_{InlineEntry: &xdscorev3.CollectionEntry_InlineEntry{Name: "inline"}},
	}})
	redirect := anyOf(t, &xdscorev3.ResourceLocator{Id: "x", ResourceType: "T"})
	p := &discoveryv3.DiscoveryResponse{
		TypeUrl: clusterType, Nonce: "n", VersionInfo: "v",
		Resources: []*anypb.Any{
			anyOf(t, &clusterv3.Cluster{Name: "a"}),
			collection,
			anyOf(t, &discoveryv3.Resource{Name: "wrapped", Resource: collection}),
			redirect,
			anyOf(t, &discoveryv3.Resource{Resource: collection}),
			anyOf(t, &discoveryv3.Resource{Name: "moved", Resource: redirect}),
			anyOf(t, &clusterv3.Cluster{Name: "b"}),
		},
	}
	r := Response{State: true}
	if err := r.Decode(encoded.Bytes(p)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, res := range r.Resources {
		got = append(got, res.Name+" "+res.TypeURL()[strings.LastIndexByte(res.TypeURL(), '.')+1:])
	}
	if want := []string{"a Cluster", "wrapped ClusterCollection", "moved ResourceLocator", "b Cluster"}; !slices.Equal(got, want) {
		t.Errorf("resources %q, want %q", got, want)
	}
	const why = ": a payload of this type has no name of its own: it must be wrapped in envoy.service.discovery.v3.Resource with a name"
	want := []string{
		"wire: cannot decode resources[1].value" + why,
		"wire: cannot decode resources[3].value" + why,
		"wire: cannot decode resources[4].value.resource.value" + why,
	}
	var faults []string
	for _, err := range r.Unnamed {
		faults = append(faults, err.Error())
		if !errors.Is(err, ErrUnnamed) {
			t.Errorf("%v does not wrap ErrUnnamed", err)
		}
	}
	if !slices.Equal(faults, want) {
		t.Errorf("faults %q, want %q", faults, want)
	}
	if _, err := NewStateResource(collection); !errors.Is(err, ErrUnnamed) {
		t.Errorf("NewStateResource: %v", err)
	}

	for range 1000 {
		p.Resources = append(p.Resources, redirect)
	}
	p.Resources = append(p.Resources, anyOf(t, &clusterv3.Cluster{Name: "last"}), &anypb.Any{})
	err := r.Decode(encoded.Bytes(p))
	if want := fmt.Sprintf("wire: cannot decode resources[%d].value: a payload without a type", len(p.Resources)-1); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("ACK-6: %v, want %s", err, want)
	}
	p.Resources = p.Resources[:len(p.Resources)-1]
	if err := r.Decode(encoded.Bytes(p)); err != nil || len(r.Unnamed) != maxUnnamed || len(r.Resources) != 5 {
		t.Errorf("%d resources, %d faults, %v, want 5, %d and none", len(r.Resources), len(r.Unnamed), err, maxUnnamed)
	}
}

// NAME-9: over the state of the world a resource has the empty name where it says none,
// and where its type is not known: what stands in its field 1 may be anything.
func TestStateResponse_NAME9(t *testing.T) {
	text := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "a host")
	table := &anypb.Any{TypeUrl: "type.googleapis.com/istio.networking.nds.v1.NameTable", Value: text}
	for _, tc := range []struct {
		name, want string
		packed     *anypb.Any
	}{
		{"NAME-9 a bare payload of a type that nobody knows", "", table},
		{"NAME-9 a wrapped one", "", anyOf(t, &discoveryv3.Resource{Resource: table, Version: "1"})},
		{"NAME-9 a wrapped one that says a name", "x", anyOf(t, &discoveryv3.Resource{Name: "x", Resource: table})},
		{"NAME-9 one that has its name in resource_name", "x",
			anyOf(t, &discoveryv3.Resource{ResourceName: &discoveryv3.ResourceName{Name: "x"}, Resource: table})},
		{"NAME-9 a known type without a name", "", anyOf(t, &clusterv3.Cluster{AltStatName: "x"})},
		{"ADS-6 a filter chain, whose first field is what it matches", "x",
			anyOf(t, &listenerv3.FilterChain{Name: "x", FilterChainMatch: &listenerv3.FilterChainMatch{ServerNames: []string{"y"}}})},
		{"NAME-9 a heartbeat", "", anyOf(t, &discoveryv3.Resource{Version: "1", Ttl: durationpb.New(time.Second)})},
		{"NAME-9 a known type of v2", "x", &anypb.Any{TypeUrl: "type.googleapis.com/envoy.api.v2.Cluster", Value: []byte("\x0a\x01x")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := NewStateResource(tc.packed)
			if err != nil || r.Name != tc.want {
				t.Fatalf("%v, %v, want the name %q", r, err, tc.want)
			}
			if r.HasPayload() && tc.packed.GetTypeUrl() != ResourceTypeURL && !bytes.Equal(r.Any(), encoded.Bytes(tc.packed)) {
				t.Errorf("VAR-8 the payload is %x", r.Any())
			}
		})
	}
}

// Resources of Istio's Mesh Configuration Protocol have their name in their metadata (NAME-9, VAR-8).
func TestStateResponse_NAME9_VAR8_mcp(t *testing.T) {
	metadata := func(name string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	}
	resource := func(parts ...[]byte) *anypb.Any {
		var value []byte
		for _, part := range parts {
			value = protowire.AppendBytes(protowire.AppendTag(value, 1, protowire.BytesType), part)
		}
		return &anypb.Any{TypeUrl: mcpResourceTypeURL, Value: value}
	}
	r := Response{State: true}
	if err := r.Decode(encoded.Bytes(&discoveryv3.DiscoveryResponse{
		TypeUrl: "networking.istio.io/v1alpha3/ServiceEntry", Nonce: "n", VersionInfo: "v",
		Resources: []*anypb.Any{resource(metadata("shop/a")), resource(metadata("shop/b")), resource()},
	})); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, res := range r.Resources {
		got = append(got, res.Name)
	}
	if want := []string{"shop/a", "shop/b", ""}; !slices.Equal(got, want) {
		t.Errorf("resources %q, want %q", got, want)
	}
	if err := new(Response{State: true}).Decode(encoded.Bytes(&discoveryv3.DiscoveryResponse{
		TypeUrl: "x", Resources: []*anypb.Any{{TypeUrl: mcpResourceTypeURL, Value: []byte{0x0a, 5}}},
	})); err == nil {
		t.Error("a resource that is cut short is taken")
	}
}
