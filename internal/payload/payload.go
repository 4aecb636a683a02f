package payload

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cncf/xds/go/udpa/annotations"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// Redacted stands where something secret was.
const Redacted = "[redacted]"

// Secret reports whether resources of a type are secret as a whole.
func Secret(typeURL string) bool {
	name := typeURL[strings.LastIndexByte(typeURL, '/')+1:]
	return name == "Secret" || strings.HasSuffix(name, ".Secret")
}

// JSON shows an encoded google.protobuf.Any. Secrets are not shown at all, fields
// that Envoy's API marks as sensitive are blanked at any depth, and what is of a
// type that is not linked in is shown by its type and size. The error says that
// the bytes are not what they claim to be.
func JSON(encoded []byte) (json.RawMessage, error) {
	var payload anypb.Any
	if err := proto.Unmarshal(encoded, &payload); err != nil {
		return nil, fmt.Errorf("the payload is no google.protobuf.Any: %w", err)
	}
	m, stub, err := open(&payload)
	if err != nil {
		return nil, err
	}
	if stub != nil {
		return protojson.Marshal(stub)
	}
	clean, err := anypb.New(m)
	if err != nil {
		return nil, err
	}
	clean.TypeUrl = payload.GetTypeUrl()
	return protojson.MarshalOptions{UseProtoNames: true}.Marshal(clean)
}

// open decodes a payload and blanks it; what may not or cannot be shown gives a
// stub instead.
func open(payload *anypb.Any) (proto.Message, *structpb.Struct, error) {
	if Secret(payload.GetTypeUrl()) {
		return nil, stub(payload, Redacted), nil
	}
	m, err := payload.UnmarshalNew()
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "not found"):
		return nil, stub(payload, "of a type that this build does not know"), nil
	default:
		return nil, nil, fmt.Errorf("the payload is no %s: %w", payload.GetTypeUrl(), err)
	}
	blank(m.ProtoReflect())
	return m, nil, nil
}

func stub(payload *anypb.Any, what string) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{
		"@type":   structpb.NewStringValue(payload.GetTypeUrl()),
		"bytes":   structpb.NewNumberValue(float64(len(payload.GetValue()))),
		"payload": structpb.NewStringValue(what),
	}}
}

// blank removes what is secret from a message and everything in it.
func blank(m protoreflect.Message) {
	if nested, ok := m.Interface().(*anypb.Any); ok {
		blankAny(nested)
		return
	}
	m.SetUnknown(nil) // nobody can tell what is in there
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if sensitive(f) {
			blankField(m, f)
			return true
		}
		eachMessage(f, v, blank)
		return true
	})
}

// blankAny opens a nested payload, blanks it, and closes it again.
func blankAny(nested *anypb.Any) {
	m, s, err := open(nested)
	switch {
	case err != nil:
		s = stub(nested, "undecodable")
	case m != nil:
		if value, err := proto.Marshal(m); err == nil {
			nested.Value = value
			return
		}
		s = stub(nested, "undecodable")
	}
	if closed, err := anypb.New(s); err == nil {
		nested.TypeUrl, nested.Value = closed.GetTypeUrl(), closed.GetValue()
	}
}

func sensitive(f protoreflect.FieldDescriptor) bool {
	marked, ok := proto.GetExtension(f.Options(), annotations.E_Sensitive).(bool)
	return ok && marked
}

// blankField puts the stand-in into every string of a sensitive field, so that
// one sees that something was there, and clears what is no string.
func blankField(m protoreflect.Message, f protoreflect.FieldDescriptor) {
	switch {
	case f.IsList() || f.IsMap():
		m.Clear(f)
	case f.Kind() == protoreflect.StringKind:
		m.Set(f, protoreflect.ValueOfString(Redacted))
	case f.Kind() == protoreflect.BytesKind:
		m.Set(f, protoreflect.ValueOfBytes([]byte(Redacted)))
	case f.Message() != nil:
		inner := m.Mutable(f).Message()
		if _, ok := inner.Interface().(*anypb.Any); ok {
			m.Clear(f)
			return
		}
		inner.SetUnknown(nil)
		inner.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
			blankField(inner, f)
			return true
		})
	default:
		m.Clear(f)
	}
}

// eachMessage calls visit for every message directly in a field.
func eachMessage(f protoreflect.FieldDescriptor, v protoreflect.Value, visit func(protoreflect.Message)) {
	switch {
	case f.IsMap():
		if f.MapValue().Message() != nil {
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				visit(v.Message())
				return true
			})
		}
	case f.Message() == nil:
	case f.IsList():
		for i := range v.List().Len() {
			visit(v.List().Get(i).Message())
		}
	default:
		visit(v.Message())
	}
}
