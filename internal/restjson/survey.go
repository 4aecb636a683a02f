package restjson

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
)

var (
	errNoType = errors.New("it has a payload without a type")
	errDeep   = errors.New("payloads are nested too deep in it")
)

// survey looks into a payload for what JSON cannot say. It is a walk of its own
// because protojson stops at the first error with words that quote the payload,
// and leaves out unknown fields without a word.
type survey struct {
	unknown bool // a field that this build does not know
}

// payload looks into a payload, which lies in so many others. The error names the
// type that it is about.
func (s *survey) payload(packed *anypb.Any, depth int) error {
	typeURL := packed.GetTypeUrl()
	switch {
	case typeURL == "":
		return errNoType
	case depth > maxNesting:
		return errDeep
	}
	known, err := protoregistry.GlobalTypes.FindMessageByURL(typeURL)
	if err != nil {
		return fmt.Errorf("this build does not know the type %q", shorten(typeURL, 200))
	}
	m := known.New()
	if err := proto.Unmarshal(packed.GetValue(), m.Interface()); err != nil {
		return fmt.Errorf("a payload is not what its type %q says", typeURL)
	}
	return s.message(m, depth)
}

func (s *survey) message(m protoreflect.Message, depth int) error {
	if len(m.GetUnknown()) > 0 {
		s.unknown = true
	}
	if packed, ok := m.Interface().(*anypb.Any); ok {
		if packed.GetTypeUrl() == "" && len(packed.GetValue()) == 0 {
			return nil // {} in JSON
		}
		return s.payload(packed, depth+1)
	}
	var err error
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		err = s.field(fd, v, depth)
		return err == nil
	})
	return err
}

func (s *survey) field(fd protoreflect.FieldDescriptor, v protoreflect.Value, depth int) error {
	switch {
	case fd.IsMap():
		if fd.MapValue().Message() == nil {
			return nil
		}
		var err error
		v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
			err = s.message(v.Message(), depth)
			return err == nil
		})
		return err
	case fd.Message() == nil:
		return nil
	case fd.IsList():
		for i := range v.List().Len() {
			if err := s.message(v.List().Get(i).Message(), depth); err != nil {
				return err
			}
		}
		return nil
	default:
		return s.message(v.Message(), depth)
	}
}
