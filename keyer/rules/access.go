package rules

import (
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// varXDSTP is a variable that only access rules have.
const varXDSTP = "xdstp"

// AccessRule says what some clients get of some names (ACC-2).
type AccessRule struct {
	// Name is shown to people: letters, digits and any of -_. only.
	Name string
	// Match is a CEL expression that is true for the clients, types and names that the rule
	// is for.
	Match string
	// Allow says what the rule decides: the client gets the resource, or it does not.
	Allow bool
	// Secrets says that a rule that allows is for AccessConfig.Types too. Without it the rule matches none of their names.
	Secrets bool
	// Shadow says that the rule decides nothing: see [Access.Shadow].
	Shadow bool
}

// AccessConfig is what an [Access] is compiled from.
type AccessConfig struct {
	Rules []AccessRule
	Allow bool            // what becomes of a name that no rule matches
	Types map[string]bool // type URLs whose names are denied unless a rule with Secrets allows them (ACC-4)
	// Shadow says that the rules decide about names of Types only. All others are allowed.
	Shadow bool
}

// Access is a list of access rules, ready to be asked. It is immutable, and any goroutine may
// use it.
type Access struct {
	set   *Set // of the subjects; it has no rules
	rules []*accessRule
	allow bool
	types map[string]bool // those of secrets, by the name of the message

	shadow   bool    // the rules decide about secrets only
	enforced *Access // these rules as if all were enforced; nil: they are
}

type accessRule struct {
	rule
	allow, secrets, shadow bool
}

// passes reports whether a rule says nothing of names of a type, whatever its match says: it is not enforced, or it allows,
// and not secrets.
func (r *accessRule) passes(secret bool) bool { return r.shadow || secret && r.allow && !r.secrets }

// Shadow gives the rules as if all were enforced; nil if they are. What they decide otherwise says what would be different.
func (a *Access) Shadow() *Access { return a.enforced }

// shade makes what Shadow gives.
func (a *Access) shade() {
	whole, inShadow := *a, a.shadow
	whole.shadow, whole.rules = false, nil
	for _, r := range a.rules {
		inShadow = inShadow || r.shadow
		enforced := *r
		enforced.shadow = false
		whole.rules = append(whole.rules, &enforced)
	}
	if inShadow {
		a.enforced = &whole
	}
}

// xdstpName is the variable xdstp: the parts of an xdstp name, all empty for any other name.
type xdstpName struct {
	Authority string            `cel:"authority"`
	Type      string            `cel:"type"`
	ID        string            `cel:"id"`
	Context   map[string]string `cel:"context"` // its context parameters
}

const xdstpType = "xdsrelay.Name"

// CompileAccess checks access rules and makes an Access of them. If anything is wrong it is nil,
// and the problems are all there are: Problem.Rule is the index of the rule.
func CompileAccess(cfg AccessConfig) (*Access, []Problem) {
	a := &Access{set: new(Set), allow: cfg.Allow, types: make(map[string]bool), shadow: cfg.Shadow}
	for url, denied := range cfg.Types {
		a.types[messageOf(shownType(url))] = denied
	}
	c, problems := newCompiler(len(cfg.Rules))
	if len(problems) > 0 {
		return nil, problems
	}
	c.access = true
	if len(cfg.Rules) > maxRules {
		c.problem(maxRules, "", "there are %d rules, at most %d are allowed", len(cfg.Rules), maxRules)
		return nil, c.problems
	}
	names, matches, ofSecrets := make(map[string]int), make(map[string]string), make(map[string]string)
	for i, r := range cfg.Rules {
		if r.Name == "" {
			c.problem(i, fieldName, "missing: logs and xdsrelay explain call a rule by its name")
		} else {
			c.name(i, r.Name, names)
		}
		compiled := &accessRule{rule: rule{name: r.Name}, allow: r.Allow, secrets: r.Secrets, shadow: r.Shadow}
		if strings.TrimSpace(r.Match) == "" {
			c.problem(i, fieldMatch, "missing: match selects the clients, types and names of the rule; true selects all")
		} else {
			compiled.match = c.expression(i, fieldMatch, r.Match)
		}
		if compiled.match.looksAt(varUpstream) {
			c.problem(i, fieldMatch, "%q is not for access rules: they decide before the relay looks where a name lives", varUpstream)
		}
		if r.Shadow { // the rules after it are reached
		} else if r.Allow && r.Secrets { // the rules before it that allow without the key leave secrets to it
			matches[c.reached(i, &compiled.rule, ofSecrets)] = r.Name
		} else if text := c.reached(i, &compiled.rule, matches); !r.Allow {
			ofSecrets[text] = r.Name
		}
		a.rules = append(a.rules, compiled)
	}
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	a.shade()
	return a, nil
}

// LooksAtPeer lists the indexes of the rules that look at the peer.
func (a *Access) LooksAtPeer() []int {
	var list []int
	for i, r := range a.rules {
		if r.match.looksAt(varPeer) {
			list = append(list, i)
		}
	}
	return list
}

// PeerOfAnyListener lists the indexes of the rules that look at the peer, and not at the listener.
func (a *Access) PeerOfAnyListener() (list []int) {
	for i, r := range a.rules {
		if r.match.looksAt(varPeer) && !r.match.looksAt(varListener) {
			list = append(list, i)
		}
	}
	return list
}

// Misspelt is a literal that a rule compares with the name, and that no name equals: rules see xdstp names in their canonical
// form, without directives (NAME-3).
type Misspelt struct {
	Rule            int
	Text, Canonical string // Canonical is "" if the text is no xdstp name
}

// Misspelt lists such literals, in order.
func (a *Access) Misspelt() (list []Misspelt) {
	for i, r := range a.rules {
		compared := func(e ast.Expr) {
			text, _ := literalString(e)
			if !keyer.IsXDSTP(text) {
				return
			}
			canonical := ""
			if name, err := keyer.Parse(text); err == nil {
				canonical = name.Canonical()
			}
			if canonical != text {
				list = append(list, Misspelt{i, text, canonical})
			}
		}
		ast.PreOrderVisit(r.match.ast.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
			if e.Kind() != ast.CallKind {
				return
			}
			args := e.AsCall().Args()
			isName := func(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == varName }
			switch e.AsCall().FunctionName() {
			case operators.Equals, operators.NotEquals:
				if isName(args[0]) {
					compared(args[1])
				} else if isName(args[1]) {
					compared(args[0])
				}
			case operators.In:
				if isName(args[0]) && args[1].Kind() == ast.ListKind {
					for _, element := range args[1].AsList().Elements() {
						compared(element)
					}
				}
			}
		}))
	}
	return list
}

