package wire

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// fieldStateErrors is that of the errors of a DiscoveryResponse.
const fieldStateErrors protowire.Number = 7

const (
	// fieldAnyValue is that of google.protobuf.Any.
	fieldAnyValue protowire.Number = 2
	// fieldPayloadName is where most resource types have their name (nameField).
	fieldPayloadName protowire.Number = 1
	// fieldPayloadMetadata is where mcpResourceTypeURL has a message with the name.
	fieldPayloadMetadata protowire.Number = 1
)

// ResourceTypeURL is the type of a payload that wraps a resource in a
// state-of-the-world response, with a name, a version and a ttl of its own (RES-13).
const ResourceTypeURL = "type.googleapis.com/envoy.service.discovery.v3.Resource"

// ErrUnnamed is wrapped by the error for a bare payload that has no name, and for one
// that is wrapped without: of a list collection, where field 1 are its entries, and of
// a redirect (LIST-1, LOC-1).
var ErrUnnamed = errors.New("a payload of this type has no name of its own: it must be wrapped in " +
	"envoy.service.discovery.v3.Resource with a name")

var (
	errNoType     = errors.New("a payload without a type")
	errEmptyShell = errors.New("neither a name nor a payload nor a ttl")
)

// maxUnnamed is how many elements without a name are told of: all have the same fault.
const maxUnnamed = 8

// takeOfState is take for the fields of a response of the state of the world.
func (r *Response) takeOfState(d *decoder, f *field) error {
	switch f.num {
	case fieldResources:
		return r.addResource(d, f.body)
	case fieldStateControlPlane:
		r.ControlPlane = identifier(f.body)
	case fieldStateErrors:
		return add(&r.Errors, "resource_errors", f.body, decodeResourceError)
	}
	return nil
}

// addResource adds an element of resources.
func (r *Response) addResource(d *decoder, b []byte) error {
	index := len(r.Resources) + d.unnamed
	res, err := d.cut.cutAny(b)
	switch {
	case err == nil:
		r.Resources = append(r.Resources, res)
		return nil
	case !errors.Is(err, ErrUnnamed):
		return within(element("resources", index), err)
	}
	if d.unnamed++; d.unnamed <= maxUnnamed {
		r.Unnamed = append(r.Unnamed, within(element("resources", index), err))
	}
	return nil
}

// NewStateResource is [NewResource] for an element of a state-of-the-world response
// that did not come as bytes: a bare payload, or a wrapped one (RES-13), named as in
// [Response]. It does not keep packed. Errors are a [*DecodeError], whose Field is a
// path within packed and which tells nothing of the payload (OPS-6); it wraps
// [ErrUnnamed] where that is what is wrong.
func NewStateResource(packed *anypb.Any) (*Resource, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(packed)
	if err != nil {
		return nil, within("type_url", err) // it alone can be invalid
	}
	var c cutter
	r, err := c.cutAny(b)
	return r, within("", err)
}

// cutAny copies the encoded Any b, a resource or a wrapped one, into a Resource. It
// does not keep b.
func (c *cutter) cutAny(b []byte) (*Resource, error) {
	c.reset()
	value, err := c.openAny(b)
	if err != nil {
		return nil, err
	}
	if string(c.anyTypeURL) == ResourceTypeURL {
		return c.cutWrapped(value)
	}
	if c.name, err = c.payloadName(value); err != nil {
		return nil, within("value", err)
	}
	c.payload = append(c.payload, b)
	r := new(Resource)
	c.store(r, nil)
	return r, nil
}

// cutWrapped is cut for a resource that a state-of-the-world response wraps. Where
// only the payload has a name, as it would without the wrapping, it is that.
func (c *cutter) cutWrapped(b []byte) (*Resource, error) {
	c.reset()
	if err := c.scan(b); err != nil {
		return nil, within("value", err)
	}
	if len(c.name) == 0 && len(c.inner) == 0 {
		if len(c.payload) == 0 && !c.hasTTL {
			return nil, within("value", errEmptyShell)
		}
		var value []byte
		for _, part := range c.payload { // all of them merged are the payload; the last value counts
			v, err := c.openAny(part)
			if err != nil {
				return nil, within("value.resource", err)
			}
			if v != nil {
				value = v
			}
		}
		if len(c.payload) == 0 {
			return c.finish(b), nil // the heartbeat of the name "" (TTL-3, NAME-9)
		}
		var err error
		if c.name, err = c.payloadName(value); err != nil {
			return nil, within("value.resource.value", err)
		}
	}
	return c.finish(b), nil
}

// openAny notes the type of the encoded Any b and returns its value.
func (c *cutter) openAny(b []byte) (value []byte, err error) {
	it := fields{rest: b}
	for it.next() {
		switch {
		case it.is(fieldAnyTypeURL, protowire.BytesType):
			c.anyTypeURL = it.body
			if err := checkString("type_url", it.body); err != nil {
				return nil, err
			}
		case it.is(fieldAnyValue, protowire.BytesType):
			value = it.body
		}
	}
	return value, it.err
}

// payloadName reads the name out of a payload of the type that openAny has noted, and
// nothing else. The last one counts, so all of the payload must be there. The name is
// empty where the payload says none, and where this build does not know the type: no name
// is guessed (NAME-9).
func (c *cutter) payloadName(b []byte) (name []byte, err error) {
	number := nameField(c.anyTypeURL)
	switch {
	case len(c.anyTypeURL) == 0:
		return nil, errNoType
	case unnamed(c.anyTypeURL):
		return nil, ErrUnnamed
	case string(c.anyTypeURL) == mcpResourceTypeURL:
		if b, err = lastField(b, fieldPayloadMetadata); err != nil {
			return nil, err
		}
		number = fieldPayloadName
	case number == 0:
		return nil, nil
	}
	if name, err = lastField(b, number); err != nil {
		return nil, err
	}
	return name, checkString("name", name)
}

// lastField gives the last field of a number that is a message or a string; nil without one.
func lastField(b []byte, number protowire.Number) (last []byte, err error) {
	it := fields{rest: b}
	for it.next() {
		if it.is(number, protowire.BytesType) {
			last = it.body
		}
	}
	return last, it.err
}
