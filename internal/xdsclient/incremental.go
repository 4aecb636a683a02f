package xdsclient

import (
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// incremental is the messages of the incremental forms: requests with what changes in
// the subscriptions, and at the beginning of a stream with the versions of what is held
// (RES-12).
type incremental struct{}

// fullState implements messages: absence says nothing here.
func (incremental) fullState(string) bool { return false }

// version implements messages.
func (incremental) version(r *wire.Resource) string { return r.Version }

// nameRoom is what is kept free beside versions and names for the wildcard.
const nameRoom = 64

// first implements messages. The requests have what is wanted, and the first one what is
// held (RES-12).
//
// Versions are left out (RES-14) if they do not fit into one request together with
// the names: a server may take a version without its subscription for something
// that is not wanted. It sends everything anew then, and what is held is
// forgotten: what was removed meanwhile would not be mentioned.
func (incremental) first(t *typeState, reserved, limit int) []proto.Message {
	head := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: t.url}
	names := t.sortedNames()
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
		return append([]proto.Message{head}, requests(t.url, names, nil, limit)...)
	}
	if t.wildcard {
		names = slices.Insert(names, 0, Wildcard)
	}
	return split(head, names, nil, reserved, limit)
}

// change implements messages. The requests are spontaneous and carry no nonce (STR-9).
func (incremental) change(t *typeState, subscribe, unsubscribe []string, limit int) []proto.Message {
	return requests(t.url, subscribe, unsubscribe, limit)
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

// answer implements messages.
func (incremental) answer(a answer) proto.Message {
	req := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: a.typeURL, ResponseNonce: a.nonce}
	if a.reason != nil {
		req.ErrorDetail = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: a.reason.Error()}
	}
	return req
}
