package wire

import "google.golang.org/protobuf/encoding/protowire"

const (
	fieldLocalities = 2 // of a ClusterLoadAssignment
	// In a LocalityLbEndpoints: the endpoints, a list of them, or where they come from.
	fieldLbEndpoints    = 2
	fieldLbEndpointList = 7
	fieldLEDS           = 8
)

// HasEndpoints reports whether a ClusterLoadAssignment has any endpoint, or says where they come
// from. It stops at the first one.
func (r *Resource) HasEndpoints() bool {
	for it := (fields{rest: r.value()}); it.next(); {
		if !it.is(fieldLocalities, protowire.BytesType) {
			continue
		}
		for in := (fields{rest: it.body}); in.next(); {
			if in.is(fieldLbEndpoints, protowire.BytesType) || in.is(fieldLbEndpointList, protowire.BytesType) || in.is(fieldLEDS, protowire.BytesType) {
				return true
			}
		}
	}
	return false
}
