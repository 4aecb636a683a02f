package deltaclient

import (
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// nameRoom is what is kept free beside versions and names for the wildcard.
const nameRoom = 64

// First gives the requests that a stream begins with for a type: what is wanted,
// and in the first one what is held (RES-12).
//
// Versions are left out (RES-14) if they do not fit into one request together with
// the names: a server may take a version without its subscription for something
// that is not wanted. It sends everything anew then, and what is held is
// forgotten: what was removed meanwhile would not be mentioned.
func (protocol) First(t *xdsclient.Type, reserved, limit int) []proto.Message {
	head := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: t.URL}
	names := t.Names()
	if t.Len() > 0 {
		head.InitialResourceVersions = t.Versions()
		head.ResourceNamesSubscribe = names
		if reserved+proto.Size(head)+nameRoom > limit {
			t.Forget()
			head.InitialResourceVersions = nil
		}
		head.ResourceNamesSubscribe = nil
	}
	wildcard, legacy := t.Wildcard()
	if legacy {
		return append([]proto.Message{head}, requests(t.URL, names, nil, limit)...)
	}
	if wildcard {
		names = slices.Insert(names, 0, xdsclient.Wildcard)
	}
	return split(head, names, nil, reserved, limit)
}

// Change gives spontaneous requests, which carry no nonce (STR-9).
func (protocol) Change(t *xdsclient.Type, subscribe, unsubscribe []string, limit int) []proto.Message {
	return requests(t.URL, subscribe, unsubscribe, limit)
}

func requests(typeURL string, subscribe, unsubscribe []string, limit int) []proto.Message {
	if len(subscribe)+len(unsubscribe) == 0 {
		return nil
	}
	return split(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL}, subscribe, unsubscribe, 0, limit)
}

// split adds names to req and to as many more as it takes for none to pass the
// limit (RES-17); each has at least one.
func split(req *discoveryv3.DeltaDiscoveryRequest, subscribe, unsubscribe []string, reserved, limit int) []proto.Message {
	all := []proto.Message{req}
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

// Answer is the ACK of a response, or its NACK if there is a reason (STR-8, ACK-2).
func (protocol) Answer(a xdsclient.Answer) proto.Message {
	req := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: a.TypeURL, ResponseNonce: a.Nonce}
	if a.Reason != nil {
		req.ErrorDetail = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: a.Reason.Error()}
	}
	return req
}
