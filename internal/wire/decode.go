package wire

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of envoy.service.discovery.v3.DiscoveryResponse and DeltaDiscoveryResponse.
const (
	fieldResponseVersion protowire.Number = 1 // version_info, system_version_info
	fieldResources       protowire.Number = 2
	fieldTypeURL         protowire.Number = 4
	fieldNonce           protowire.Number = 5
)

// Field numbers of a DeltaDiscoveryResponse only.
const (
	fieldRemoved      protowire.Number = 6
	fieldRemovedNames protowire.Number = 8
	fieldErrors       protowire.Number = 9
)

// Response is a response as a server sent it. It is a target of [Codec]: a response that
// cannot be decoded is an error of RecvMsg, which ends the stream. [Received] leaves it
// alive.
type Response struct {
	// State says that it is one of the state of the world (DiscoveryResponse), else it is
	// incremental (DeltaDiscoveryResponse). Who has it decoded sets it.
	State          bool
	TypeURL, Nonce string
	Version        string // system_version_info or, of the state of the world, version_info
	// ControlPlane is control_plane.identifier (STR-10), at most MaxIdentifier bytes of it.
	ControlPlane string
	// Resources are in the server's order. A name that comes twice is here twice; refusing
	// it is the receiver's business (ACK-6). Those of the state of the world are in the
	// stored form of an incremental response, so that nobody need know where they came
	// from. The name of a bare payload is its field 1 where this build knows the type,
	// else the empty string (NAME-9); a wrapped resource has its own, and is a heartbeat
	// without payload (RES-13, TTL-3).
	Resources []*Resource
	// Errors say why a resource is not available.
	Errors []ResourceError

	// Removed are removed_resources and the names in removed_resource_names that come
	// without constraints, in the server's order. Of the state of the world a list has none, unless it is
	// Partial.
	Removed []string
	// Constrained are the names in removed_resource_names that come with some (DYN-1).
	Constrained []string

	// Unnamed say what is wrong with elements of the state of the world that are left out
	// of Resources since nothing tells what they are called ([ErrUnnamed]); of many, with
	// the first few. What else is in the response may be used.
	Unnamed []error
	// Complete says that this is everything there is of the type: what is wanted and not
	// here does not exist. No server can say so; a source that reads files knows. It is of
	// the state of the world. Decode leaves it false.
	Complete bool
	// Partial says that a list of the state of the world need not have all that there is, even if those of
	// its type do: only what is in Removed is gone. No server can say so; who asked a second time knows. Decode
	// leaves it false.
	Partial bool
	// Beside says that it came on another stream than what it is applied to, which may be ahead or behind: it answers nothing that was
	// asked for there. Decode leaves it false.
	Beside bool
}

// Decode replaces r, but for State, by what the encoded response b says. It copies what it
// keeps. If b cannot be decoded, it returns a [*DecodeError] and r holds the type URL and
// the nonce where b got as far as to tell them, so that it can be refused (ACK-6), and
// nothing else.
func (r *Response) Decode(b []byte) error {
	*r = Response{State: r.State}
	var d decoder
	if err := d.decode(b, r); err != nil {
		*r = Response{State: r.State, TypeURL: r.TypeURL, Nonce: r.Nonce}
		return err
	}
	return nil
}

// HeartbeatsOnly reports whether a response of the state of the world has resources, and none with a payload: it is
// no list (TTL-3).
func (r *Response) HeartbeatsOnly() bool {
	return r.State && !r.Complete && len(r.Resources) > 0 && !slices.ContainsFunc(r.Resources, (*Resource).HasPayload)
}

// take takes a field of the response.
func (r *Response) take(d *decoder, f *field) error {
	switch {
	case f.num == fieldTypeURL:
		return setString(&r.TypeURL, "type_url", f.body)
	case f.num == fieldNonce:
		return setString(&r.Nonce, "nonce", f.body)
	case f.num == fieldResponseVersion && r.State:
		return setString(&r.Version, "version_info", f.body)
	case f.num == fieldResponseVersion:
		return setString(&r.Version, "system_version_info", f.body)
	case d.refused():
		return nil
	case r.State:
		return r.takeOfState(d, f)
	default:
		return r.takeOfDelta(d, f)
	}
}

// takeOfDelta is take for the fields of an incremental response.
func (r *Response) takeOfDelta(d *decoder, f *field) error {
	switch f.num {
	case fieldResources:
		return add(&r.Resources, "resources", f.body, d.cut.cut)
	case fieldRemoved:
		return addString(&r.Removed, "removed_resources", f.body)
	case fieldRemovedNames:
		name, constrained, err := decodeRemovedName(f.body)
		switch {
		case err != nil:
			return within("removed_resource_names", err)
		case constrained:
			r.Constrained = append(r.Constrained, name)
		default:
			r.Removed = append(r.Removed, name)
		}
	case fieldControlPlane:
		r.ControlPlane = identifier(f.body)
	case fieldErrors:
		return add(&r.Errors, "resource_errors", f.body, decodeResourceError)
	}
	return nil
}

// Received is a target of [Codec] like Response, but a response that cannot be decoded
// does not cost the stream: Err says what is wrong with it, and the type URL and the nonce
// are there if they could be read, so that it can be answered with a NACK (ACK-6).
type Received struct {
	Response
	// Size is that of the encoded message, in bytes.
	Size int
	// Err is a *DecodeError or nil. Nothing of the response may be used if it is set.
	Err error
}
