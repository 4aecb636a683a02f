package wire

import "google.golang.org/grpc/mem"

// Message is an encoded response as a gather list, a value that [Codec] sends
// without copying. It is immutable and sending does not consume it: grpc reads
// the list through a copy of its slice header, and the reference counting of
// the buffers does nothing, since the garbage collector owns them. So the same
// Message may be sent on any number of streams, also at once.
type Message struct {
	gather mem.BufferSlice
	size   int

	// Room for the usual message, an update of one or two resources, which then
	// costs no memory beside the Message and the bytes of its own.
	gather0 [3]mem.Buffer
	pieces0 [2]mem.SliceBuffer
}

// Len is the size of the encoded response in bytes.
func (m *Message) Len() int { return m.size }

// Bytes returns a flat copy, for tests and logs.
func (m *Message) Bytes() []byte { return m.gather.Materialize() }
