package downstream

import (
	"encoding/binary"
	"errors"
	"io"
	"math"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/quota"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const (
	messageHead = 5 // bytes before each message: whether it is compressed, and its length
	// largestPart is how many bytes of a message a client may send at once, beyond those that are in
	// flight before anybody reads. It takes a client as many round trips as there are parts.
	largestPart = 1 << 20
)

var (
	errCompressed = status.Error(codes.Unimplemented, "the relay takes no compressed messages")
	errCutOff     = status.Error(codes.Internal, "the stream ended within a message")
	errUnfinished = status.Error(codes.ResourceExhausted, "clients have begun more large messages than the relay has room for (limits.unfinished_bytes, limits.share): try again later")
)

// messageReader reads messages. gRPC's transport streams have these methods, although their public
// interface does not show them. Reading n bytes lets the client send them.
type messageReader interface {
	ReadMessageHeader(head []byte) error
	Read(n int) (mem.BufferSlice, error)
}

// incoming is a stream of a client that receives large messages in parts. gRPC's own RecvMsg lets each
// stream have a message of the largest size in memory, for as long as the client likes, and nobody knows
// how many there are (LIM-1).
type incoming struct {
	grpc.ServerStream

	shared *shared
	reader messageReader
	client *identity.Client // nil: it came through no listener that the relay knows
	head   [messageHead]byte
	most   uint32 // bytes of a message
}

// receiving gives a stream whose messages have so many bytes at most; the stream itself if gRPC has changed. The
// stream has reached a handler.
func (s *shared) receiving(g grpc.ServerStream, most int) grpc.ServerStream {
	client := identity.ClientOf(g.Context())
	client.Conn().Served()
	reader, ok := grpc.ServerTransportStreamFromContext(g.Context()).(messageReader)
	if !ok {
		return g
	}
	return &incoming{ServerStream: g, shared: s, reader: reader, client: client, most: uint32(min(most, math.MaxUint32))}
}

// RecvMsg implements grpc.ServerStream.
func (i *incoming) RecvMsg(m any) error {
	if err := i.reader.ReadMessageHeader(i.head[:]); err != nil {
		return receiveError(err)
	}
	n := binary.BigEndian.Uint32(i.head[1:])
	switch {
	case i.head[0] != 0:
		return errCompressed
	case n > i.most:
		return status.Errorf(codes.ResourceExhausted, "received message larger than max (%d vs. %d)", n, i.most)
	case n <= freeUnfinished:
		data, err := i.part(int(n))
		if err != nil {
			return err
		}
		return i.decode(data, m)
	}
	return i.large(int(n), m)
}

// large receives a message that counts.
func (i *incoming) large(n int, m any) error {
	message := i.shared.unfinished.Begin()
	defer message.End()
	var all mem.BufferSlice
	who := func() quota.Client {
		peer := peerOf(i.Context())
		return quota.ClientOf(&peer)
	}
	for got := 0; got < n; {
		next := min(n-got, max(freeUnfinished, min(got, largestPart)))
		if !message.Add(next, who) {
			all.Free()
			i.shared.observer.Limited(LimitUnfinished)
			return errUnfinished
		}
		data, err := i.part(next)
		if err != nil {
			all.Free()
			return err
		}
		all, got = append(all, data...), got+next
	}
	return i.decode(all, m)
}

// part waits for bytes of a message.
func (i *incoming) part(n int) (mem.BufferSlice, error) {
	i.client.Conn().Asked(n)
	data, err := i.reader.Read(n)
	if err == nil {
		return data, nil
	}
	i.client.Conn().Unasked(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return nil, receiveError(err)
}

// decode decodes a message, and gives its memory back.
func (i *incoming) decode(data mem.BufferSlice, m any) error {
	defer data.Free()
	return decodeMessage(i.shared.codec, data, m)
}

// decodeMessage decodes a message. The error is a status.
func decodeMessage(codec encoding.CodecV2, data mem.BufferSlice, m any) error {
	err := codec.Unmarshal(data, m)
	if crammed, ok := errors.AsType[*wire.NamesError](err); ok {
		return status.Error(codes.ResourceExhausted, crammed.Error())
	}
	if _, ok := status.FromError(err); ok { // of a wire.Taker, or nil
		return err
	}
	return status.Errorf(codes.Internal, "a message cannot be decoded: %v", err)
}

// receiveError gives the status for an error of the transport; io.EOF for the end of the stream.
func receiveError(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errCutOff
	case err == io.EOF: //nolint:errorlint // the very error: the stream's end
		return err
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.Unavailable, err.Error())
}
