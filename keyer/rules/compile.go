package rules

import (
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// rule is a compiled Rule.
type rule struct {
	name     string
	upstream string
	match    *expression
	scope    []*expression
	node     []*expression // in the order of fields
	first    bool          // the control plane is shown the node of the first client
	basis    string        // as in Decision

	// Worked out by layNode.
	whole  bool       // the client's node goes up as a whole
	named  []named    // the fields that the scope names
	fields [][]string // those, and those that node sets
}

// compiler collects what is wrong. It holds what CEL made of the expressions until they are compiled.
type compiler struct {
	env      *cel.Env
	access   bool // the rules are access rules
	problems []Problem
}

// newCompiler gives a compiler of so many rules, or why there is none. Without rules there are no expressions,
// and no environment is made for them.
func newCompiler(rules int) (*compiler, []Problem) {
	if rules == 0 {
		return new(compiler), nil
	}
	env, err := environment()
	if err != nil {
		return nil, []Problem{{Message: "the environment of expressions: " + err.Error()}}
	}
	return &compiler{env: env}, nil
}

// Compile checks the rules and makes a Set of them. If anything is wrong the set is nil,
// and the problems are all there are, in the order of the rules and their fields
// (AGG-4).
func Compile(cfg Config) (*Set, []Problem) {
	s := &Set{otherwise: cfg.Otherwise, upstream: cfg.Upstream}
	c, problems := newCompiler(len(cfg.Rules))
	if len(problems) > 0 {
		return nil, problems
	}
	if len(cfg.Rules) > maxRules {
		c.problem(maxRules, "", "there are %d rules, at most %d are allowed", len(cfg.Rules), maxRules)
		return nil, c.problems
	}
	names, matches := make(map[string]int), make(map[string]string)
	for i, r := range cfg.Rules {
		c.name(i, r.Name, names)
		compiled := c.rule(i, r)
		c.reached(i, compiled, matches)
		s.rules = append(s.rules, compiled)
	}
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	for _, r := range s.rules {
		c.layNode(r)
		c.layMentions(r)
	}
	s.layBases()
	s.collectLater()
	return s, nil
}

// reached refuses rules that none can come to, since one before them matches the same or
// everything. matches are the rules' names by what they match. It gives what this one matches; "" if nothing can be said.
func (c *compiler) reached(i int, r *rule, matches map[string]string) (match string) {
	if r.match == nil || r.match.isNever() {
		return ""
	}
	text, err := cel.AstToString(r.match.ast)
	if err != nil {
		return ""
	}
	const everything = "true"
	if before, ok := matches[everything]; ok {
		c.problem(i, fieldMatch, "never reached: the earlier rule %q matches everything", before)
		return ""
	}
	if before, ok := matches[text]; ok {
		c.problem(i, fieldMatch, "never reached: the earlier rule %q has the same match", before)
		return ""
	}
	matches[text] = r.name
	return text
}

func (c *compiler) problem(rule int, field, format string, args ...any) {
	c.problems = append(c.problems, Problem{Rule: rule, Field: field, Message: fmt.Sprintf(format, args...)})
}

var validName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// maxName keeps scopes, which begin with the rule's name, and labels of metrics readable.
const maxName = 64

func (c *compiler) name(i int, name string, names map[string]int) {
	first, taken := names[name]
	switch {
	case name == "":
		c.problem(i, fieldName, "missing: scopes, logs and metrics call a rule by its name")
	case name == Otherwise:
		c.problem(i, fieldName, "%q is the decision without a matching rule; use another name for the rule", name)
	case !validName.MatchString(name):
		c.problem(i, fieldName, "%q: a name has letters, digits and any of -_. only", keyer.Shorten(name))
	case len(name) > maxName:
		c.problem(i, fieldName, "%d characters long, at most %d are allowed", len(name), maxName)
	case taken:
		c.problem(i, fieldName, "%q is already the name of the rule [%d]", name, first)
	default:
		names[name] = i
	}
}

// The fields of a rule that problems name.
const (
	fieldName     = "name"
	fieldMatch    = "match"
	fieldRequire  = "require" // of a Requirement
	fieldScope    = "scope"
	fieldID       = "node.id"
	fieldCluster  = "node.cluster"
	fieldRegion   = "node.locality.region"
	fieldZone     = "node.locality.zone"
	fieldSubZone  = "node.locality.sub_zone"
	fieldMetadata = "node.metadata"
)

func (c *compiler) rule(i int, r Rule) *rule {
	compiled := &rule{name: r.Name, upstream: r.Upstream, first: r.Node.First}
	if strings.TrimSpace(r.Match) == "" {
		c.problem(i, fieldMatch, "missing: match selects the clients and types of the rule; true selects all")
	} else {
		compiled.match = c.expression(i, fieldMatch, r.Match)
	}
	if len(r.Scope) > maxParts {
		c.problem(i, fieldScope, "there are %d parts, at most %d are allowed", len(r.Scope), maxParts)
		return compiled
	}
	for n, source := range r.Scope {
		compiled.scope = append(compiled.scope, c.expression(i, fmt.Sprintf("%s[%d]", fieldScope, n), source))
	}
	for field, source := range r.Node.fields() {
		compiled.node = append(compiled.node, c.expression(i, field, source))
	}
	c.steady(i, compiled)
	return compiled
}

// steady refuses nodes that differ for one client within a scope: a control plane is shown
// one of them, by the chance of what is asked for first.
func (c *compiler) steady(i int, r *rule) {
	for _, x := range r.node {
		for _, variable := range []string{varName, varType} {
			if x.looksAt(variable) && !slices.ContainsFunc(r.scope, func(x *expression) bool { return x.looksAt(variable) }) {
				c.problem(i, x.field, "%s looks at %s, but no part of the scope does: the first value would decide for the whole scope", oneLine(x.source), variable)
			}
		}
	}
}

// fields gives the node fields that a rule sets, each with its expression.
func (n Node) fields() iter.Seq2[string, string] {
	return func(yield func(field, source string) bool) {
		for _, f := range []struct{ field, source string }{
			{fieldID, n.ID},
			{fieldCluster, n.Cluster},
			{fieldRegion, n.Locality.Region},
			{fieldZone, n.Locality.Zone},
			{fieldSubZone, n.Locality.SubZone},
		} {
			if f.source != "" && !yield(f.field, f.source) {
				return
			}
		}
		if n.Metadata != nil && len(n.Metadata) == 0 {
			yield(fieldMetadata, "{}")
			return
		}
		for _, key := range slices.Sorted(maps.Keys(n.Metadata)) {
			if !yield(fieldMetadata+"."+key, n.Metadata[key]) {
				return
			}
		}
	}
}

// expression compiles one, or notes what is wrong with it and gives nil.
func (c *compiler) expression(i int, field, source string) *expression {
	switch {
	case strings.TrimSpace(source) == "":
		c.problem(i, field, "empty: expected an expression")
		return nil
	case len(source) > maxExpressionBytes:
		c.problem(i, field, "%d bytes long, an expression has at most %d", len(source), maxExpressionBytes)
		return nil
	}
	checked, issues := c.env.Compile(source)
	if issues.Err() != nil {
		c.issues(i, field, source, issues)
		return nil
	}
	if !c.check(i, field, source, checked) {
		return nil
	}
	x, err := c.newExpression(field, source, checked)
	if err != nil {
		c.problem(i, field, "%s: %v", oneLine(source), err)
		return nil
	}
	return x
}
