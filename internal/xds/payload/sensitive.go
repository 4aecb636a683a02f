package payload

import (
	"bytes"
	"sync"

	udpatypev1 "github.com/cncf/xds/go/udpa/type/v1"
	xdstypev3 "github.com/cncf/xds/go/xds/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Sensitive reports whether a resource is a Secret or holds one, or has a value in a field that the
// API declares sensitive: a private key inside a listener, for instance. Payloads within it are
// looked into as [JSON] does. A payload that is not what its type says counts as sensitive. A type that
// is not linked into this build says nothing of its fields: there only the types' names count.
func (t *Secrets) Sensitive(r *wire.Resource) bool {
	if r == nil || !r.HasPayload() {
		return false
	}
	if t.Has(r.TypeURL()) {
		return true
	}
	known, err := protoregistry.GlobalTypes.FindMessageByURL(r.TypeURL())
	if err != nil || !mayHide(known.Descriptor(), r.Any()) {
		return false
	}
	packed := new(anypb.Any)
	if err := proto.Unmarshal(r.Any(), packed); err != nil {
		return true // nobody can tell
	}
	return t.sensitivePayload(packed, 0)
}

// declares has, by type, whether a field that is declared sensitive can be set in it without a
// payload in between.
var declares sync.Map // protoreflect.FullName → bool

// mayHide reports whether it is worth unpacking a message: most resources have neither a field that
// could be sensitive nor a payload of Envoy's API within.
func mayHide(d protoreflect.MessageDescriptor, encoded []byte) bool {
	own, ok := declares.Load(d.FullName())
	if !ok {
		own = declaresSensitive(d, make(map[protoreflect.FullName]bool))
		declares.Store(d.FullName(), own)
	}
	// Its own type URL is the first "/".
	return own.(bool) || bytes.Count(encoded, []byte("/")) > 1
}

func declaresSensitive(d protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if seen[d.FullName()] {
		return false
	}
	seen[d.FullName()] = true
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		if sensitive(fd) {
			return true
		}
		if fd.IsMap() {
			fd = fd.MapValue()
		}
		if m := fd.Message(); m != nil && declaresSensitive(m, seen) {
			return true
		}
	}
	return false
}

// sensitivePayload is Sensitive for a payload. depth counts payloads.
func (t *Secrets) sensitivePayload(packed *anypb.Any, depth int) bool {
	if t.Has(packed.GetTypeUrl()) || depth > maxNesting {
		return true
	}
	known, err := protoregistry.GlobalTypes.FindMessageByURL(packed.GetTypeUrl())
	if err != nil {
		return false
	}
	m := known.New().Interface()
	if err := proto.Unmarshal(packed.GetValue(), m); err != nil {
		return true
	}
	return t.hasSensitive(m.ProtoReflect(), depth)
}

func (t *Secrets) hasSensitive(m protoreflect.Message, depth int) (found bool) {
	switch m := m.Interface().(type) {
	case *anypb.Any:
		return t.sensitivePayload(m, depth+1)
	case *xdstypev3.TypedStruct:
		return t.sensitiveStruct(m.GetTypeUrl(), m.GetValue(), depth+1)
	case *udpatypev1.TypedStruct:
		return t.sensitiveStruct(m.GetTypeUrl(), m.GetValue(), depth+1)
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case sensitive(fd):
			found = true
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					found = t.hasSensitive(v.Message(), depth)
					return !found
				})
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				found = found || t.hasSensitive(v.List().Get(i).Message(), depth)
			}
		default:
			found = t.hasSensitive(v.Message(), depth)
		}
		return !found
	})
	return found
}

// sensitiveStruct is sensitivePayload for a TypedStruct.
func (t *Secrets) sensitiveStruct(typeURL string, value *structpb.Struct, depth int) bool {
	if t.Has(typeURL) || depth > maxNesting {
		return true
	}
	known, err := protoregistry.GlobalTypes.FindMessageByURL(typeURL)
	if err != nil || value == nil {
		return false
	}
	m := known.New().Interface()
	return viaJSON(value, m) != nil || t.hasSensitive(m.ProtoReflect(), depth)
}