// AllowsUnknown gives the index of the first rule that may allow names of a type to clients of a
// listener of whom nothing is known, and -1 if there is none. What a match that looks at the peer
// says of such a client may depend on its node: it counts as a match for others.
func (a *Access) AllowsUnknown(typeURL, listener string) int {
	secret := a.Secret(typeURL)
	for i, r := range a.rules {
		if r.passes(secret) {
			continue
		}
		matched, known, err := a.anyName(r, typeURL, listener, varNode)
		switch {
		case err != nil: // the rule denies
			return -1
		case known && !matched, !known && (!r.allow || r.match.looksAt(varPeer)):
		case r.allow:
			return i
		default:
			return -1
		}
	}
	return -1
}

// WithoutSecrets lists the indexes of the rules that could allow names of a type of secrets, and are not for secrets.
func (a *Access) WithoutSecrets(typeURL string) (list []int) {
	for i, r := range a.rules {
		matched, known, err := a.anyName(r, typeURL, "", varNode, varPeer, varListener)
		switch {
		case err == nil && known && !matched:
		case r.shadow:
		case r.passes(true):
			list = append(list, i)
		case known && matched:
			return list // it decides for all that are left
		}
	}
	return list
}

// anyName says whether a rule matches a type with any name, and what else is open.
func (a *Access) anyName(r *accessRule, typeURL, listener string, open ...string) (matched, known bool, err error) {
	patterns := slices.Clone(unknowns)
	for _, name := range open {
		patterns = append(patterns, cel.AttributePattern(name))
	}
	vars, err := cel.PartialVars(a.set.Subject(nil, keyer.Peer{Listener: listener}).variables(shownType(typeURL), nil), patterns...)
	if err != nil {
		return false, false, err
	}
	env, err := environment()
	if err != nil {
		return false, false, err
	}
	program, err := env.Program(r.match.ast, cel.EvalOptions(cel.OptPartialEval))
	if err != nil {
		return false, false, err
	}
	value, _, err := program.Eval(vars)
	if err != nil {
		return false, false, err
	}
	b, known := value.(types.Bool)
	return bool(b), known, nil
}

// AccessSubject is one client before access rules. It remembers what was decided of types. One
// goroutine at a time may use it.
type AccessSubject struct {
	access *Access
	client *Subject
	types  map[string]*accessType
	known  remembered
}

