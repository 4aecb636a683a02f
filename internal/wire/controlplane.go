package wire

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	fieldControlPlane      protowire.Number = 7 // of a DeltaDiscoveryResponse
	fieldStateControlPlane protowire.Number = 6 // of a DiscoveryResponse
	fieldIdentifier        protowire.Number = 1 // of a ControlPlane
)

// MaxIdentifier bounds control_plane.identifier, in bytes: a store and each of its
// clients' responses hold it.
const MaxIdentifier = 1 << 10

// identifier reads the identifier of an encoded ControlPlane (STR-10). It tells who sent a
// response and nothing of what is in it, so a broken one counts as none.
func identifier(b []byte) string {
	it := fields{rest: b}
	id := ""
	for it.next() {
		if it.num == fieldIdentifier && it.typ == protowire.BytesType {
			id = string(it.body)
		}
	}
	if it.err != nil {
		return ""
	}
	return CutIdentifier(id)
}

// CutIdentifier gives an identifier that is valid and no longer than MaxIdentifier.
func CutIdentifier(id string) string {
	if len(id) > MaxIdentifier {
		n := MaxIdentifier
		for n > 0 && !utf8.RuneStart(id[n]) {
			n--
		}
		id = id[:n]
	}
	return strings.ToValidUTF8(id, "\uFFFD")
}

// SetControlPlane has the response say who sends it (STR-10): an incremental one, or one
// of the state of the world. It is to be called once at most, with valid UTF-8.
func (b *Builder) SetControlPlane(identifier string, state bool) {
	field := fieldControlPlane
	if state {
		field = fieldStateControlPlane
	}
	inner := appendStringField(nil, fieldIdentifier, identifier)
	b.controlPlane = string(append(appendBytesTag(nil, field, len(inner)), inner...))
	b.addOwn(len(b.controlPlane))
}

// RelayIdentifier begins what a relay calls itself, to clients and to servers, and Via stands before it if a control plane
// filled the response (STR-10).
const (
	RelayIdentifier = "xdsrelay/"
	Via             = " via "
)

// FromRelay reports whether a control plane identifier says that the last to pass the response on
// was a relay.
func FromRelay(identifier string) bool {
	if i := strings.LastIndex(identifier, Via); i >= 0 {
		identifier = identifier[i+len(Via):]
	}
	return strings.HasPrefix(identifier, RelayIdentifier)
}
