package downstream

import (
	"log/slog"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// request carries out one request, and releases it. charged reports that the request counts among those
// that a client may send in a second (LIM-1): one that only answers a response does not, since the
// relay sent the response.
func (st *stream) request(r *discoveryRequest) (charged bool, err error) {
	defer r.release()
	if len(r.typeURL) > maxTypeURL {
		return true, status.Errorf(codes.ResourceExhausted, "type_url has %d bytes, at most %d are served", len(r.typeURL), maxTypeURL)
	}
	typeURL, err := st.variant.typeURL(r.typeURL)
	if err != nil {
		return true, err
	}
	if st.subscriber == nil {
		node, err := st.node(r)
		if err != nil {
			return true, err
		}
		if err := st.begin(node); err != nil {
			return true, err
		}
	}
	st.shared.observer.Requested(typeURL)
	t, first, err := st.admit(typeURL)
	if err != nil {
		return true, err
	}
	number, ours := st.nonces.number(r.nonce)
	further := ours && number <= t.flow.acked
	charged = !t.flow.owed(number)
	if r.nonce != "" || r.rejection != nil {
		st.acknowledge(t, r, number)
	}
	var subscribe, unsubscribe []string
	var versions wire.Versions
	if st.variant.form == deltaForm {
		// STR-5: a stale nonce does not matter for subscriptions.
		subscribe, unsubscribe, versions = t.changes(r, first)
		t.presented = t.presented || versions.Len() > 0
	} else {
		if first {
			t.listed.presented = r.versionInfo
		}
		subscribe, unsubscribe = st.stateChanges(t, r, number, further)
	}
	if len(subscribe)+len(unsubscribe)+versions.Len() == 0 {
		st.noteWeight() // the client may have dropped names that the relay refused
		return charged, nil
	}
	// A change is charged also with an answer: what is sent because of it could be answered with another
	// change, for ever.
	return true, st.subscribe(t, subscribe, unsubscribe, versions)
}

// node takes the node out of the stream's first request, if it is not too large.
func (st *stream) node(r *discoveryRequest) (*corev3.Node, error) {
	if err := st.shared.limits.Load().large(r.nodeBytes()); err != nil {
		st.shared.observer.Limited(LimitNode)
		st.standing.edit(func() { st.standing.node = clip(r.presented().NodeID()) }) // for the log
		return nil, err
	}
	return r.node()
}

// featureTTL is the client feature for resource TTLs (TTL-1).
const featureTTL = "xds.config.supports-resource-ttl"

// envoyAgent is the user_agent_name of Envoy, which honours TTLs and does not announce it.
const envoyAgent = "envoy"

// isRelay reports whether a client is a relay: its user agent says so, in gRPC and over HTTP.
func isRelay(client keyer.Peer) bool {
	return client.Metadata != nil && slices.ContainsFunc(client.Metadata("user-agent"), func(agent string) bool {
		return strings.HasPrefix(agent, wire.RelayIdentifier)
	})
}

// begin takes the node from the stream's first request (STR-1). The error is a status: the client may not
// present the node.
func (st *stream) begin(node *corev3.Node) error {
	routes, err := st.shared.config.Router.Open(node, &st.standing.peer)
	if err != nil {
		return err
	}
	st.routing.routes = routes
	features := node.GetClientFeatures()
	form := delivery.Form{State: st.variant.form == stateForm, Relay: isRelay(st.standing.peer)}
	form.Wrapped = form.State && wraps(node)
	// In the state of the world only a wrapped resource has a TTL. Envoy honours TTLs without
	// announcing it, and knows wrapped resources (TTL-1).
	form.TTL = slices.Contains(features, featureTTL) && (form.Wrapped || !form.State) ||
		node.GetUserAgentName() == envoyAgent && !st.variant.service.OfV2()
	st.subscriber = delivery.NewSubscriber(st.ring, form)
	st.subscriber.JudgedBy(judgeOf(routes.Access()), false)
	st.standing.edit(func() { st.standing.node, st.standing.cluster = clip(node.GetId()), clip(node.GetCluster()) })
	st.log(slog.LevelDebug).Debug("stream opened")
	return nil
}

// changes returns the names that an incremental request subscribes to and unsubscribes from, and the
// versions that the client presents.
func (t *typeState) changes(r *discoveryRequest, first bool) (subscribe, unsubscribe []string, versions wire.Versions) {
	t.unnamed = false
	subscribe = withoutBoth(r.subscribe, r.unsubscribe)
	if !first {
		return subscribe, r.unsubscribe, versions
	}
	if len(r.subscribe)+len(r.unsubscribe) == 0 {
		t.unnamed = true
		return []string{cache.Wildcard}, nil, r.versions // SUB-3, SUB-4
	}
	return subscribe, r.unsubscribe, r.versions
}

// withoutBoth removes the wildcard from the names that a request subscribes to, if the request
// unsubscribes it too. ztunnel says in this way that it wants nothing yet, and the relay must not
// ask a control plane for everything (SUB-3).
func withoutBoth(subscribe, unsubscribe []string) []string {
	all := func(name string) bool { return name == cache.Wildcard }
	if !slices.ContainsFunc(unsubscribe, all) || !slices.ContainsFunc(subscribe, all) {
		return subscribe
	}
	return slices.DeleteFunc(slices.Clone(subscribe), all)
}
