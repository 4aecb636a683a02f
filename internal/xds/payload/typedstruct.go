package payload

import (
	udpatypev1 "github.com/cncf/xds/go/udpa/type/v1"
	xdstypev3 "github.com/cncf/xds/go/xds/type/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/structpb"
)

// redactTypedStruct redacts m if it is a TypedStruct, and tells whether it is
// one: a payload in another guise, a message of the type that it names written as
// JSON. Envoy takes one wherever it takes an Any.
func (u view) redactTypedStruct(m proto.Message, depth int) bool {
	switch m := m.(type) {
	case *xdstypev3.TypedStruct:
		m.Value = u.redactStruct(m.GetTypeUrl(), m.GetValue(), depth)
	case *udpatypev1.TypedStruct:
		m.Value = u.redactStruct(m.GetTypeUrl(), m.GetValue(), depth)
	default:
		return false
	}
	return true
}

// redactStruct gives what is to be shown of a TypedStruct's value.
func (u view) redactStruct(typeURL string, value *structpb.Struct, depth int) *structpb.Struct {
	switch {
	case value == nil:
		return nil
	case u.Has(typeURL):
		return redaction(typeURL).message()
	case depth > maxNesting:
		return bySize(typeURL, proto.Size(value), tooDeep).message()
	}
	known, err := protoregistry.GlobalTypes.FindMessageByURL(typeURL)
	if err != nil {
		return u.hideStruct(typeURL, value, unknownType)
	}
	m := known.New().Interface()
	if err := viaJSON(value, m); err != nil {
		return u.hideStruct(typeURL, value, broken)
	}
	u.redact(m.ProtoReflect(), depth)
	clean := new(structpb.Struct)
	if err := viaJSON(m, clean); err != nil {
		return bySize(typeURL, proto.Size(value), unshowable).message()
	}
	return clean
}

// hideStruct is [Unknown.hide] for a value that can be read as it is, without
// base64.
func (u Unknown) hideStruct(typeURL string, value *structpb.Struct, why string) *structpb.Struct {
	if u == AsBase64 {
		maskStruct(value)
		return value
	}
	return bySize(typeURL, proto.Size(value), why).message()
}

// viaJSON reads as one type what is written as another. What the target does not
// know is left out: nobody could tell what it is.
func viaJSON(from, to proto.Message) error {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(from)
	if err != nil {
		return err
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, to)
}
