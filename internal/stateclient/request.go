package stateclient

import (
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// requests is the part of xdsclient.Protocol that is the same for all variants.
type requests struct{ presents bool }

// FullState tells whether a response for a type holds all that there is (RES-2).
func (requests) FullState(typeURL string) bool {
	return slices.Contains(keyer.FullStateTypes(), typeURL)
}

// Version gives the version in a wrapped resource, else a digest (ACK-4).
func (requests) Version(r *wire.Resource) string {
	if r.Version != "" {
		return r.Version
	}
	return r.Digest()
}

// First gives the request that a stream begins with for a type. It has the
// version that was accepted last (ACK-5), but only if that holds all that is
// wanted now: else a server that looks at no more than versions would say nothing.
// PresentVersion has it always.
func (p requests) First(t *xdsclient.Type, _, _ int) []proto.Message {
	req := p.request(t)
	if p.presents || t.Complete() {
		req.VersionInfo = t.Accepted
	}
	return []proto.Message{req}
}

// Change gives the request with the names that are wanted now. It carries the
// latest nonce (STR-9).
func (p requests) Change(t *xdsclient.Type, _, _ []string, _ int) []proto.Message {
	var all []proto.Message
	if wildcard, _ := t.Wildcard(); !wildcard && !t.Named && len(t.Names()) == 0 {
		// Nothing was named so far, so that an empty list is the wildcard still. Once
		// something was, it is not (SUB-2).
		t.Named = true
		req := p.request(t)
		req.VersionInfo, req.ResponseNonce = t.Accepted, t.Nonce
		req.ResourceNames = []string{xdsclient.Wildcard}
		all = append(all, req)
	}
	req := p.request(t)
	req.VersionInfo, req.ResponseNonce = t.Accepted, t.Nonce
	return append(all, req)
}

// Answer is the ACK of a response, or its NACK if there is a reason (STR-8, ACK-2).
// The NACK of a type that was never asked for has no names. A server may take
// that for the wildcard (SUB-2), but there is no other way to answer.
func (p requests) Answer(a xdsclient.Answer) proto.Message {
	req := &discoveryv3.DiscoveryRequest{TypeUrl: a.TypeURL}
	if a.Type != nil {
		req = p.request(a.Type)
	}
	req.VersionInfo, req.ResponseNonce = a.Version, a.Nonce
	if a.Reason != nil {
		req.ErrorDetail = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: a.Reason.Error()}
	}
	return req
}

// request gives a request with all names of a type.
func (p requests) request(t *xdsclient.Type) *discoveryv3.DiscoveryRequest {
	names := t.Names()
	// The legacy form is there for full-state types (SUB-4) as long as nothing was
	// named, beside the wildcard or before (SUB-2).
	wildcard, legacy := t.Wildcard()
	if wildcard && (!legacy || !p.FullState(t.URL) || t.Named || len(names) > 0) {
		names = slices.Insert(names, 0, xdsclient.Wildcard)
	}
	t.Named = t.Named || len(names) > 0
	return &discoveryv3.DiscoveryRequest{TypeUrl: t.URL, ResourceNames: names}
}
