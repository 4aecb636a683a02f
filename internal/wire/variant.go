package wire

import (
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
)

// fieldConstraints is that of ResourceName.
const fieldConstraints protowire.Number = 2

// Variant names one of several variants of a resource: its name and its dynamic
// parameter constraints, encoded as the server did (DYN-1).
type Variant struct{ Name, Constraints string }

// Constraints are the resource's dynamic parameter constraints, encoded; "" for none.
// What was in several pieces is one: that is how protobuf merges messages.
func (r *Resource) Constraints() string {
	if r.named <= 0 {
		return ""
	}
	return constraintsIn(r.framed[r.tail:][:r.named])
}

// Constrained reports whether there are any. It costs next to nothing for all others. A nil
// resource has none.
func (r *Resource) Constrained() bool { return r != nil && r.named > 0 && r.Constraints() != "" }

// constraintsIn reads them out of an encoded ResourceName, which was checked.
func constraintsIn(b []byte) string {
	var found []byte
	it := fields{rest: b}
	for it.next() {
		if it.is(fieldConstraints, protowire.BytesType) {
			found = append(found, it.body...)
		}
	}
	return string(found)
}

// decodeVariant copies what it keeps of an encoded ResourceName.
func decodeVariant(b []byte) (Variant, error) {
	var name []byte
	if _, err := splitResourceName(b, &name, nil); err != nil {
		return Variant{}, err
	}
	if err := checkMessage("", b, new(discoveryv3.ResourceName), responseDepth); err != nil {
		return Variant{}, err
	}
	return Variant{string(name), constraintsIn(b)}, nil
}

// size is that of the encoded ResourceName.
func (v Variant) size() int { return sizeStringField(v.Name) + sizeStringField(v.Constraints) }

func (v Variant) append(b []byte) []byte {
	b = appendBytesTag(b, fieldRemovedNames, v.size())
	b = appendStringField(b, fieldNameName, v.Name)
	return appendStringField(b, fieldConstraints, v.Constraints)
}

// Removes reports whether a name was added to removed_resources. It takes as long as
// there are names.
func (b *Builder) Removes(name string) bool { return slices.Contains(b.removed, name) }

// RemoveVariant adds a variant to removed_resource_names, where its constraints were
// sent to the client (DYN-1); without any it is Remove.
func (b *Builder) RemoveVariant(v Variant) {
	if v.Constraints == "" {
		b.Remove(v.Name)
		return
	}
	b.variants = append(b.variants, v)
	b.addOwn(sizeBytesField(v.size()))
}
