package wire

import (
	"bytes"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
)

// A Raw passes as it is, whatever it holds: nothing of it is decoded. Its type is what decoding a response gives.
func TestRaw(t *testing.T) {
	odd := Raw{0xff, 0xff, 0x01}
	conn := serve(t, func(s grpc.ServerStream) error {
		var got Raw
		if err := s.RecvMsg(&got); err != nil {
			return err
		}
		return s.SendMsg(got)
	}, grpc.WithDefaultCallOptions(grpc.ForceCodecV2(Codec())))
	g, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, deltaMethod)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.SendMsg(odd); err != nil {
		t.Fatal(err)
	}
	var got Raw
	if err := g.RecvMsg(&got); err != nil || !bytes.Equal(got, odd) {
		t.Errorf("%x, %v", got, err)
	}
	response := Raw(protowire.AppendString(protowire.AppendTag(nil, fieldTypeURL, protowire.BytesType), "first"))
	response = protowire.AppendString(protowire.AppendTag(response, fieldTypeURL, protowire.BytesType), "last")
	var decoded Response
	if err := decoded.Decode(response); err != nil {
		t.Fatal(err)
	}
	if typeURL, err := response.ResponseType(); err != nil || typeURL != decoded.TypeURL {
		t.Errorf("%q, %v; decoded %q", typeURL, err, decoded.TypeURL)
	}
	if _, err := odd.ResponseType(); err == nil {
		t.Error("no error for what cannot be decoded")
	}
}
