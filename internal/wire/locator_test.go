package wire

import (
	"maps"
	"slices"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"

	"github.com/google/go-cmp/cmp"
)

func TestDYN1Locators(t *testing.T) {
	for _, test := range []struct {
		name       string
		parameters map[string]string
		want       string
	}{
		{"DYN-1 no parameters are the name", nil, "x"},
		{"DYN-1 sorted", map[string]string{"version": "v1", "env": "prod"}, "\x00env=prod&version=v1\x00x"},
		{"DYN-1 what ends a part is escaped", map[string]string{"a=&": "\x00"}, "\x00a%3D%26=%00\x00x"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Locator("x", test.parameters); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// Every locator is one word, and comes back as it was.
func TestDYN1LocatorsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.String().Draw(t, "name")
		parameters := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "parameters")
		if len(parameters) == 0 {
			return
		}
		word := Locator(name, parameters)
		if LocatedName(word) != name || !maps.Equal(Parameters(word), parameters) || !IsLocator(word) {
			t.Fatalf("%q came back as %q and %v", word, LocatedName(word), Parameters(word))
		}
		if other := Respell(word, "other"); LocatedName(other) != "other" || !maps.Equal(Parameters(other), parameters) {
			t.Fatalf("respelled %q", other)
		}
		request := &discoveryv3.DiscoveryRequest{ResourceLocators: []*discoveryv3.ResourceLocator{ResourceLocator(word)}}
		if size := proto.Size(request); size > WordSize(word) {
			t.Fatalf("%q takes %d bytes, said to take %d", word, size, WordSize(word))
		}
	})
}

func someConstraints(value string) *discoveryv3.DynamicParameterConstraints {
	return &discoveryv3.DynamicParameterConstraints{Type: &discoveryv3.DynamicParameterConstraints_Constraint{
		Constraint: &discoveryv3.DynamicParameterConstraints_SingleConstraint{
			Key: "env", ConstraintType: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Value{Value: value},
		},
	}}
}

// A response comes in with variants, and goes out with them under another name.
func TestDYN1VariantsInResponses(t *testing.T) {
	in := &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: "T", Nonce: "1",
		Resources: []*discoveryv3.Resource{{
			ResourceName: &discoveryv3.ResourceName{Name: "x", DynamicParameterConstraints: someConstraints("prod")},
			Version:      "1", Resource: &anypb.Any{TypeUrl: "T", Value: []byte("payload")},
		}},
		RemovedResources: []string{"gone"},
		RemovedResourceNames: []*discoveryv3.ResourceName{
			{Name: "x", DynamicParameterConstraints: someConstraints("test")}, {Name: "plain"},
		},
		ResourceErrors: []*discoveryv3.ResourceError{{
			ResourceName: &discoveryv3.ResourceName{Name: "x", DynamicParameterConstraints: someConstraints("qa")},
		}},
	}
	encoded, err := proto.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var r Response
	if err := r.Decode(encoded); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.Removed, []string{"gone", "plain"}) || len(r.RemovedVariants) != 1 {
		t.Fatalf("removed %q and %v", r.Removed, r.RemovedVariants)
	}
	for got, want := range map[string]string{
		r.Resources[0].Constraints(): "prod", r.RemovedVariants[0].Constraints: "test", r.Errors[0].Constraints: "qa",
	} {
		c := new(discoveryv3.DynamicParameterConstraints)
		if err := proto.Unmarshal([]byte(got), c); err != nil || !proto.Equal(c, someConstraints(want)) {
			t.Errorf("constraints %v (%v), want those of %q", c, err, want)
		}
	}
	var b Builder
	b.AddAs(r.Resources[0], "y")
	b.RemoveVariant(Variant{"y", r.RemovedVariants[0].Constraints})
	b.RemoveVariant(Variant{Name: "plain"})
	if b.Removed() != 2 || !b.Removes("plain") || b.Removes("y") {
		t.Errorf("%d removed", b.Removed())
	}
	size := b.Size()
	message := b.Finish("", "", "")
	if message.Len() != size || len(message.Bytes()) != size {
		t.Errorf("%d bytes gathered, %d said, %d sent", size, message.Len(), len(message.Bytes()))
	}
	got := new(discoveryv3.DeltaDiscoveryResponse)
	if err := proto.Unmarshal(message.Bytes(), got); err != nil {
		t.Fatal(err)
	}
	want := &discoveryv3.DeltaDiscoveryResponse{
		Resources: []*discoveryv3.Resource{{
			ResourceName: &discoveryv3.ResourceName{Name: "y", DynamicParameterConstraints: someConstraints("prod")},
			Version:      "1", Resource: &anypb.Any{TypeUrl: "T", Value: []byte("payload")},
		}},
		RemovedResources:     []string{"plain"},
		RemovedResourceNames: []*discoveryv3.ResourceName{{Name: "y", DynamicParameterConstraints: someConstraints("test")}},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
