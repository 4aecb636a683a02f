package rules

import (
	"maps"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	pathID       = "id"
	pathFeatures = "client_features"
	pathMetadata = "metadata"
)

// named is a part of a scope that is a field of the node.
type named struct {
	part *expression
	path []string
}

// namedField gives the field of the node that a part of a scope is: node.cluster,
// node.metadata.role, or node.metadata.?role.orValue("none"). All clients of the scope
// have the same there, so the control plane may see it (AGG-3). What is worked out of
// fields differs among clients, and is none.
func namedField(e ast.Expr) (path []string, ok bool) {
	if e.Kind() == ast.CallKind && e.AsCall().IsMemberFunction() && e.AsCall().FunctionName() == "orValue" {
		e = e.AsCall().Target()
	}
	if asksOnly(e) {
		return nil, false
	}
	return nodePath(e)
}

// asksOnly reports whether a term says whether something is there, and not what: has().
func asksOnly(e ast.Expr) bool {
	switch e.Kind() {
	case ast.SelectKind:
		return e.AsSelect().IsTestOnly() || asksOnly(e.AsSelect().Operand())
	case ast.CallKind:
		operand, _, ok := indexed(e)
		return ok && asksOnly(operand)
	}
	return false
}

// layNode works out what the control plane is shown of the clients of a rule, as far as
// that is the same for all of them. The id stays the relay's unless the rule sets it.
func (c *compiler) layNode(r *rule) {
	r.whole = r.first
	if r.whole {
		return
	}
	for _, x := range r.scope {
		path, ok := namedField(x.ast.NativeRep().Expr())
		switch {
		case !ok:
		case len(path) == 0: // clients share if their nodes are equal
			r.whole = true
		case path[0] != pathID && path[0] != pathFeatures:
			r.named = append(r.named, named{x, path})
			r.fields = append(r.fields, path)
		}
	}
	for _, x := range r.node {
		if x.field != fieldID {
			r.fields = append(r.fields, replaced(x.field))
		}
	}
}

// copyNamed copies the field of a client's node. A field that the client lacks may have a value in
// the scope all the same. The node has that value, so it does not depend on which client comes first.
func (n *named) copyNamed(to *corev3.Node, v *variables) error {
	switch metadata := v.client.node.GetMetadata(); {
	case n.path[0] == pathMetadata && len(n.path) == 1:
		if len(metadata.GetFields()) > 0 {
			to.Metadata = &structpb.Struct{Fields: maps.Clone(metadata.GetFields())} // it may be megabytes
		}
		return nil
	case n.path[0] != pathMetadata:
		copyField(to.ProtoReflect(), v.client.node.ProtoReflect(), n.path)
		return nil
	}
	value := v.client.node.GetMetadata()
	keys := n.path[1:]
	for _, key := range keys[:len(keys)-1] {
		value = value.GetFields()[key].GetStructValue()
	}
	found := value.GetFields()[keys[len(keys)-1]]
	if found == nil {
		given, err := n.part.eval(v)
		if err != nil {
			return err
		}
		if _, unknown := given.(*types.Unknown); unknown {
			return nil
		}
		holder := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
		if err := setMetadata(holder, "", given); err != nil {
			return nil //nolint:nilerr // what JSON does not have cannot be shown
		}
		if found = holder.GetFields()[""]; found == nil {
			return nil
		}
	}
	if to.GetMetadata() == nil {
		to.Metadata = &structpb.Struct{}
	}
	setKey(to.GetMetadata(), keys, found)
	return nil
}

// setKey sets a key of metadata, at any level.
func setKey(s *structpb.Struct, keys []string, value *structpb.Value) {
	for i, key := range keys {
		if s.Fields == nil {
			s.Fields = make(map[string]*structpb.Value)
		}
		if i == len(keys)-1 {
			s.Fields[key] = value
			return
		}
		below := s.GetFields()[key].GetStructValue()
		if below == nil {
			below = &structpb.Struct{}
		} else {
			below = &structpb.Struct{Fields: maps.Clone(below.GetFields())} // it may be a client's
		}
		s.Fields[key] = structpb.NewStructValue(below)
		s = below
	}
}

// copyField copies a field at any depth, if it is there. Keys of maps are none.
func copyField(to, from protoreflect.Message, path []string) {
	field := fieldNamed(from, path[0])
	switch {
	case field == nil || !from.IsValid() || !from.Has(field):
	case len(path) == 1 && isMessage(field) && proto.Size(from.Get(field).Message().Interface()) == 0: // as good as none
	case len(path) == 1 && isMessage(field):
		to.Set(field, protoreflect.ValueOfMessage(proto.Clone(from.Get(field).Message().Interface()).ProtoReflect()))
	case len(path) == 1:
		to.Set(field, from.Get(field))
	case isMessage(field):
		copyField(to.Mutable(field).Message(), from.Get(field).Message(), path[1:])
		if proto.Size(to.Get(field).Message().Interface()) == 0 {
			to.Clear(field)
		}
	}
}

func isMessage(field protoreflect.FieldDescriptor) bool {
	return field.Message() != nil && !field.IsList() && !field.IsMap()
}

func fieldNamed(m protoreflect.Message, name string) protoreflect.FieldDescriptor {
	return m.Descriptor().Fields().ByName(protoreflect.Name(name))
}
