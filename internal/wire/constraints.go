package wire

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
)

// fieldConstraints is that of ResourceName.
const fieldConstraints protowire.Number = 2

// Constrained reports whether the resource is for some dynamic parameters only (DYN-1). It costs next to
// nothing for all others.
func (r *Resource) Constrained() bool { return r.named > 0 && constrains(r.framed[r.tail:][:r.named]) }

// constrains reports whether an encoded ResourceName, which was checked, has constraints.
func constrains(b []byte) bool {
	it := fields{rest: b}
	for it.next() {
		if it.is(fieldConstraints, protowire.BytesType) && len(it.body) > 0 {
			return true
		}
	}
	return false
}

// decodeRemovedName copies the name in an encoded ResourceName, and says whether it has constraints.
func decodeRemovedName(b []byte) (name string, constrained bool, err error) {
	var text []byte
	if _, err := splitResourceName(b, &text, nil); err != nil {
		return "", false, err
	}
	if err := checkMessage("", b, new(discoveryv3.ResourceName), responseDepth); err != nil {
		return "", false, err
	}
	return string(text), constrains(b), nil
}
