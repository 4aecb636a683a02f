package payload

import (
	"github.com/cncf/xds/go/udpa/annotations"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// maxNesting bounds how deep payloads may lie in payloads: unpacking an Any is
// not bounded by protobuf's own limit.
const maxNesting = 16

// view is how payloads are shown.
type view struct {
	Unknown
	*Secrets
}

// redactPayload blanks out what must not be shown in packed. If it cannot be
// shown at all the result is what to show instead, and packed is as it was.
// depth counts payloads.
func (u view) redactPayload(packed *anypb.Any, depth int) standIn {
	typeURL := packed.GetTypeUrl()
	switch {
	case u.Has(typeURL):
		return redaction(typeURL)
	case depth > maxNesting:
		// Of known types perhaps, and then with secrets that could be told: so by
		// size, whatever u is.
		return bySize(typeURL, len(packed.GetValue()), tooDeep)
	}
	known, err := protoregistry.GlobalTypes.FindMessageByURL(typeURL)
	if err != nil {
		return u.hide(typeURL, packed.GetValue(), unknownType)
	}
	m := known.New().Interface()
	if err := proto.Unmarshal(packed.GetValue(), m); err != nil {
		return u.hide(typeURL, packed.GetValue(), broken)
	}
	u.redact(m.ProtoReflect(), depth)
	clean, err := proto.Marshal(m)
	if err != nil {
		return bySize(typeURL, len(packed.GetValue()), unshowable)
	}
	packed.Value = clean
	return nil
}

// redact blanks out what must not be shown in m: fields that are declared
// sensitive, fields that this build does not know, and secrets in payloads
// within. A payload within that cannot be shown is put into a form that can.
func (u view) redact(m protoreflect.Message, depth int) {
	m.SetUnknown(nil) // nobody can tell what is in there
	if packed, ok := m.Interface().(*anypb.Any); ok {
		u.redactNested(packed, depth+1)
		return
	}
	switch m := m.Interface().(type) {
	case *structpb.Struct:
		maskStruct(m)
		return
	case *corev3.HeaderValue:
		if credential(m.GetKey()) {
			m.Value, m.RawValue = redacted, nil
		}
		return
	}
	if u.redactTypedStruct(m.Interface(), depth+1) {
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case sensitive(fd):
			blank(m, fd, v)
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					u.redact(v.Message(), depth)
					return true
				})
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				u.redact(v.List().Get(i).Message(), depth)
			}
		default:
			u.redact(v.Message(), depth)
		}
		return true
	})
}

// maskStruct blanks out the values of keys that are those of credentials.
func maskStruct(s *structpb.Struct) {
	for key, v := range s.GetFields() {
		if credential(key) {
			s.Fields[key] = structpb.NewStringValue(redacted)
			continue
		}
		maskValue(v)
	}
}

func maskValue(v *structpb.Value) {
	maskStruct(v.GetStructValue())
	for _, one := range v.GetListValue().GetValues() {
		maskValue(one)
	}
}

// redactNested redacts a payload within another, and turns it into a Struct if
// it cannot be shown.
func (u view) redactNested(packed *anypb.Any, depth int) {
	if packed.GetTypeUrl() == "" && len(packed.GetValue()) == 0 {
		return // protobuf shows it as {}
	}
	instead := u.redactPayload(packed, depth)
	if instead == nil {
		return
	}
	if err := packed.MarshalFrom(instead.message()); err != nil {
		packed.Reset() // better nothing than what must not be shown
	}
}

// message gives the stand-in as a message, for places where JSON cannot stand.
func (s standIn) message() *structpb.Struct {
	m, err := structpb.NewStruct(s)
	if err != nil {
		return new(structpb.Struct) // better nothing than what must not be shown
	}
	return m
}

func sensitive(fd protoreflect.FieldDescriptor) bool {
	is, ok := proto.GetExtension(fd.Options(), annotations.E_Sensitive).(bool)
	return ok && is
}

// blank does to a field what Envoy's configuration dump does: texts say that
// they were redacted, anything else is left out.
func blank(m protoreflect.Message, fd protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch {
	case fd.IsMap(), fd.IsList():
		m.Clear(fd)
	case fd.Kind() == protoreflect.StringKind:
		m.Set(fd, protoreflect.ValueOfString(redacted))
	case fd.Kind() == protoreflect.BytesKind:
		m.Set(fd, protoreflect.ValueOfBytes([]byte(redacted)))
	case fd.Message() != nil && fd.Message().FullName() != anyName:
		inner := v.Message()
		inner.SetUnknown(nil)
		inner.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			blank(inner, fd, v)
			return true
		})
	default:
		m.Clear(fd)
	}
}

var anyName = (*anypb.Any)(nil).ProtoReflect().Descriptor().FullName()
