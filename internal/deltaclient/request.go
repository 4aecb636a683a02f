package deltaclient

import (
	"maps"
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// nameRoom is what is kept free beside versions and names for the wildcard.
const nameRoom = 64

// first gives the requests that a stream begins with for a type: what is wanted,
// and in the first one what is held (RES-12). There are none where nothing is
// wanted, since an empty request would mean everything (SUB-3). reserved bytes
// of the first request are for the node.
//
// Versions are left out (RES-14) if they do not fit into one request together with
// the names: a server may take a version without its subscription for something
// that is not wanted. It sends everything anew then, and what is held is
// forgotten: what was removed meanwhile would not be mentioned.
func (t *typeState) first(reserved, limit int) []*discoveryv3.DeltaDiscoveryRequest {
	if !t.wanted() {
		return nil
	}
	t.requested = true
	head := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: t.url}
	names := slices.Sorted(maps.Keys(t.names))
	if len(t.held) > 0 {
		head.InitialResourceVersions = t.versions()
		head.ResourceNamesSubscribe = names
		if reserved+proto.Size(head)+nameRoom > limit {
			t.forget()
			head.InitialResourceVersions = nil
		}
		head.ResourceNamesSubscribe = nil
	}
	if t.legacy {
		return append([]*discoveryv3.DeltaDiscoveryRequest{head}, requests(t.url, names, nil, limit)...)
	}
	if t.wildcard {
		names = slices.Insert(names, 0, Wildcard)
	}
	return split(head, names, nil, reserved, limit)
}

// requests gives spontaneous requests, which carry no nonce (STR-9).
func requests(typeURL string, subscribe, unsubscribe []string, limit int) []*discoveryv3.DeltaDiscoveryRequest {
	if len(subscribe)+len(unsubscribe) == 0 {
		return nil
	}
	return split(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL}, subscribe, unsubscribe, 0, limit)
}

// split adds names to req and to as many more as it takes for none to pass the
// limit (RES-17); each has at least one.
func split(req *discoveryv3.DeltaDiscoveryRequest, subscribe, unsubscribe []string, reserved, limit int) []*discoveryv3.DeltaDiscoveryRequest {
	all := []*discoveryv3.DeltaDiscoveryRequest{req}
	size, names := reserved+proto.Size(req), 0
	room := func(name string) {
		n := 1 + protowire.SizeBytes(len(name)) // both fields' tags take one byte
		if names > 0 && size+n > limit {
			req = &discoveryv3.DeltaDiscoveryRequest{TypeUrl: req.GetTypeUrl()}
			all = append(all, req)
			size, names = proto.Size(req), 0
		}
		size += n
		names++
	}
	for _, name := range subscribe {
		room(name)
		req.ResourceNamesSubscribe = append(req.ResourceNamesSubscribe, name)
	}
	for _, name := range unsubscribe {
		room(name)
		req.ResourceNamesUnsubscribe = append(req.ResourceNamesUnsubscribe, name)
	}
	return all
}

// answer is the ACK of a response, or its NACK if there is a reason (STR-8, ACK-2).
func answer(typeURL, nonce string, reason error) *discoveryv3.DeltaDiscoveryRequest {
	req := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: nonce}
	if reason != nil {
		req.ErrorDetail = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: reason.Error()}
	}
	return req
}
