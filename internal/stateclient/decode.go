package stateclient

import (
	"errors"
	"fmt"
	"unicode/utf8"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// wrapper is the type of a resource that comes with a name and a version of its
// own (RES-13).
const wrapper = "type.googleapis.com/envoy.service.discovery.v3.Resource"

// decode makes r what an encoded DiscoveryResponse says. One that cannot be
// decoded is r.Err, and type URL and nonce are there if they could be read, so
// that it can be answered (ACK-6).
func decode(b []byte, r *wire.Received) {
	var p discoveryv3.DiscoveryResponse
	if err := proto.Unmarshal(b, &p); err != nil {
		*r = wire.Received{Size: len(b), Err: fmt.Errorf("cannot decode the response: %w", err)}
		r.TypeURL, r.Nonce = salvage(b)
		return
	}
	convert(&p, len(b), r)
}

// salvage reads type URL and nonce of a response that is broken elsewhere.
func salvage(b []byte) (typeURL, nonce string) {
	const fieldTypeURL, fieldNonce = 4, 5
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			break
		}
		m := protowire.ConsumeFieldValue(num, typ, b[n:])
		if m < 0 {
			break
		}
		if typ == protowire.BytesType {
			body, _ := protowire.ConsumeBytes(b[n:])
			switch {
			case !utf8.Valid(body):
			case num == fieldTypeURL:
				typeURL = string(body)
			case num == fieldNonce:
				nonce = string(body)
			}
		}
		b = b[n+m:]
	}
	return typeURL, nonce
}

// convert makes r what a response of a size says.
func convert(p *discoveryv3.DiscoveryResponse, size int, r *wire.Received) {
	*r = wire.Received{Size: size}
	r.TypeURL, r.Nonce, r.SystemVersion = p.GetTypeUrl(), p.GetNonce(), p.GetVersionInfo()
	for i, packed := range p.GetResources() {
		res, err := newResource(packed)
		if err != nil {
			r.Resources, r.Err = nil, fmt.Errorf("resources[%d]: %w", i, err)
			return
		}
		r.Resources = append(r.Resources, res)
	}
	for _, e := range p.GetResourceErrors() {
		r.Errors = append(r.Errors, wire.ResourceError{
			Name:    e.GetResourceName().GetName(),
			Code:    codes.Code(e.GetErrorDetail().GetCode()),
			Message: e.GetErrorDetail().GetMessage(),
		})
	}
}

// newResource makes a resource of an element of a response.
func newResource(packed *anypb.Any) (*wire.Resource, error) {
	res := &discoveryv3.Resource{Resource: packed}
	if packed.GetTypeUrl() == wrapper {
		res = new(discoveryv3.Resource)
		if err := proto.Unmarshal(packed.GetValue(), res); err != nil {
			return nil, fmt.Errorf("cannot decode the resource around the payload: %w", err)
		}
	}
	if res.GetName() == "" && res.GetResourceName().GetName() == "" {
		name, err := nameOf(res.GetResource().GetValue())
		if err != nil {
			return nil, err
		}
		res.Name = name
	}
	return wire.NewResource(res)
}

var errNameless = errors.New("the resource has no name")

// nameOf reads field 1 of a payload, which is the name in every xDS type.
func nameOf(payload []byte) (string, error) {
	var name []byte
	for len(payload) > 0 {
		num, typ, n := protowire.ConsumeTag(payload)
		if n < 0 {
			return "", fmt.Errorf("cannot read the name in the payload: %w", protowire.ParseError(n))
		}
		m := protowire.ConsumeFieldValue(num, typ, payload[n:])
		if m < 0 {
			return "", fmt.Errorf("cannot read the name in the payload: %w", protowire.ParseError(m))
		}
		if num == 1 && typ == protowire.BytesType {
			name, _ = protowire.ConsumeBytes(payload[n:])
		}
		payload = payload[n+m:]
	}
	switch {
	case len(name) == 0:
		return "", errNameless
	case !utf8.Valid(name):
		return "", fmt.Errorf("the name %q is not valid UTF-8", name)
	default:
		return string(name), nil
	}
}
