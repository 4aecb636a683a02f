package rules

import (
	"cel.dev/cel-go/common/types"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
)

// provider is CEL's registry of message types, but for how it reads fields that are
// Structs: CEL copies them, all that is in them, each time that an expression looks at a
// key. With a client whose metadata is megabytes that would be the price of every
// node.metadata.role (OPS-5). Expressions change nothing, so none needs a copy.
type provider struct{ *types.Registry }

// jsonObject is what a Struct is to CEL.
var jsonObject = types.NewMapType(types.StringType, types.DynType)

// FindStructFieldType implements types.Provider.
func (p provider) FindStructFieldType(structType, fieldName string) (*types.FieldType, bool) {
	field, ok := p.Registry.FindStructFieldType(structType, fieldName)
	if !ok || !field.Type.IsExactType(jsonObject) {
		return field, ok
	}
	copying := field.GetFrom
	field.GetFrom = func(target any) (any, error) {
		if s := structIn(target, fieldName); s != nil {
			return s, nil
		}
		return copying(target)
	}
	return field, true
}

// structIn gives a field that is a Struct and is set; nil if it is something else.
func structIn(target any, fieldName string) *structpb.Struct {
	m, ok := target.(proto.Message)
	if !ok {
		return nil
	}
	field := m.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(fieldName))
	if field == nil || field.Message() == nil || field.IsList() || field.IsMap() || !m.ProtoReflect().Has(field) {
		return nil
	}
	s, _ := m.ProtoReflect().Get(field).Message().Interface().(*structpb.Struct)
	return s
}
