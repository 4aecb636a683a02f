package rules

import "fmt"

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

// RefusedError says that the aggregation rules turn a client away. Over gRPC it
// is a PERMISSION_DENIED.
type RefusedError struct {
	Node    string // the node's id, shortened if very long
	TypeURL string
	Rule    string // the rule that refused
	Cause   error  // why no scope could be worked out; nil where the rule is to refuse
}

func (e *RefusedError) Error() string {
	text := fmt.Sprintf("aggregation rule %q refuses resources of type %q for node %q", e.Rule, e.TypeURL, e.Node)
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap gives the cause.
func (e *RefusedError) Unwrap() error { return e.Cause }
