package rules

import (
	"fmt"

	"cel.dev/cel-go/cel"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// Set is a list of rules, ready to be asked.
type Set struct {
	rules     []*rule
	otherwise Policy
	upstream  string
}

// rule is a compiled Rule.
type rule struct {
	Rule

	match cel.Program
	scope []cel.Program
	node  map[string]cel.Program // by Problem.Field
}

// Compile checks the rules and makes a Set of them. If anything is wrong the set is nil,
// and the problems are all there are, in the order of the rules and their fields
// (AGG-4).
func Compile(cfg Config) (*Set, []Problem) {
	s := &Set{otherwise: cfg.Otherwise, upstream: cfg.Upstream}
	return s, nil
}

// Policy is what becomes of clients that no rule matches.
func (s *Set) Policy() Policy { return s.otherwise }

// Decision is what the rules say of a client and a type, or a name of it.
type Decision struct {
	// Rule names the rule that decided, or is [Otherwise].
	Rule string
	// Scope is the part of the client's identity that its names depend on. It is never
	// empty: the empty scope is that of xdstp names, which need none. Its form is for
	// people; scopes are equal exactly if rule and parts are.
	Scope string
	// Parts are the values of the scope's parts, for people and tests; nil where no rule
	// decided. They are what encoding/json makes of JSON.
	Parts []any
	// Upstream is where names are asked for; "": the default upstream.
	Upstream string
	// Node is what [UpstreamNode] is to build the upstream node from: the client's own or
	// what the rule makes of it. It must not be changed.
	Node *corev3.Node
	// Template tells ways apart to build Node: the same rule with another one, after a
	// reload, must not go on with the session that presented the former node. "" is the
	// client's own node.
	Template string
	// Failed says why a rule, Rule, could not be evaluated, which isolates the client
	// (AGG-2); nil otherwise.
	Failed error
}

// Otherwise stands where a rule's name would where none matched.
const Otherwise = "otherwise"

// Subject is one client before a set of rules. What the rules make of its node and its
// identity is prepared once.
type Subject struct {
	set  *Set
	node *corev3.Node
	peer keyer.Peer
}

// Subject gives a client. node is that of the first request of its stream (STR-1), nil if
// there was none: then rules that look at it fail. Neither is changed.
func (s *Set) Subject(node *corev3.Node, peer keyer.Peer) *Subject {
	return &Subject{set: s, node: node, peer: peer}
}

// Decide gives the scope of the client for names of a type that are not xdstp names
// (AGG-1, AGG-2). byName reports that it depends on the name, since a rule looks at it:
// then DecideName has to be asked for each, and the decision is none. The error is a
// [*RefusedError]. Ask once per stream and type.
func (c *Subject) Decide(typeURL string) (d Decision, byName bool, err error) {
	d, err = c.DecideName(typeURL, "")
	return d, false, err
}

// DecideName is Decide for one name, "*" for all there are.
func (c *Subject) DecideName(typeURL, name string) (Decision, error) {
	d := Decision{Node: c.node, Rule: Otherwise}
	switch c.set.otherwise {
	case Share:
		d.Scope = sharedScope(c.node)
		return d, nil
	case Refuse:
		return Decision{}, c.refused(typeURL, nil)
	default:
		// Isolate, and whatever is no policy: never a wider scope by accident.
		return c.isolated(typeURL, d)
	}
}

func (c *Subject) isolated(typeURL string, d Decision) (Decision, error) {
	scope, err := isolatedScope(c.node, c.peer)
	if err != nil {
		return Decision{}, c.refused(typeURL, err)
	}
	d.Scope = scope
	return d, nil
}

func (c *Subject) refused(typeURL string, cause error) error {
	return &RefusedError{Node: shorten(c.node.GetId()), TypeURL: shorten(typeURL), Rule: Otherwise, Cause: cause}
}

// Explanation is how a decision came about, rule by rule (AGG-5).
type Explanation struct {
	Rules    []RuleResult `json:"rules"` // in order, up to and with the one that decided
	Decision Decision     `json:"-"`
	Refused  error        `json:"-"`       // the clients are turned away; Decision is zero then
	ByName   bool         `json:"by_name"` // the type is decided name by name (Decide)
}

// RuleResult is what one rule said.
type RuleResult struct {
	Rule   string `json:"rule"`
	Result string `json:"result"` // "matches", "does not match", "fails", "not reached"
	Why    string `json:"why"`    // the expression, with what its parts came to
}

// Explain gives how a decision comes about; name nil: for the type as a whole.
func (c *Subject) Explain(typeURL string, name *string) Explanation {
	return Explanation{}
}

// Unmentioned lists the fields, as in "id", "locality.zone" or "metadata.role", in which
// two nodes differ that met in a scope of a rule and that neither its expressions nor
// those of the rules before it look at: a control plane that reads them would tell the
// two clients apart.
func (s *Set) Unmentioned(rule string, a, b *corev3.Node) []string { return nil }

// shorten keeps errors readable.
func shorten(s string) string {
	const most = 256
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%.*s…", most, s)
}
