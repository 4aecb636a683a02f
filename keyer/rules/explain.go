package rules

import (
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// Explanation is how a decision came about, rule by rule (AGG-5).
type Explanation struct {
	Rules    []RuleResult `json:"rules"` // all, in order
	Decision Decision     `json:"-"`
	Refused  error        `json:"-"`       // the clients are turned away; Decision is zero then
	ByName   bool         `json:"by_name"` // the type is decided name by name (Decide)
	// PerName is what that costs: how many expressions, at most, are evaluated for each
	// name that a client subscribes to. 0 unless ByName: all else is evaluated once per
	// stream and type.
	PerName int `json:"per_name,omitempty"`
}

// The results of a rule.
const (
	Matches       = "matches"
	DoesNotMatch  = "does not match"
	Fails         = "fails"               // it decides, and isolates the client
	DependsOnName = "depends on the name" // which is not given; the next rules are for names that it does not match
	NotReached    = "not reached"
)

// RuleResult is what one rule said.
type RuleResult struct {
	Rule   string `json:"rule"`
	Result string `json:"result"`
	// Why has the terms of the expression that were decisive, with their values; for a
	// rule that fails the field, its expression and the cause.
	Why string `json:"why,omitempty"`
	// Scope and Node are the rule's expressions with their values, where it matches.
	Scope []FieldResult `json:"scope,omitempty"`
	Node  []FieldResult `json:"node,omitempty"`
}

// FieldResult is what one expression of a rule that matches came to.
type FieldResult struct {
	Field      string `json:"field"` // as in [Problem]
	Expression string `json:"expression"`
	Value      any    `json:"value"` // as in Decision.Parts; nil if there is none
	// Text is the value as scopes have it; or why there is none.
	Text string `json:"text"`
}

// Explain gives how a decision comes about; name nil: for the type as a whole.
func (c *Subject) Explain(typeURL string, name *string) Explanation {
	v := c.variables(typeURL, name)
	var e Explanation
	e.Decision, e.ByName, e.Refused = c.decide(v, c.set.rules)
	decided, most := false, 0
	for _, r := range c.set.rules {
		if decided {
			e.Rules = append(e.Rules, RuleResult{Rule: r.name, Result: NotReached})
			continue
		}
		result := c.explainRule(r, v)
		decided = result.Result == Matches || result.Result == Fails
		e.Rules = append(e.Rules, result)
		if e.ByName && result.Result != DoesNotMatch {
			e.PerName++
			most = max(most, len(r.scope)+len(r.node))
		}
	}
	e.PerName += most
	return e
}

func (c *Subject) explainRule(r *rule, v *variables) RuleResult {
	result := RuleResult{Rule: r.name}
	matched, known, failure := r.matches(v)
	switch {
	case failure != nil:
		result.Result, result.Why = Fails, failure.why()
	case !known:
		result.Result, result.Why = DependsOnName, oneLine(r.match.source)
	case !matched:
		result.Result, result.Why = DoesNotMatch, r.match.why(v)
	default:
		result.Result, result.Why = Matches, r.match.why(v)
		result.Scope, failure = explainFields(r, r.scope, v)
		if failure == nil {
			result.Node, failure = explainFields(r, r.node, v)
		}
		if failure == nil { // a value may be of a type that its field cannot hold
			_, _, failure = r.build(v)
		}
		if failure != nil {
			result.Result, result.Why = Fails, failure.why()
		}
	}
	return result
}

// why is the error without the rule's name.
func (e *FailedError) why() string { return e.Field + ": " + e.Expression + ": " + e.Cause.Error() }

// explainFields evaluates fields up to the first that fails.
func explainFields(r *rule, fields []*expression, v *variables) ([]FieldResult, *FailedError) {
	var results []FieldResult
	for _, x := range fields {
		result := FieldResult{Field: x.field, Expression: oneLine(x.source)}
		value, err := x.eval(v)
		if err == nil {
			err = result.fill(value)
		}
		if err != nil {
			result.Text = err.Error()
			return append(results, result), x.failed(r.name, err)
		}
		results = append(results, result)
	}
	return results, nil
}

func (f *FieldResult) fill(value ref.Val) error {
	if _, unknown := value.(*types.Unknown); unknown {
		f.Text = DependsOnName
		return nil
	}
	text, err := appendValue(nil, value, 0)
	switch {
	case err == nil:
		f.Value, f.Text = jsonOf(value), keyer.Shorten(string(text))
	case strings.HasPrefix(f.Field, fieldScope):
		return err
	default: // what is no part of a scope may be in a node
		f.Text = err.Error()
	}
	return nil
}
