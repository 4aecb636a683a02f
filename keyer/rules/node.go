package rules

import (
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
)

// lbPrefix begins the client features that stay the client's own upstream:
// they tell which load balancing a client can do, and so what a server may send
// (AGG-3).
const lbPrefix = "envoy.lb."

// UpstreamNode gives the node to present upstream for a scope (AGG-3): a copy
// of node, [Decision.Node], whose client_features are the relay's own and the
// client's "envoy.lb.*" ones, each once. The others say what a client can make
// of the transport protocol, and upstream it is the relay that speaks it. A nil
// node counts as an empty one; node and own are not changed.
func UpstreamNode(node *corev3.Node, own []string) *corev3.Node {
	upstream := &corev3.Node{}
	proto.Merge(upstream, node)
	features := slices.Concat(own, lbFeatures(node))
	slices.Sort(features)
	upstream.ClientFeatures = slices.Compact(features)
	return upstream
}

// lbFeatures gives the node's "envoy.lb.*" features, sorted, each once.
func lbFeatures(node *corev3.Node) []string {
	var features []string
	for _, feature := range node.GetClientFeatures() {
		if strings.HasPrefix(feature, lbPrefix) {
			features = append(features, feature)
		}
	}
	slices.Sort(features)
	return slices.Compact(features)
}
