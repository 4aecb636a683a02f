package fleet

import (
	"strconv"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of the discovery requests.
const (
	requestNode = 1 // DeltaDiscoveryRequest

	deltaTypeURL   = 2
	deltaSubscribe = 3
	deltaInitial   = 5
	deltaNonce     = 6

	stateVersion = 1
	stateNode    = 2
	stateTypeURL = 4
	stateNonce   = 5

	nodeID      = 1
	nodeCluster = 2
)

// Subscription is what a client asks for of one type.
type Subscription struct {
	TypeURL string
	// Items are numbers in the catalogue; nil stands for all of the type: by the
	// wildcard's name, and in the state of the world by naming nothing, which is what
	// go-control-plane's snapshots understand there.
	Items []int
	// Versions presents what the client holds, see [Versions]; nil: nothing.
	Versions []byte
}

// Versions encodes initial_resource_versions for these numbers in their first
// revisions. The bytes may be given to any number of clients.
func Versions(set content.Set, items int) ([]byte, error) {
	var b []byte
	for item := range items {
		r, err := set.Resource(item, 0)
		if err != nil {
			return nil, err
		}
		b = protowire.AppendTag(b, deltaInitial, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(sizeString(r.GetName())+sizeString(r.GetVersion())))
		b = appendString(b, 1, r.GetName())
		b = appendString(b, 2, r.GetVersion())
	}
	return b, nil
}

// sizeString is the size of a string field with a small number.
func sizeString(s string) int { return 1 + protowire.SizeBytes(len(s)) }

func appendString[S string | []byte](b []byte, number protowire.Number, s S) []byte {
	b = protowire.AppendTag(b, number, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(s)))
	return append(b, s...)
}

// Cluster is the cluster in every client's node.
const Cluster = "bench"

// appendNode appends who the client is: each is another node of one cluster.
func appendNode(b []byte, field protowire.Number, client int) []byte {
	var node [64]byte
	id := strconv.AppendInt(append(node[32:32], "client-"...), int64(client), 10)
	encoded := appendString(node[:0], nodeID, id)
	encoded = appendString(encoded, nodeCluster, Cluster)
	return appendString(b, field, encoded)
}

// appendSubscribe encodes a request that subscribes, without the versions that it
// presents: those are shared, and go out after it. client is not negative in the
// first request of a stream, which says who it is.
func (s *Subscription) appendSubscribe(b []byte, names *content.Catalogue, state bool, client int) []byte {
	node, typeURL := protowire.Number(requestNode), protowire.Number(deltaTypeURL)
	if state {
		node, typeURL = stateNode, stateTypeURL
	}
	if client >= 0 {
		b = appendNode(b, node, client)
	}
	b = appendString(b, typeURL, s.TypeURL)
	if s.Items == nil && !state {
		return appendString(b, deltaSubscribe, "*")
	}
	for _, item := range s.Items {
		b = appendString(b, deltaSubscribe, names.NameOf(item)) // resource_names has the same number
	}
	return b
}

// sizeAck and appendAck encode the acknowledgement of a response. In the state of the
// world it repeats the names that are subscribed to: none.
func sizeAck(r *response, state bool) int {
	n := 2 + protowire.SizeBytes(len(r.typeURL)) + protowire.SizeBytes(len(r.nonce)) // tags have a byte
	if state {
		n += 1 + protowire.SizeBytes(len(r.version))
	}
	return n
}

func appendAck(b []byte, r *response, state bool) []byte {
	if !state {
		return appendString(appendString(b, deltaTypeURL, r.typeURL), deltaNonce, r.nonce)
	}
	b = appendString(b, stateVersion, r.version)
	b = appendString(b, stateTypeURL, r.typeURL)
	return appendString(b, stateNonce, r.nonce)
}
