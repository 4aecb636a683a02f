package rules

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// Requirement says which nodes a client may present (ACC-5).
type Requirement struct {
	// Name is shown to people: letters, digits and any of -_. only.
	Name string
	// Require is a CEL expression over the variables node and peer that is true for the
	// nodes that the peer may present.
	Require string
	// Shadow says that the requirement refuses nobody: see [Verifier.Shadow].
	Shadow bool
}

// Verifier is a list of requirements, ready to be asked. It is immutable, and any goroutine
// may use it.
type Verifier struct {
	set  *Set // of the subjects; it has no rules
	all  []*rule
	peer []int // the requirements that look at the peer
	any  []int // those of them that do not look at the listener

	shadow *Verifier // of the requirements that refuse nobody; nil: there are none
}

// CompileVerify checks requirements and makes a Verifier of them. If anything is wrong it is
// nil, and the problems are all there are: Problem.Rule is the index of the requirement.
func CompileVerify(list []Requirement) (*Verifier, []Problem) {
	v := &Verifier{set: new(Set)}
	c, problems := newCompiler(len(list))
	if len(problems) > 0 {
		return nil, problems
	}
	if len(list) > maxRules {
		c.problem(maxRules, "", "there are %d rules, at most %d are allowed", len(list), maxRules)
		return nil, c.problems
	}
	names := make(map[string]int)
	for i, r := range list {
		if r.Name == "" {
			c.problem(i, fieldName, "missing: the log and the metrics call a rule by its name")
		} else {
			c.name(i, r.Name, names)
		}
		compiled := &rule{name: r.Name, match: c.expression(i, fieldRequire, r.Require)}
		if r.Shadow {
			if v.shadow == nil {
				v.shadow = &Verifier{set: v.set}
			}
			v.shadow.all = append(v.shadow.all, compiled)
			continue
		}
		if compiled.match.looksAt(varPeer) {
			v.peer = append(v.peer, i)
			if !compiled.match.looksAt(varListener) {
				v.any = append(v.any, i)
			}
		}
		v.all = append(v.all, compiled)
	}
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	return v, nil
}

// LooksAtPeer lists the indexes of the requirements that look at the peer.
func (v *Verifier) LooksAtPeer() []int { return v.peer }

// PeerOfAnyListener lists the indexes of the requirements that look at the peer, and not at the listener.
func (v *Verifier) PeerOfAnyListener() []int { return v.any }

// Shadow gives the requirements that are not enforced; nil if there are none.
func (v *Verifier) Shadow() *Verifier { return v.shadow }

// Empty reports whether there are no requirements that are enforced.
func (v *Verifier) Empty() bool { return len(v.all) == 0 }

// Verify compares a client's node, nil if it presents none, with who the client is. The error
// is an [*UnverifiedError]: of the first requirement that is false, or that fails. A nil Verifier
// has no requirements.
func (v *Verifier) Verify(node *corev3.Node, peer keyer.Peer) error {
	if v == nil || len(v.all) == 0 {
		return nil
	}
	vars := v.set.Subject(node, peer).variables("", nil)
	for _, r := range v.all {
		if met, _, failure := r.matches(vars); failure != nil || !met {
			return &UnverifiedError{Rule: r.name, Failed: failure, expression: oneLine(r.match.source)}
		}
	}
	return nil
}

// Explain gives the result of each requirement: [Matches], [DoesNotMatch] or [Fails].
func (v *Verifier) Explain(node *corev3.Node, peer keyer.Peer) []RuleResult {
	subject := v.set.Subject(node, peer)
	vars := subject.variables("", nil)
	results := make([]RuleResult, 0, len(v.all))
	for _, r := range v.all {
		results = append(results, subject.explainRule(r, vars))
	}
	return results
}

// UnverifiedError says that a requirement does not let a client present its node. Over gRPC it
// is a PERMISSION_DENIED.
type UnverifiedError struct {
	Rule   string       // the requirement's name
	Failed *FailedError // why the requirement has no result for the client; nil: it is false

	expression string
}

// Error gives the client's view: it does not show the rule.
func (e *UnverifiedError) Error() string {
	return fmt.Sprintf("access.verify: the rule %q does not let this client present its node", e.Rule)
}

// Reason gives the operator's view.
func (e *UnverifiedError) Reason() string {
	if e.Failed != nil {
		return e.Failed.why()
	}
	return fieldRequire + ": " + e.expression + " is false"
}
