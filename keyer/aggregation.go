package keyer

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Policy says what becomes of a client for which no rule decides (AGG-2). The
// zero Policy isolates, so that nothing is shared by an omission.
type Policy int

// The policies.
const (
	// Isolate gives clients a scope of their own; only clients with an equal
	// node and an equal TLS identity meet in one.
	Isolate Policy = iota
	// Share puts all clients into one scope.
	Share
	// Refuse turns clients away.
	Refuse
)

// ParsePolicy reads "isolate", "share" or "refuse".
func ParsePolicy(s string) (Policy, error) {
	for _, p := range []Policy{Isolate, Share, Refuse} {
		if s == p.String() {
			return p, nil
		}
	}
	return Isolate, fmt.Errorf("aggregation policy %q: expected share, isolate or refuse", s)
}

// String gives what [ParsePolicy] reads.
func (p Policy) String() string {
	switch p {
	case Isolate:
		return "isolate"
	case Share:
		return "share"
	case Refuse:
		return "refuse"
	default:
		return fmt.Sprintf("Policy(%d)", int(p))
	}
}

// Aggregation maps clients to scopes (AGG-1). Clients of one scope share one
// upstream stream and one cache for all names that are not xdstp. It is not
// changed after it was made, and may be used from any goroutine.
type Aggregation struct {
	// Otherwise decides where no rule does.
	Otherwise Policy
}

// otherwise stands where a rule's name would where none matched.
const otherwise = "otherwise"

// Decision is what the aggregation rules say of a client and a type.
type Decision struct {
	// Scope is the part of the client's identity that its names depend on. It
	// is never empty: the empty scope is that of xdstp names, which need none.
	Scope string
	// Node is what [UpstreamNode] is to build the upstream node from. It may
	// be the client's own and must not be changed.
	Node *corev3.Node
	// Rule names the rule that decided, for people (AGG-5).
	Rule string
}

// Decide gives the scope of a client for the resources of a type that have
// opaque names (AGG-1, AGG-2). node is the client's, from the first request of
// its stream (STR-1), and is not changed. The error is a [*RefusedError]. Ask
// once per stream and type, never per resource.
func (a *Aggregation) Decide(node *corev3.Node, typeURL string, peer Peer) (Decision, error) {
	decision := Decision{Node: node, Rule: otherwise}
	switch a.Otherwise {
	case Share:
		decision.Scope = sharedScope(node)
	case Refuse:
		return Decision{}, &RefusedError{Node: shorten(node.GetId()), TypeURL: shorten(typeURL), Rule: otherwise}
	default:
		// Isolate, and whatever is no policy: never a wider scope by accident.
		scope, err := isolatedScope(node, peer)
		if err != nil {
			return Decision{}, &RefusedError{Node: shorten(node.GetId()), TypeURL: shorten(typeURL), Rule: otherwise, Cause: err}
		}
		decision.Scope = scope
	}
	return decision, nil
}

// RefusedError says that the aggregation rules turn a client away. Over gRPC it
// is a PERMISSION_DENIED.
type RefusedError struct {
	Node    string // the node's id, shortened if very long
	TypeURL string
	Rule    string // the rule that refused
	Cause   error  // why no scope could be worked out; nil where the rule is to refuse
}

func (e *RefusedError) Error() string {
	text := fmt.Sprintf("node %q is refused resources of type %q by aggregation rule %q", e.Node, e.TypeURL, e.Rule)
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap gives the cause.
func (e *RefusedError) Unwrap() error { return e.Cause }
