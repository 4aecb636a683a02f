package wire

import (
	"errors"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Taker is received into: Take has a message as it came, before the message's memory goes back.
type Taker interface {
	Take(message mem.BufferSlice) error
}

// Codec returns the gRPC codec of this package, for grpc.ForceServerCodecV2 and
// grpc.ForceCodecV2. It sends a *[Message] as its gather list without copying
// it and receives into a *[Response] or a *[Received], and on the other side into a
// *[DeltaRequest] or a *[StateRequest]; a [Raw] passes as it is, and everything else goes through
// grpc's own codec for protobuf messages. Its name is "proto", so that peers see an ordinary content type.
func Codec() encoding.CodecV2 {
	return codec{CodecV2: encoding.GetCodecV2(proto.Name), requests: new(requestPool)}
}

// codec embeds the codec for ordinary messages, and with it the name.
type codec struct {
	encoding.CodecV2
	requests mem.BufferPool
}

var errNilMessage = errors.New("wire: cannot send a nil *Message")

// Marshal carries out encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *Message:
		if m == nil {
			return nil, errNilMessage
		}
		return m.gather, nil
	case Raw:
		return mem.BufferSlice{mem.SliceBuffer(m)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal carries out encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch v := v.(type) {
	case *Response:
		return decodeBuffers(data, v)
	case *Received:
		v.Size = data.Len()
		v.Err = decodeBuffers(data, &v.Response)
		return nil
	case *DeltaRequest:
		return receiveRequest(data, c.requests, v)
	case *StateRequest:
		return receiveRequest(data, c.requests, v)
	case Taker:
		return v.Take(data)
	default:
		return c.CodecV2.Unmarshal(data, v)
	}
}

// decodeBuffers decodes out of pooled memory, which goes back at once: Decode
// keeps nothing of it. A message in one buffer is not copied.
func decodeBuffers(data mem.BufferSlice, r *Response) error {
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	return r.Decode(buf.ReadOnlyData())
}
