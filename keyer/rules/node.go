package rules

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
)

// UpstreamNode gives the node to present upstream for a scope (AGG-3). own is the relay's
// own node, whose client_features are what the relay makes of the protocol, and id what it
// is called for this scope. A whole node goes up as it is. Of others the fields that the
// decision has replace those of the relay's node. In any case the client_features are the
// relay's and, of the client's, those that are no matter of the transport protocol: upstream
// it is the relay that speaks it. A nil node counts as an empty one; nothing that is given
// is changed.
func UpstreamNode(d *Decision, own *corev3.Node, id string) *corev3.Node {
	upstream := &corev3.Node{}
	if d.Whole {
		proto.Merge(upstream, d.Node)
	} else {
		proto.Merge(upstream, own)
		upstream.Id = id
		for _, path := range d.fields {
			clearField(upstream, path)
		}
		proto.Merge(upstream, d.Node)
	}
	features := slices.Concat(own.GetClientFeatures(), passedFeatures(d.Node))
	slices.Sort(features)
	upstream.ClientFeatures = slices.Compact(features)
	return upstream
}

// clearField takes a field out of the relay's own node, so that what a client lacks of it is
// lacking upstream, too. Of metadata it is a key as a whole.
func clearField(node *corev3.Node, path []string) {
	if path[0] == pathMetadata && len(path) > 1 {
		delete(node.GetMetadata().GetFields(), path[1])
		return
	}
	message := node.ProtoReflect()
	for i, name := range path {
		field := fieldNamed(message, name)
		if field == nil {
			return
		}
		if i == len(path)-1 || !isMessage(field) || !message.Has(field) {
			message.Clear(field)
			return
		}
		message = message.Mutable(field).Message()
	}
}

// isProtocolFeature reports whether a client feature says what a client makes of the
// transport protocol, which the relay speaks itself on either side. All others tell what a
// server may send: about load balancing ("envoy.lb.*"), endpoints ("xds.endpoint.*"), and
// features that this build does not know.
func isProtocolFeature(feature string) bool {
	switch feature {
	case "xds.config.supports-resource-ttl", "xds.config.supports-resource-in-sotw", "xds.config.resource-in-sotw",
		"envoy.lrs.supports_send_all_clusters": // which clients announce on their load reports' stream only (LRS-1)
		return true
	}
	return false
}

// passedFeatures gives the node's features that go upstream, sorted, each once. They are
// part of the scope: what a server does differently for them must not reach clients
// without them (AGG-3).
func passedFeatures(node *corev3.Node) []string {
	var features []string
	for _, feature := range node.GetClientFeatures() {
		if !isProtocolFeature(feature) {
			features = append(features, feature)
		}
	}
	slices.Sort(features)
	return slices.Compact(features)
}
