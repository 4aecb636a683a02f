package stateclient

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// convert makes r what a response says, in the terms that all variants share.
func convert(s *wire.ReceivedState, r *wire.Received) {
	*r = wire.Received{Size: s.Size, Err: s.Err, DeltaResponse: wire.DeltaResponse{
		TypeURL: s.TypeURL, Nonce: s.Nonce, SystemVersion: s.VersionInfo, Resources: s.Resources, Errors: s.Errors,
	}}
}

// decodeJSON reads the JSON of a response.
func decodeJSON(data []byte) *wire.ReceivedState {
	s := &wire.ReceivedState{Size: len(data)}
	var p discoveryv3.DiscoveryResponse
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, &p); err != nil {
		s.Err = undecodable(err)
		return s
	}
	b, err := proto.Marshal(&p)
	if err != nil {
		s.Err = undecodable(err)
		return s
	}
	s.Err = s.Decode(b)
	return s
}
