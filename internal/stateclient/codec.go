package stateclient

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// codec receives a DiscoveryResponse into a *wire.Received. With gRPC's own one
// a response that cannot be decoded would end the stream, and could not be
// rejected (ACK-6).
type codec struct{ encoding.CodecV2 }

func newCodec() encoding.CodecV2 { return codec{encoding.GetCodecV2(proto.Name)} }

// Unmarshal carries out encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*wire.Received)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	// A resource's bytes are copied, so that nothing refers to data afterwards.
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	decode(buf.ReadOnlyData(), r)
	return nil
}
