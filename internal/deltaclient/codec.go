package deltaclient

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// received is a response together with its encoded size.
type received struct {
	wire.Received
	size int
}

// codec is wire's, for which a response that cannot be decoded does not cost
// the stream (ACK-6), and notes the size.
type codec struct{ encoding.CodecV2 }

// Unmarshal carries out encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*received)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	r.size = data.Len()
	return c.CodecV2.Unmarshal(data, &r.Received)
}
