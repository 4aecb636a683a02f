package fleet

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of the discovery messages. Those of the two forms of a response
// agree where they mean the same.
const (
	responseVersion   = 1
	responseResources = 2
	responseTypeURL   = 4
	responseNonce     = 5
	responseRemoved   = 6 // incremental only

	resourceVersion = 1
	resourceAny     = 2
	resourceName    = 3
)

// response is what a client reads of a response beside resources.
type response struct{ version, typeURL, nonce []byte }

// receiver is what takes up responses, part by part.
type receiver interface {
	// resource and removed must not keep the bytes that they are given. name and version
	// are nil in the state of the world.
	resource(name, version, payload []byte) error
	removed(name []byte) error
	// whole says that a response is there as a whole.
	whole(r *response)
}

// decoder reads responses as their bytes come, and keeps none of them but the beginning
// of a field: a client that is sent much needs no memory for it. The zero value expects
// the beginning of a message.
type decoder struct {
	left    int    // bytes of the message that were not read
	partial []byte // the beginning of a field, or of what stands before a message
	response
}

// feed takes the next bytes of a stream. state says that responses are those of the state
// of the world, whose resources have neither name nor version.
func (d *decoder) feed(b []byte, state bool, r receiver) error {
	for len(b) > 0 {
		from := b
		if len(d.partial) > 0 {
			n := min(len(b), d.need()-len(d.partial))
			d.partial = append(d.partial, b[:n]...)
			from, b = d.partial, b[n:]
		}
		n, err := d.cut(from, state, r)
		switch {
		case err != nil:
			return err
		case n == 0 && len(d.partial) == 0:
			d.partial = append(d.partial, b...)
			return nil
		case n == 0: // more is known of what is needed, or b is used up
		case len(d.partial) > 0:
			d.partial = d.partial[:0]
		default:
			b = b[n:]
		}
	}
	if len(d.partial) == 0 && cap(d.partial) > keepCap {
		d.partial = nil
	}
	return nil
}

// need is the size that partial has to have before more can be said.
func (d *decoder) need() int {
	if d.left == 0 {
		return messageHead
	}
	_, kind, n := protowire.ConsumeTag(d.partial)
	if n < 0 || kind != protowire.BytesType {
		return len(d.partial) + 1
	}
	size, m := protowire.ConsumeVarint(d.partial[n:])
	if m < 0 {
		return len(d.partial) + 1
	}
	return min(n+m+int(size), d.left)
}

// cut takes the first thing off b, and gives its size, 0 if it is not there as a whole.
func (d *decoder) cut(b []byte, state bool, r receiver) (int, error) {
	if d.left == 0 {
		return d.begin(b, r)
	}
	number, body, rest, err := field(b)
	n := len(b) - len(rest)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) && len(b) < d.left:
		return 0, nil
	case err != nil, n > d.left:
		return 0, fmt.Errorf("a response that cannot be decoded: %w", cmp.Or(err, io.ErrUnexpectedEOF))
	}
	if err := d.take(number, body, state, r); err != nil {
		return 0, err
	}
	if d.left -= n; d.left == 0 {
		r.whole(&d.response)
	}
	return n, nil
}

// begin reads what stands before a message.
func (d *decoder) begin(b []byte, r receiver) (int, error) {
	if len(b) < messageHead {
		return 0, nil
	}
	if b[0] != 0 {
		return 0, errors.New("a compressed message, which nobody asked for")
	}
	d.version, d.typeURL, d.nonce = d.version[:0], d.typeURL[:0], d.nonce[:0]
	if d.left = int(binary.BigEndian.Uint32(b[1:])); d.left == 0 {
		r.whole(&d.response)
	}
	return messageHead, nil
}

// take takes up a field.
func (d *decoder) take(number protowire.Number, body []byte, state bool, r receiver) error {
	switch {
	case number == responseVersion:
		d.version = append(d.version[:0], body...)
	case number == responseTypeURL:
		d.typeURL = append(d.typeURL[:0], body...)
	case number == responseNonce:
		d.nonce = append(d.nonce[:0], body...)
	case number == responseResources && state:
		return r.resource(nil, nil, body)
	case number == responseResources:
		return decodeResource(body, r)
	case number == responseRemoved && !state:
		return r.removed(body)
	}
	return nil
}

// field takes the first field off a message. Only a length-delimited one has a body.
func field(b []byte) (number protowire.Number, body, rest []byte, err error) {
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 {
		return 0, nil, b, protowire.ParseError(n)
	}
	var size int
	if kind == protowire.BytesType {
		body, size = protowire.ConsumeBytes(b[n:])
	} else {
		number, size = 0, protowire.ConsumeFieldValue(number, kind, b[n:])
	}
	if size < 0 {
		return 0, nil, b, protowire.ParseError(size)
	}
	return number, body, b[n+size:], nil
}

func decodeResource(b []byte, r receiver) error {
	name, version := []byte{}, []byte{} // given, if only as empty
	var payload []byte
	for len(b) > 0 {
		number, body, rest, err := field(b)
		if err != nil {
			return fmt.Errorf("a resource that cannot be decoded: %w", err)
		}
		b = rest
		switch number {
		case resourceVersion:
			version = body
		case resourceAny:
			payload = body
		case resourceName:
			name = body
		}
	}
	return r.resource(name, version, payload)
}
