package rules

import corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

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
