package wire

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Raw is a message as it came. [Codec] receives into a *Raw and sends a Raw, byte for byte.
type Raw []byte

// Take implements Taker.
func (r *Raw) Take(message mem.BufferSlice) error {
	*r = message.Materialize()
	return nil
}

// ResponseType returns the type URL of a response of either form.
func (r Raw) ResponseType() (typeURL string, err error) {
	it := fields{rest: r}
	for it.next() {
		if it.is(fieldTypeURL, protowire.BytesType) {
			typeURL = string(it.body)
		}
	}
	return typeURL, it.err
}
