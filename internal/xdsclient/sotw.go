package xdsclient

import (
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// sotw is the messages of the state-of-the-world forms: each request has all names of its
// type. Resources are named by field 1 of their payload, as in every xDS type, or by the
// envoy.service.discovery.v3.Resource that they are wrapped in (RES-13).
type sotw struct {
	presents bool // see Options.PresentVersion
	polls    bool // there is no stream: every request stands for itself
}

// fullState implements messages (RES-2).
func (sotw) fullState(typeURL string) bool {
	return slices.Contains(keyer.FullStateTypes(), typeURL)
}

// version implements messages: the one in a wrapped resource, else a digest.
func (sotw) version(r *wire.Resource) string {
	if r.Version != "" {
		return r.Version
	}
	return r.Digest()
}

// first implements messages. The request has the version that was accepted last
// (ACK-5), but only if that holds all that is wanted now: else a server that looks at no
// more than versions would say nothing. PresentVersion has it always.
func (p sotw) first(t *typeState, _, _ int) []proto.Message {
	req := p.request(t)
	if p.presents || t.complete() {
		req.VersionInfo = t.accepted
	}
	return []proto.Message{req}
}

// change implements messages. It gives the request with the names that are wanted now,
// which carries the latest nonce (STR-9).
func (p sotw) change(t *typeState, _, _ []string, _ int) []proto.Message {
	var all []proto.Message
	switch {
	case t.wanted():
	case p.polls:
		return []proto.Message{nothing()}
	case !t.named:
		// Nothing was named so far, so that an empty list is the wildcard still. Once
		// something was, it is not (SUB-2).
		t.named = true
		req := p.request(t)
		req.VersionInfo, req.ResponseNonce = t.accepted, t.nonce
		req.ResourceNames = []string{Wildcard}
		all = append(all, req)
	}
	req := p.request(t)
	req.VersionInfo, req.ResponseNonce = t.accepted, t.nonce
	return append(all, req)
}

// answer implements messages. The NACK of a type that was never asked for has no names. A server may take
// that for the wildcard (SUB-2), but there is no other way to answer.
func (p sotw) answer(a answer) proto.Message {
	req := &discoveryv3.DiscoveryRequest{TypeUrl: a.typeURL}
	if a.of != nil {
		if p.polls && !a.of.wanted() {
			return nothing()
		}
		req = p.request(a.of)
	}
	req.VersionInfo, req.ResponseNonce = a.version, a.nonce
	if a.reason != nil {
		req.ErrorDetail = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: a.reason.Error()}
	}
	return req
}

// nothing is a request that asks for nothing, and is not sent: an empty one would ask for
// everything where there is no stream on which something was named before (SUB-2).
func nothing() proto.Message { return (*discoveryv3.DiscoveryRequest)(nil) }

// request gives a request with all names of a type.
func (p sotw) request(t *typeState) *discoveryv3.DiscoveryRequest {
	names := t.sortedNames()
	// The legacy form is there for full-state types (SUB-4) as long as nothing was
	// named, beside the wildcard or before (SUB-2).
	if t.wildcard && (!t.legacy || !p.fullState(t.url) || t.named || len(names) > 0) {
		names = slices.Insert(names, 0, Wildcard)
	}
	t.named = t.named || len(names) > 0
	return &discoveryv3.DiscoveryRequest{TypeUrl: t.url, ResourceNames: names}
}
