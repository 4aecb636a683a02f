package wire

import (
	"slices"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// What is for some dynamic parameters only is told apart. Constraints without content are none.
func TestConstrained_DYN1(t *testing.T) {
	named := func(name string) *discoveryv3.ResourceName {
		return &discoveryv3.ResourceName{Name: name, DynamicParameterConstraints: fullResource().GetResourceName().GetDynamicParameterConstraints()}
	}
	empty := func(name string) *discoveryv3.ResourceName {
		return &discoveryv3.ResourceName{Name: name, DynamicParameterConstraints: new(discoveryv3.DynamicParameterConstraints)}
	}
	payload := &anypb.Any{TypeUrl: "T", Value: []byte("payload")}
	encoded, err := proto.Marshal(&discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: "T", Nonce: "1",
		Resources: []*discoveryv3.Resource{
			{ResourceName: named("x"), Resource: payload}, {Name: "x", ResourceName: named("x"), Resource: payload},
			{ResourceName: empty("x"), Resource: payload}, {ResourceName: &discoveryv3.ResourceName{Name: "x"}, Resource: payload},
			{Name: "x", Resource: payload},
		},
		RemovedResources:     []string{"gone"},
		RemovedResourceNames: []*discoveryv3.ResourceName{named("x"), {Name: "plain"}, empty("y")},
		ResourceErrors:       []*discoveryv3.ResourceError{{ResourceName: named("x")}, {ResourceName: empty("x")}, {ResourceName: &discoveryv3.ResourceName{Name: "x"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var r Response
	if err := r.Decode(encoded); err != nil {
		t.Fatal(err)
	}
	var resources, failing []bool
	for _, resource := range r.Resources {
		resources = append(resources, resource.Constrained())
	}
	for i := range r.Errors {
		failing = append(failing, r.Errors[i].Constrained)
	}
	if want := []bool{true, true, false, false, false}; !slices.Equal(resources, want) {
		t.Errorf("resources are for some parameters: %t, want %t", resources, want)
	}
	if want := []bool{true, false, false}; !slices.Equal(failing, want) {
		t.Errorf("errors are for some parameters: %t, want %t", failing, want)
	}
	if !slices.Equal(r.Removed, []string{"gone", "plain", "y"}) || !slices.Equal(r.Constrained, []string{"x"}) {
		t.Errorf("removed are %q, and for some parameters %q", r.Removed, r.Constrained)
	}
}
