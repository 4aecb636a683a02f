package attack

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/fleet"
	"github.com/xdsrelay/xdsrelay/internal/testkit/frames"
)

// Fields of envoy.service.discovery.v3.DeltaDiscoveryRequest and of the node in it.
const (
	requestNode        = 1
	requestTypeURL     = 2
	requestSubscribe   = 3
	requestUnsubscribe = 4

	nodeID       = 1
	nodeCluster  = 2
	nodeMetadata = 3
)

// cluster is the cluster of attackers' nodes: no rule knows it.
const cluster = "attackers"

const clusterType = "type.googleapis.com/envoy.config.cluster.v3.Cluster"

// request is a request of an incremental client.
type request struct {
	node        []byte
	typeURL     string
	subscribe   []string
	unsubscribe []string
}

func (r *request) encode() []byte {
	var b []byte
	if r.node != nil {
		b = field(b, requestNode, r.node)
	}
	b = field(b, requestTypeURL, r.typeURL)
	for _, name := range r.subscribe {
		b = field(b, requestSubscribe, name)
	}
	for _, name := range r.unsubscribe {
		b = field(b, requestUnsubscribe, name)
	}
	return frames.Message(b)
}

func field[S string | []byte](b []byte, number protowire.Number, s S) []byte {
	b = protowire.AppendTag(b, number, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(s)))
	return append(b, s...)
}

// node is a node with an ID.
func node(id string) []byte { return field(field(nil, nodeID, id), nodeCluster, cluster) }

// member is the node of a client of the fleet that is measured.
func member(id string) []byte { return field(field(nil, nodeID, id), nodeCluster, fleet.Cluster) }

// largeNode is a node whose metadata has so many entries, each of some twenty bytes.
func largeNode(id string, entries int) []byte {
	var metadata []byte
	for i := range entries {
		// An entry of the map "fields": a key, and a Value with a number.
		entry := field(nil, 1, "k"+strconv.Itoa(i))
		value := protowire.AppendFixed64(protowire.AppendTag(nil, 2, protowire.Fixed64Type), uint64(i))
		metadata = field(metadata, 1, field(entry, 2, value))
	}
	return field(node(id), nodeMetadata, metadata)
}

// names are so many names, each beginning with a text.
func names(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = prefix + strconv.Itoa(i)
	}
	return list
}