// accessType is what the rules say of all names of a type.
type accessType struct {
	byName  bool
	allowed bool          // unless byName
	rule    string        // that decided; unless byName
	failed  *FailedError  // of that rule
	open    []*accessRule // byName: the rules that names are left to
}

// Subject gives a client. node is nil if it presented none: rules that look at it fail, and deny.
func (a *Access) Subject(node *corev3.Node, peer keyer.Peer) *AccessSubject {
	return &AccessSubject{access: a, client: a.set.Subject(node, peer)}
}

// AccessDecision is what the rules say of a name.
type AccessDecision struct {
	Allowed bool
	Rule    string // that decided, or [Otherwise]
	Failed  string // why Rule could not be evaluated, which denies (ACC-2); "": it was
}

// Type gives what the rules decide for all names of a type. byName: it depends on the name.
func (s *AccessSubject) Type(typeURL string) (d AccessDecision, byName bool) {
	t := s.of(typeURL)
	if t.byName {
		return AccessDecision{}, true
	}
	return t.decision(), false
}

func (t *accessType) decision() AccessDecision {
	if t.failed != nil {
		return deniedBy(t.failed)
	}
	return AccessDecision{Allowed: t.allowed, Rule: t.rule}
}

// deniedBy is the decision of a rule that fails.
func deniedBy(failure *FailedError) AccessDecision {
	return AccessDecision{Rule: failure.Rule, Failed: failure.why()}
}

// of gives what the rules say of a type, once worked out.
func (s *AccessSubject) of(typeURL string) *accessType {
	if t := s.types[typeURL]; t != nil {
		return t
	}
	t := s.judge(typeURL)
	if s.types == nil {
		s.types = make(map[string]*accessType)
	}
	s.types[typeURL] = t
	return t
}

// judge asks the rules about all names of a type. Rules that depend on the name are left open, up
// to the first that decides whatever the name is.
func (s *AccessSubject) judge(typeURL string) *accessType {
	v, secret := s.client.variables(shownType(typeURL), nil), s.access.Secret(typeURL)
	if s.access.shadow && !secret {
		return &accessType{allowed: true, rule: Otherwise}
	}
	var open []*accessRule
	for _, r := range s.access.rules {
		if r.passes(secret) {
			continue
		}
		matched, known, failure := r.matches(v)
		decides := failure != nil || matched
		switch {
		case decides && len(open) == 0:
			return &accessType{allowed: failure == nil && r.allow, rule: r.name, failed: failure}
		case decides || !known:
			open = append(open, r)
		}
		if decides {
			break
		}
	}
	if len(open) == 0 {
		return &accessType{allowed: s.access.Otherwise(typeURL), rule: Otherwise}
	}
	return &accessType{byName: true, open: open}
}

// Empty reports whether there are no rules.
func (a *Access) Empty() bool { return len(a.rules) == 0 }

// Otherwise reports whether names of a type are allowed that no rule matches (ACC-4).
func (a *Access) Otherwise(typeURL string) bool {
	return (a.allow || a.shadow) && !a.Secret(typeURL)
}

// Secret reports whether names of a type are denied unless a rule for secrets allows them.
func (a *Access) Secret(typeURL string) bool {
	return len(a.types) > 0 && a.types[messageOf(memberType(shownType(typeURL)))]
}

// messageOf is the name of the message that a type URL stands for: what comes before it says only where
// the message is described. A control plane may not look at that.
func messageOf(typeURL string) string { return typeURL[strings.LastIndexByte(typeURL, '/')+1:] }

// shownType is the variable type: a type has one URL there in each form that the relay knows, and Envoy's other messages
// whatever a client writes before them. Else a rule about a type would not be for all that a control plane takes for it.
func shownType(typeURL string) string {
	if known, is := keyer.KnownType(typeURL); is {
		return known
	}
	const authority = "type.googleapis.com/"
	message := messageOf(typeURL)
	if !strings.HasPrefix(message, "envoy.") || strings.HasPrefix(typeURL, authority) && len(typeURL) == len(authority)+len(message) {
		return typeURL
	}
	return authority + message
}

// memberType is the type of the members of a list collection, and any other type as it is.
func memberType(typeURL string) string {
	if member, isList := keyer.MemberType(typeURL); isList {
		return member
	}
	return typeURL
}

