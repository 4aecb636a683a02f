// Package encoded has messages as bytes for tests, the same ones for the same message.
package encoded

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Bytes encodes a message.
func Bytes(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err) // a test made the message
	}
	return b
}

// Any packs a message.
func Any(m proto.Message) *anypb.Any {
	return &anypb.Any{TypeUrl: "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName()), Value: Bytes(m)}
}

// Payload gives the message that is in an encoded Any, "" for no bytes.
func Payload(b []byte) string {
	var a anypb.Any
	if err := proto.Unmarshal(b, &a); err != nil {
		panic(err) // it was a part of a response that was decoded
	}
	return string(a.GetValue())
}
