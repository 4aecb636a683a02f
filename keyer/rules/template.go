package rules

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
)

// build gives what goes upstream of a client's node, or in place of it. known is false
// where a field depends on the name and there is none.
func (r *rule) build(v *variables) (node *corev3.Node, known bool, failure *FailedError) {
	if r.whole && len(r.node) == 0 {
		return v.client.node, true, nil
	}
	built := &corev3.Node{ClientFeatures: v.client.passedFeatures()}
	if r.whole {
		shareFields(built, v.client.node)
		built.Locality = proto.CloneOf(v.client.node.GetLocality())
	}
	for i := range r.named {
		if err := r.named[i].copyNamed(built, v); err != nil {
			return nil, true, r.named[i].part.failed(r.name, err)
		}
	}
	if built.GetMetadata() != nil && v.name != nil {
		v.wrote(proto.Size(built.GetMetadata()))
	}
	metadata := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	for _, x := range r.node {
		value, err := x.eval(v)
		if _, unknown := value.(*types.Unknown); unknown {
			return nil, false, nil
		}
		if err == nil {
			err = setField(built, metadata, x.field, value)
		}
		if err != nil {
			return nil, true, x.failed(r.name, err)
		}
		if strings.HasPrefix(x.field, fieldMetadata) {
			built.Metadata = metadata
		}
	}
	if v.name != nil {
		v.wrote(proto.Size(metadata))
	}
	return built, true, nil
}

// shareFields copies what a node holds, but not what its messages hold.
func shareFields(to, from *corev3.Node) {
	if from == nil {
		return
	}
	from.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.ProtoReflect().Set(field, value)
		return true
	})
	to.ProtoReflect().SetUnknown(from.ProtoReflect().GetUnknown())
}

func setField(node *corev3.Node, metadata *structpb.Struct, field string, value ref.Val) error {
	if key, ok := strings.CutPrefix(field, fieldMetadata+"."); ok {
		return setMetadata(metadata, key, value)
	}
	if field == fieldMetadata { // all that is to be there is nothing
		return nil
	}
	text, ok := value.(types.String)
	if !ok {
		return wrongType(value, types.StringType.TypeName())
	}
	if node.GetLocality() == nil && strings.HasPrefix(field, "node.locality.") {
		node.Locality = &corev3.Locality{}
	}
	switch field {
	case fieldID:
		node.Id = string(text)
	case fieldCluster:
		node.Cluster = string(text)
	case fieldRegion:
		node.Locality.Region = string(text)
	case fieldZone:
		node.Locality.Zone = string(text)
	case fieldSubZone:
		node.Locality.SubZone = string(text)
	default:
		return fmt.Errorf("no field of a node: %s", field)
	}
	return nil
}

var errNotJSON = errors.New("metadata can hold only JSON values")

// setMetadata sets a key, or leaves it out if the value is optional and there is none.
func setMetadata(metadata *structpb.Struct, key string, value ref.Val) error {
	if optional, ok := value.(*types.Optional); ok {
		if !optional.HasValue() {
			return nil
		}
		value = optional.GetValue()
	}
	native, err := value.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err != nil {
		return fmt.Errorf("%w: %w", errNotJSON, err)
	}
	made := native.(*structpb.Value)
	if !inJSON(made) {
		return fmt.Errorf("%w: no infinite number and no NaN", errNotJSON)
	}
	metadata.Fields[key] = made
	return nil
}

// inJSON reports whether JSON has all of a value: control planes that are polled are shown
// the node as such.
func inJSON(v *structpb.Value) bool {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_NumberValue:
		return !math.IsNaN(kind.NumberValue) && !math.IsInf(kind.NumberValue, 0)
	case *structpb.Value_ListValue:
		for _, element := range kind.ListValue.GetValues() {
			if !inJSON(element) {
				return false
			}
		}
	case *structpb.Value_StructValue:
		for _, field := range kind.StructValue.GetFields() {
			if !inJSON(field) {
				return false
			}
		}
	}
	return true
}
