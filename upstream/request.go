package upstream

import (
	"maps"
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

const wildcard = "*"

// requests encodes a subscription as spontaneous requests, which carry no nonce
// (STR-9), of at most limit bytes each (RES-17); reserved bytes of the first are
// left to the caller (for the node). Each request has at least one name, even if
// that alone passes the limit: a first request without any means the wildcard
// (SUB-3), which [everything] asks for.
//
// The versions are in the first request, where alone a server reads them. Servers
// take a name that is listed there and not subscribed to in the same request for not
// wanted, and answer that it is removed. So if not all fits into one request, the
// collections come first, whose members are listed, then the names that are held,
// and versions of names that are left for a later request are left out.
func requests(sub wire.Subscription, reserved, limit int) []*discoveryv3.DeltaDiscoveryRequest {
	if len(sub.Subscribe)+len(sub.Unsubscribe) == 0 {
		return nil
	}
	whole := &discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: sub.TypeURL, InitialResourceVersions: sub.Versions,
		ResourceNamesSubscribe: sub.Subscribe, ResourceNamesUnsubscribe: sub.Unsubscribe,
	}
	if reserved+proto.Size(whole) <= limit {
		return []*discoveryv3.DeltaDiscoveryRequest{whole}
	}
	s := &splitter{typeURL: sub.TypeURL, limit: limit, size: reserved}
	subscribe := sub.Subscribe
	if len(sub.Versions) > 0 {
		subscribe = s.present(sub)
	}
	for _, name := range subscribe {
		s.subscribe(name)
	}
	for _, name := range sub.Unsubscribe {
		s.unsubscribe(name)
	}
	return s.out
}

// everything is the first request for the wildcard: it names nothing (SUB-14). The
// versions are those of the wildcard's members. A server takes a name that is presented
// and not subscribed to in the same request for one that is wanted no more.
func everything(typeURL string, versions map[string]string, names []string) *discoveryv3.DeltaDiscoveryRequest {
	if len(versions) > 0 && len(names) > 0 {
		versions = maps.Clone(versions)
		for _, name := range names {
			delete(versions, name)
		}
	}
	return &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, InitialResourceVersions: versions}
}

// withoutWildcard takes the wildcard out of names, and reports whether it was there.
func withoutWildcard(names []string) (others []string, was bool) {
	at := slices.Index(names, wildcard)
	if at < 0 {
		return names, false
	}
	return slices.Concat(names[:at], names[at+1:]), true
}

// subscribe puts a name into the next request that has room.
func (s *splitter) subscribe(name string) {
	req := s.room(stringSize(name))
	req.ResourceNamesSubscribe = append(req.ResourceNamesSubscribe, name)
}

func (s *splitter) unsubscribe(name string) {
	req := s.room(stringSize(name))
	req.ResourceNamesUnsubscribe = append(req.ResourceNamesUnsubscribe, name)
}

// splitter spreads names over requests.
type splitter struct {
	typeURL     string
	limit, size int
	names       int // in the last request
	out         []*discoveryv3.DeltaDiscoveryRequest
}

// stringSize is the bytes that a name takes in a request; its tag takes one byte.
func stringSize(s string) int { return 1 + protowire.SizeBytes(len(s)) }

// versionSize is the bytes that an entry of initial_resource_versions takes.
func versionSize(name, version string) int {
	return 1 + protowire.SizeBytes(stringSize(name)+stringSize(version))
}

// room gives the request that the next n bytes of a name go into.
func (s *splitter) room(n int) *discoveryv3.DeltaDiscoveryRequest {
	if len(s.out) == 0 || (s.names > 0 && s.size+n > s.limit) {
		if len(s.out) > 0 {
			s.size, s.names = 0, 0
		}
		req := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: s.typeURL}
		s.out = append(s.out, req)
		s.size += proto.Size(req)
	}
	s.names++
	s.size += n
	return s.out[len(s.out)-1]
}

// present fills the first request with the collections, the versions of their
// members, and as many names that are held as go in with theirs. It returns the
// names that are left.
func (s *splitter) present(sub wire.Subscription) (left []string) {
	members := maps.Clone(sub.Versions)
	var held, others []string
	var first *discoveryv3.DeltaDiscoveryRequest
	for _, name := range sub.Subscribe {
		switch _, has := sub.Versions[name]; {
		case has:
			delete(members, name)
			held = append(held, name)
		case collection(name):
			first = s.room(stringSize(name))
			first.ResourceNamesSubscribe = append(first.ResourceNamesSubscribe, name)
		default:
			others = append(others, name)
		}
	}
	if first != nil {
		first.InitialResourceVersions = members
		for name, version := range members {
			s.size += versionSize(name, version)
		}
	}
	for i, name := range held {
		n := stringSize(name) + versionSize(name, sub.Versions[name])
		if len(s.out) > 1 || (s.names > 0 && s.size+n > s.limit) {
			s.size = s.limit // a name without its version must not go into the first request
			return slices.Concat(held[i:], others)
		}
		first = s.room(n)
		first.ResourceNamesSubscribe = append(first.ResourceNamesSubscribe, name)
		if first.InitialResourceVersions == nil {
			first.InitialResourceVersions = make(map[string]string)
		}
		first.InitialResourceVersions[name] = sub.Versions[name]
	}
	return others
}

// collection reports whether a name subscribes to a set of resources.
func collection(name string) bool {
	if !keyer.IsXDSTP(name) {
		return name == wildcard
	}
	key, err := keyer.Key(name)
	return err == nil && keyer.IsGlob(key)
}

// maxNameRoom is the bytes that are kept free beside the versions for the first name.
const maxNameRoom = 64 << 10

// versionsLimit is how many bytes of versions fit into the first request of a
// type beside a node of nodeSize bytes, which is half of it at the most, and at
// least one name.
func versionsLimit(maxRequest, nodeSize int) int {
	return maxRequest - nodeSize - min(maxNameRoom, maxRequest/4)
}
