package fleet

import (
	"fmt"

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

// response is what a client reads of a response before it looks at resources. All
// of it lies in the message.
type response struct{ version, typeURL, nonce []byte }

// field takes the first field off a message. Only a length-delimited one has a body.
func field(b []byte) (number protowire.Number, body, rest []byte, err error) {
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 {
		return 0, nil, nil, protowire.ParseError(n)
	}
	var size int
	if kind == protowire.BytesType {
		body, size = protowire.ConsumeBytes(b[n:])
	} else {
		number, size = 0, protowire.ConsumeFieldValue(number, kind, b[n:])
	}
	if size < 0 {
		return 0, nil, nil, protowire.ParseError(size)
	}
	return number, body, b[n+size:], nil
}

// receiver is what takes up the parts of a response.
type receiver interface {
	resource(name, version, payload []byte) error
	removed(name []byte) error
}

// decode hands the parts of a response to r, in their order. state says that the
// response is one of the state of the world, whose resources have neither name nor
// version.
func decode(message []byte, state bool, r receiver) (response, error) {
	var resp response
	for len(message) > 0 {
		number, body, rest, err := field(message)
		if err != nil {
			return resp, fmt.Errorf("decoding a response: %w", err)
		}
		message = rest
		switch {
		case number == responseVersion:
			resp.version = body
		case number == responseTypeURL:
			resp.typeURL = body
		case number == responseNonce:
			resp.nonce = body
		case number == responseResources && state:
			err = r.resource(nil, nil, body)
		case number == responseResources:
			err = decodeResource(body, r)
		case number == responseRemoved && !state:
			err = r.removed(body)
		}
		if err != nil {
			return resp, err
		}
	}
	return resp, nil
}

func decodeResource(b []byte, r receiver) error {
	name, version := []byte{}, []byte{} // given, if only as empty
	var payload []byte
	for len(b) > 0 {
		number, body, rest, err := field(b)
		if err != nil {
			return fmt.Errorf("decoding a resource: %w", err)
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
