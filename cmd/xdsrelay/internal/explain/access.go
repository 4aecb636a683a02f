package explain

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// Access is what access.rules say of a client's names of a type, or of one name (ACC-2).
type Access struct {
	Allowed bool   `json:"allowed"`
	ByName  bool   `json:"by_name"`        // it depends on the name, and none was given; Allowed is false then
	Rule    string `json:"rule,omitempty"` // that decided, or "otherwise"
	// Name is the name as the rules see it: of one with alternatives, the one that decided.
	Name   string             `json:"name,omitempty"`
	Reason string             `json:"reason,omitempty"` // why Rule fails, which denies
	Rules  []rules.RuleResult `json:"rules,omitempty"`  // all rules in order, each with what it said
}

// allowed explains what a client may get; nil where there is nothing to say, since there are no
// access rules and the type holds no secrets.
func (e *Explainer) allowed(node *corev3.Node, peer keyer.Peer, typeURL string, name *string) *Access {
	set := e.access.Of(peer.Through())
	if set.Rules.Empty() && set.Rules.Otherwise(typeURL) {
		return nil
	}
	client := set.Rules.Subject(node, peer)
	a := new(Access)
	if name != nil {
		_, a.Name = client.Subscription(typeURL, *name)
		name = &a.Name
	}
	var d rules.AccessDecision
	a.Rules, d, a.ByName = client.Explain(typeURL, name)
	a.Allowed, a.Rule, a.Reason = d.Allowed, d.Rule, d.Failed
	return a
}

// meaning explains a decision.
func (a *Access) meaning() string {
	switch {
	case a.ByName:
		return "a rule of access.rules looks at the name; use --name to explain one"
	case a.Reason != "":
		return "denied, because rule " + a.Rule + " fails: " + logs.Printable(a.Reason)
	case a.Allowed && a.Rule == rules.Otherwise:
		return "allowed: no rule of access.rules matches, and access.otherwise allows"
	case a.Allowed:
		return "allowed by rule " + a.Rule
	case a.Rule == rules.Otherwise:
		return "denied: no rule of access.rules allows it"
	default:
		return "denied by rule " + a.Rule
	}
}

func (a *Access) color() string {
	switch {
	case a.ByName:
		return yellow
	case a.Allowed:
		return green
	default:
		return red
	}
}

// access writes what access.rules say of a type or a name.
func (p *page) access(a *Access, spelling, listener string) {
	if a == nil {
		return
	}
	p.field("access", p.paint(a.color(), a.meaning()))
	if a.Name != "" && a.Name != spelling {
		p.field("", "the rules see the name "+logs.Printable(a.Name))
	}
	if len(a.Rules) == 0 {
		return
	}
	p.line("\n%s%s", p.paint(bold, "access.rules"), ofListener(listener))
	name, result := 0, 0
	for _, r := range a.Rules {
		name, result = max(name, len(r.Rule)), max(result, len(r.Result))
	}
	for _, r := range a.Rules {
		p.ruleLine(name, result, r.Rule, r.Result, r.Why)
	}
}

// denials lists the types that a client does not get.
func (p *page) denials(c *Client) {
	for i := range c.Types {
		if t := &c.Types[i]; t.Access != nil && !t.Access.Allowed {
			p.line("\n%s access: %s", t.Type, p.paint(t.Access.color(), t.Access.meaning()))
		}
	}
}
