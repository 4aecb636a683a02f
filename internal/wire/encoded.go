package wire

import "google.golang.org/grpc/mem"

// Encoded is a target of [Codec] that keeps a message as it came, in grpc's memory: the receiver chooses when
// it is decoded. Decode or Free is to be called.
type Encoded struct{ data mem.BufferSlice }

// Decode decodes the message into another target of [Codec], and frees it.
func (e *Encoded) Decode(v any) error {
	defer e.Free()
	return Codec().Unmarshal(e.data, v)
}

// Free gives the memory of the message back. Calling it again does nothing.
func (e *Encoded) Free() {
	e.data.Free()
	e.data = nil
}