// Name decides about one name as the rules see names: the canonical form of an xdstp name, or a
// glob of them, without directives; any other name as it is; "*" for all.
func (s *AccessSubject) Name(typeURL, name string) AccessDecision {
	t := s.of(typeURL)
	if !t.byName {
		return t.decision()
	}
	if d, known := s.known.of(typeURL, name); known {
		return d
	}
	before := s.client.effort.spent
	d, failure := s.decide(t, typeURL, name)
	s.known.note(typeURL, name, d, failure, s.client.effort.spent-before, s.client.effort.over())
	return d
}

// decide asks the rules that names are left to about one.
func (s *AccessSubject) decide(t *accessType, typeURL, name string) (AccessDecision, *FailedError) {
	v := s.client.variables(shownType(typeURL), &name)
	for _, r := range t.open {
		matched, _, failure := r.matches(v)
		switch {
		case failure != nil:
			return deniedBy(failure), failure
		case matched:
			return AccessDecision{Allowed: r.allow, Rule: r.name}, nil
		}
	}
	return AccessDecision{Allowed: s.access.Otherwise(typeURL), Rule: Otherwise}, nil
}

// Subscription decides about a name as a client spells it, and gives the name that decided, as
// rules see it. A name with alternatives is denied if one of them is: the client may be sent what
// stands there (LOC-5).
func (s *AccessSubject) Subscription(typeURL, spelling string) (d AccessDecision, name string) {
	if !keyer.IsXDSTP(spelling) {
		return s.Name(typeURL, spelling), spelling
	}
	parsed, err := keyer.Parse(spelling)
	if err != nil {
		return AccessDecision{Failed: err.Error()}, spelling
	}
	if parsed.Alt() == "" {
		return s.Name(typeURL, parsed.Canonical()), parsed.Canonical()
	}
	for n := range parsed.Alternatives() {
		name = n.Canonical()
		if d = s.Name(typeURL, name); !d.Allowed {
			break
		}
	}
	return d, name
}

// Forget forgets what was decided about a name as a client spells it, which it does not subscribe to any more.
func (s *AccessSubject) Forget(typeURL, spelling string) {
	if len(s.known.names) == 0 {
		return
	}
	if !keyer.IsXDSTP(spelling) {
		s.known.forget(typeURL, spelling)
		return
	}
	parsed, err := keyer.Parse(spelling)
	if err != nil {
		return
	}
	for n := range parsed.Alternatives() {
		s.known.forget(typeURL, n.Canonical())
	}
}

// Differs reports whether the same client may get other names of a type by other rules. It may
// report it although all decisions are the same.
func (s *AccessSubject) Differs(o *AccessSubject, typeURL string) bool {
	a, b := s.of(typeURL), o.of(typeURL)
	if !a.byName || !b.byName {
		return a.byName != b.byName || a.allowed != b.allowed
	}
	return s.access.Otherwise(typeURL) != o.access.Otherwise(typeURL) || !slices.EqualFunc(a.open, b.open, (*accessRule).says)
}

// says reports whether two rules decide alike.
func (r *accessRule) says(o *accessRule) bool {
	return r.match.source == o.match.source && r.allow == o.allow && r.secrets == o.secrets && r.shadow == o.shadow
}

// Explain gives the result of each rule for a name, or nil for the type as a whole, and the
// decision; byName as for Type.
func (s *AccessSubject) Explain(typeURL string, name *string) (results []RuleResult, d AccessDecision, byName bool) {
	v := s.client.variables(shownType(typeURL), name)
	if name == nil {
		d, byName = s.Type(typeURL)
	} else {
		d = s.Name(typeURL, *name)
	}
	decided, secret := false, s.access.Secret(typeURL)
	for _, r := range s.access.rules {
		switch {
		case decided:
			results = append(results, RuleResult{Rule: r.name, Result: NotReached})
			continue
		case r.shadow || s.access.shadow && !secret:
			results = append(results, RuleResult{Rule: r.name, Result: DoesNotMatch, Why: "it is not enforced (enforce: false)"})
			continue
		case r.passes(secret):
			results = append(results, RuleResult{Rule: r.name, Result: DoesNotMatch, Why: "it gives no secrets (secrets: true)"})
			continue
		}
		result := s.client.explainRule(&r.rule, v)
		decided = result.Result == Matches || result.Result == Fails
		results = append(results, result)
	}
	return results, d, byName
}

// xdstpOf takes a name apart.
func xdstpOf(name string) *xdstpName {
	parsed, err := keyer.Parse(name)
	if err != nil {
		return &xdstpName{}
	}
	return &xdstpName{Authority: parsed.Authority, Type: parsed.Type, ID: parsed.ID, Context: maps.Collect(parsed.Context())}
}
