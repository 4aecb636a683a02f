package rules

import (
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
)

// Bounds of what Unmentioned gives: a client chooses the keys of its metadata.
const (
	maxUnmentioned = 32
	maxShownKey    = 64
)

// Unmentioned lists the fields, as in "cluster", "locality.zone" or "metadata.role", in which
// two nodes differ that met in a scope of a rule and that neither its expressions nor
// those of the rules before it look at: a control plane that reads them would tell the
// two clients apart. What does not go upstream is not among them: client features but
// those for load balancing, and what the rule's node fields replace. Nor is the id, which is
// each node's own: a rule that leaves it out shares for that reason. A nil node counts as
// an empty one. There are at most 32, the last of which is "…" if there were more.
func (s *Set) Unmentioned(rule string, a, b *corev3.Node) []string {
	d := &difference{}
	d.messages("", s.mentioned(rule), a.ProtoReflect(), b.ProtoReflect())
	slices.Sort(d.paths)
	if len(d.paths) > maxUnmentioned {
		d.paths = append(d.paths[:maxUnmentioned-1], "…")
	}
	return d.paths
}

// difference collects the paths in which two messages differ.
type difference struct{ paths []string }

func (d *difference) add(path string) {
	// One more than is shown says that there are more.
	if len(d.paths) <= maxUnmentioned {
		d.paths = append(d.paths, path)
	}
}

func (d *difference) messages(prefix string, mentioned *mentions, a, b protoreflect.Message) {
	if mentioned != nil && mentioned.whole {
		return
	}
	fields := a.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		d.field(prefix+string(field.Name()), field, mentioned.at(string(field.Name())), a, b)
	}
	if string(a.GetUnknown()) != string(b.GetUnknown()) {
		d.add(prefix + "(unknown fields)")
	}
}

func (d *difference) field(path string, field protoreflect.FieldDescriptor, mentioned *mentions, a, b protoreflect.Message) {
	switch {
	case field.FullName() == "envoy.config.core.v3.Node.id":
	case mentioned != nil && mentioned.whole, !a.Has(field) && !b.Has(field):
	case a.Get(field).Equal(b.Get(field)) && a.Has(field) == b.Has(field):
	case field.FullName() == "envoy.config.core.v3.Node.client_features":
		if !slices.Equal(passedFeatures(a.Interface().(*corev3.Node)), passedFeatures(b.Interface().(*corev3.Node))) {
			d.add(path)
		}
	case field.Message() == nil || field.IsList() || field.IsMap():
		d.add(path)
	case field.Message().FullName() == "google.protobuf.Struct":
		d.structs(path, mentioned, structOf(a, field), structOf(b, field))
	case mentioned != nil || field.Message().FullName() == "envoy.config.core.v3.Locality":
		d.messages(path+".", mentioned, a.Get(field).Message(), b.Get(field).Message())
	default:
		d.add(path)
	}
}

func structOf(m protoreflect.Message, field protoreflect.FieldDescriptor) *structpb.Struct {
	return m.Get(field).Message().Interface().(*structpb.Struct)
}

// structs compares key by key; below a key only where the rules do, too.
func (d *difference) structs(path string, mentioned *mentions, a, b *structpb.Struct) {
	keys := slices.Sorted(maps.Keys(a.GetFields()))
	for key := range b.GetFields() {
		if _, both := a.GetFields()[key]; !both {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		below := mentioned.at(key)
		one, other := a.GetFields()[key], b.GetFields()[key]
		switch {
		case below != nil && below.whole, proto.Equal(one, other):
		case below != nil && one.GetStructValue() != nil && other.GetStructValue() != nil:
			d.structs(path+"."+shownKey(key), below, one.GetStructValue(), other.GetStructValue())
		default:
			d.add(path + "." + shownKey(key))
		}
	}
}

func shownKey(key string) string {
	if len(key) <= maxShownKey {
		return key
	}
	return strings.ToValidUTF8(key[:maxShownKey], "") + "…"
}
