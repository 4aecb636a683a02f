package rules

import (
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// Otherwise stands where a rule's name would where none matched.
const Otherwise = "otherwise"

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
	// Node is what [UpstreamNode] builds the upstream node from. Whole says that it is the
	// client's, which goes up as it is: of an isolated client, or where the rule says so.
	// Else it has the fields that the rule's scope names, and those that the rule sets. It
	// must not be changed.
	Node  *corev3.Node
	Whole bool
	// Client is the client's own node. It must not be changed.
	Client *corev3.Node
	// Basis stands for the rules by which clients came into Scope: the matches up to that
	// of the rule, its scope and its node. By others, after a reload, the client whose node
	// went upstream might be in another scope, or another node be built: what was begun on
	// one basis does not serve another. "" is that of an isolated client, which is in its
	// scope whatever the rules.
	Basis string
	// Failed says why a rule, Rule, could not be evaluated, which isolates the client
	// (AGG-2): a [*FailedError]; nil otherwise. Where the policy is to refuse, the client is
	// refused, with this as the cause.
	Failed error

	fields [][]string // of Node, those that the relay's own has no part in
}

// Decide gives the scope of the client for names of a type that are not xdstp names
// (AGG-1, AGG-2). byName reports that it depends on the name, since a rule looks at it:
// then DecideName has to be asked for each, and the decision is none. The error is a
// [*RefusedError]. Ask once per stream and type.
func (c *Subject) Decide(typeURL string) (d Decision, byName bool, err error) {
	if _, byName := c.open[typeURL]; byName {
		return Decision{}, true, nil
	}
	return c.decide(c.variables(typeURL, nil), c.set.rules)
}

// DecideName is Decide for one name, "*" for all there are. Where Decide was asked before,
// rules that are for no name of the type are not evaluated again.
func (c *Subject) DecideName(typeURL, name string) (Decision, error) {
	list := c.set.rules
	if open, ok := c.open[typeURL]; ok {
		list = open
	}
	d, _, err := c.decide(c.variables(typeURL, &name), list)
	return d, err
}

// decide asks rules in order: the first that matches decides, and so does one that
// fails, or a client could come into a wider scope by a rule that was not meant for it
// (AGG-2).
func (c *Subject) decide(v *variables, list []*rule) (d Decision, byName bool, err error) {
	for i, r := range list {
		matched, known, failure := r.matches(v)
		switch {
		case failure != nil:
			d, err = c.failed(v, Decision{Rule: r.name, Failed: failure})
			return d, false, err
		case !known:
			c.leaveOpen(v, list[i:])
			return Decision{}, true, nil
		case matched:
			d, byName, err = c.apply(r, v)
			if byName {
				c.leaveOpen(v, list[i:])
			}
			return d, byName, err
		}
	}
	d, err = c.otherwise(v)
	return d, false, err
}

// leaveOpen notes the rules that names of a type are left to: those that are not false
// whatever the name, up to the first that decides whatever the name.
func (c *Subject) leaveOpen(v *variables, list []*rule) {
	var open []*rule
	for _, r := range list {
		matched, known, failure := r.matches(v)
		if known && !matched {
			continue
		}
		open = append(open, r)
		if matched || failure != nil {
			break
		}
	}
	if c.open == nil {
		c.open = make(map[string][]*rule)
	}
	c.open[v.typeURL] = open
}

// matches asks one rule; known is false if that depends on the name, and there is none.
func (r *rule) matches(v *variables) (matched, known bool, failure *FailedError) {
	value, err := r.match.eval(v)
	if err != nil {
		return false, false, r.match.failed(r.name, err)
	}
	switch value := value.(type) {
	case types.Bool:
		return bool(value), true, nil
	case *types.Unknown:
		return false, false, nil
	}
	return false, false, r.match.failed(r.name, wrongType(value, types.BoolType.TypeName()))
}

// apply works out what a rule that matches says.
func (c *Subject) apply(r *rule, v *variables) (d Decision, byName bool, err error) {
	d = Decision{Rule: r.name, Upstream: r.upstream, Basis: r.basis, Client: c.node, Whole: r.whole, fields: r.fields, Parts: make([]any, 0, len(r.scope))}
	scope, failure := newScopeKey(r.name), (*FailedError)(nil)
	for _, x := range r.scope {
		var value ref.Val
		if value, failure = x.part(r.name, v, scope); failure != nil {
			break
		}
		if value == nil {
			return Decision{}, true, nil
		}
		d.Parts = append(d.Parts, jsonOf(value))
	}
	if failure == nil {
		var known bool
		if d.Node, known, failure = r.build(v); failure == nil && !known {
			return Decision{}, true, nil
		}
	}
	if failure != nil {
		d, err = c.failed(v, Decision{Rule: r.name, Upstream: r.upstream, Failed: failure})
		return d, false, err
	}
	d.Scope = scope.finish(c.passedFeatures())
	return d, false, nil
}

// part adds one part to a scope. It gives its value, or nil if that depends on the name
// and there is none.
func (x *expression) part(rule string, v *variables, scope *scopeKey) (ref.Val, *FailedError) {
	value, err := x.eval(v)
	if err != nil {
		return nil, x.failed(rule, err)
	}
	if _, unknown := value.(*types.Unknown); unknown {
		return nil, nil
	}
	before := len(scope.text)
	if err := scope.add(value); err != nil {
		return nil, x.failed(rule, err)
	}
	v.wrote(len(scope.text) - before)
	return value, nil
}

// otherwise is for clients that no rule matched.
func (c *Subject) otherwise(v *variables) (Decision, error) {
	switch c.set.otherwise {
	case Share:
		node := &corev3.Node{ClientFeatures: c.passedFeatures()}
		return Decision{Rule: Otherwise, Node: node, Client: c.node, Scope: sharedScope(c.node), Basis: c.set.basis}, nil
	case Refuse:
		return Decision{}, c.refused(v, Otherwise, nil)
	default:
		// Isolate, and whatever is no policy: never a wider scope by accident.
		return c.isolated(v, Decision{Rule: Otherwise})
	}
}

// failed is for a client that a rule fails for: it is isolated, or refused where that is
// what becomes of clients that no rule matches. A rule that cannot say whom it is for
// serves nobody who would not be served without it (AGG-2).
func (c *Subject) failed(v *variables, d Decision) (Decision, error) {
	if c.set.otherwise == Refuse {
		return Decision{}, c.refused(v, d.Rule, d.Failed)
	}
	return c.isolated(v, d)
}

// isolated gives the client a scope that it shares with none but its like.
func (c *Subject) isolated(v *variables, d Decision) (Decision, error) {
	if c.alone == "" {
		scope, err := isolatedScope(c.node, c.peer)
		if err != nil {
			return Decision{}, c.refused(v, d.Rule, err)
		}
		c.alone = scope
	}
	d.Node, d.Whole, d.Client, d.Scope = c.node, true, c.node, c.alone
	return d, nil
}

func (c *Subject) refused(v *variables, rule string, cause error) error {
	return &RefusedError{Node: keyer.Shorten(c.node.GetId()), TypeURL: keyer.Shorten(v.typeURL), Rule: rule, Cause: cause}
}
