package wire

import "google.golang.org/protobuf/encoding/protowire"

// Field numbers of envoy.service.discovery.v3.DeltaDiscoveryResponse.
const (
	fieldSystemVersion protowire.Number = 1
	fieldResources     protowire.Number = 2
	fieldTypeURL       protowire.Number = 4
	fieldNonce         protowire.Number = 5
	fieldRemoved       protowire.Number = 6
	fieldRemovedNames  protowire.Number = 8
	fieldErrors        protowire.Number = 9
)

// DeltaResponse is an incremental response as a server sent it. It is a target
// of [Codec]: a response that cannot be decoded is an error of RecvMsg, which
// ends the stream. [Received] leaves it alive.
type DeltaResponse struct {
	TypeURL, Nonce, SystemVersion string
	// ControlPlane is control_plane.identifier (STR-10), at most MaxIdentifier bytes of it.
	ControlPlane string
	// Resources are in the server's order. A name that comes twice is here
	// twice; refusing it is the receiver's business (ACK-6).
	Resources []*Resource
	// Removed are removed_resources and the names in removed_resource_names that come
	// without constraints, in the server's order.
	Removed []string
	// RemovedVariants are the names in removed_resource_names with theirs (DYN-1).
	RemovedVariants []Variant
	// Errors say why a resource is not available.
	Errors []ResourceError
}

// Decode replaces r by what the encoded DeltaDiscoveryResponse b says. It
// copies what it keeps. If b cannot be decoded, it returns a [*DecodeError] and
// r holds the type URL and the nonce where b got as far as to tell them, so
// that it can be refused (ACK-6), and nothing else.
func (r *DeltaResponse) Decode(b []byte) error {
	*r = DeltaResponse{}
	var d decoder
	if err := d.decode(b, r); err != nil {
		*r = DeltaResponse{TypeURL: r.TypeURL, Nonce: r.Nonce}
		return err
	}
	return nil
}

// take implements envelope.
func (r *DeltaResponse) take(d *decoder, f *field) error {
	switch f.num {
	case fieldTypeURL:
		return setString(&r.TypeURL, "type_url", f.body)
	case fieldNonce:
		return setString(&r.Nonce, "nonce", f.body)
	case fieldSystemVersion:
		return setString(&r.SystemVersion, "system_version_info", f.body)
	}
	if d.refused() {
		return nil
	}
	switch f.num {
	case fieldResources:
		return add(&r.Resources, "resources", f.body, d.cut.cut)
	case fieldRemoved:
		return addString(&r.Removed, "removed_resources", f.body)
	case fieldRemovedNames:
		v, err := decodeVariant(f.body)
		if err != nil {
			return within("removed_resource_names", err)
		}
		if v.Constraints == "" {
			r.Removed = append(r.Removed, v.Name)
		} else {
			r.RemovedVariants = append(r.RemovedVariants, v)
		}
	case fieldControlPlane:
		r.ControlPlane = identifier(f.body)
	case fieldErrors:
		return add(&r.Errors, "resource_errors", f.body, decodeResourceError)
	}
	return nil
}

// Received is a target of [Codec] like DeltaResponse, but a response that
// cannot be decoded does not cost the stream: Err says what is wrong with it,
// and the type URL and the nonce are there if they could be read, so that it
// can be answered with a NACK (ACK-6).
type Received struct {
	DeltaResponse
	// Size is that of the encoded message, in bytes.
	Size int
	// Err is a *DecodeError or nil. Nothing of the response may be used if it is set.
	Err error
}
