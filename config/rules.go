package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// Rules gives the aggregation rules, compiled (AGG-1). The error is an [errors.Join] of
// [*Error], as that of Validate, which finds the same.
func (c *Config) Rules() (*rules.Set, error) {
	if _, err := rules.ParsePolicy(string(c.Aggregation.Otherwise)); err != nil {
		return nil, fmt.Errorf("aggregation.otherwise: %w", err)
	}
	of := c.rules()
	if set, ok := c.atLoading().rules.of(of); ok {
		return set, nil
	}
	set, problems := rules.Compile(of)
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = c.problem(p)
	}
	return set, errors.Join(errs...)
}

// compiled is what the rules of a configuration were compiled to.
type compiled struct {
	rules  made[rules.Config, *rules.Set]
	access map[string]compiledAccess // by the path of the section
}

// compiledAccess is what the rules of a section of access were compiled to.
type compiledAccess struct {
	rules  made[rules.AccessConfig, *rules.Access]
	verify made[[]rules.Requirement, *rules.Verifier]
}

// atLoading is what the rules were compiled to when the configuration was loaded.
func (c *Config) atLoading() compiled {
	if c.compiled == nil {
		return compiled{}
	}
	return *c.compiled
}

// made is what was compiled with what it was made of: a Config is a value that may be changed, for
// instance by a test, after it was loaded. The zero value is nothing.
type made[From, To any] struct {
	from *From
	to   To
}

// of gives what was made of rules, if it was made of these.
func (m made[From, To]) of(rules From) (to To, ok bool) {
	if m.from == nil || !reflect.DeepEqual(*m.from, rules) {
		return to, false
	}
	return m.to, true
}

// rules gives what is compiled.
func (c *Config) rules() rules.Config {
	// A policy that is none is an error of its own.
	of := rules.Config{Upstream: c.defaultUpstream()}
	of.Otherwise, _ = rules.ParsePolicy(string(c.Aggregation.Otherwise))
	for _, r := range c.Aggregation.Rules {
		of.Rules = append(of.Rules, rules.Rule{
			Name: r.Name, Match: r.Match, Scope: r.Scope, Upstream: r.Upstream,
			Node: rules.Node{
				First: r.Node.First,
				ID:    r.Node.ID, Cluster: r.Node.Cluster,
				Locality: rules.Locality(r.Node.Locality), Metadata: r.Node.Metadata,
			},
		})
	}
	return of
}

// defaultUpstream is the name of the upstream of opaque names, "" if there is none.
func (c *Config) defaultUpstream() string {
	for _, u := range c.Upstreams {
		if u.Default {
			return u.Name
		}
	}
	return ""
}

// rules checks the aggregation rules, and compiles them (AGG-4).
func (k *checker) rules(c *Config) {
	for i, r := range c.Aggregation.Rules {
		k.rule(c, fmt.Sprintf("aggregation.rules[%d]", i), r)
	}
	of := c.rules()
	set, problems := rules.Compile(of)
	for _, p := range problems {
		k.errs = append(k.errs, c.problem(p))
	}
	k.compiled.rules = made[rules.Config, *rules.Set]{&of, set}
}

// rule checks what Compile cannot know: whether keys are given, and the upstream.
func (k *checker) rule(c *Config, path string, r Rule) {
	if r.Scope == nil {
		k.fail(path+".scope", "missing: expected a list of expressions, or [] for one scope that all clients of the rule share")
	}
	for field, text := range r.expressions() {
		// To Compile an empty text is a field that is left as it is.
		if at := path + "." + field; strings.HasPrefix(field, "node.") && text == "" && k.given(at) {
			k.fail(at, `empty: expected an expression, such as '""' for an empty value`)
		}
	}
	k.ruleUpstream(c, path+".upstream", r.Upstream)
}

func (k *checker) ruleUpstream(c *Config, path, name string) {
	if name == "" {
		switch {
		case k.given(path):
			k.fail(path, "empty: remove the key for the default upstream")
		case c.defaultUpstream() == "":
			k.fail(path, "missing, and there is no default upstream")
		}
		return
	}
	k.upstreamName(c, path, name)
}

// upstreamName checks that there is an upstream of a name.
func (k *checker) upstreamName(c *Config, path, name string) {
	names := make([]string, len(c.Upstreams))
	for i, u := range c.Upstreams {
		names[i] = u.Name
	}
	k.among(path, "upstream", name, names)
}

// among checks that a name is one of those of some kind of thing.
func (k *checker) among(path, kind, name string, names []string) {
	if slices.Contains(names, name) {
		return
	}
	if meant := nearest(name, names, min(3, max(1, len(name)/3))); meant != "" {
		k.fail(path, "unknown %s %q, did you mean %q?", kind, name, meant)
		return
	}
	k.fail(path, "unknown %s %q, expected one of: %s", kind, name, strings.Join(names, ", "))
}

// given says whether the file, or another layer, has a value for path.
func (k *checker) given(path string) bool {
	_, ok := k.from[path]
	return ok
}

// problem makes an Error of what is wrong with a rule, at its place in the file.
func (c *Config) problem(p rules.Problem) *Error {
	expression := ""
	if p.Line > 0 {
		expression = c.Aggregation.Rules[p.Rule].expressions()[p.Field]
	}
	return c.located(rulePath(p), expression, p)
}

// located makes an Error of a problem with the value of a key, or at a place in the
// expression there.
func (c *Config) located(path, expression string, p rules.Problem) *Error {
	e := c.from.errorAt(path, "%s", p.Message)
	if p.Line == 0 {
		return e
	}
	line, column := inside(expression, p.Line, p.Column)
	if atLine, atColumn, ok := c.scalars.place(path, line, column); ok {
		e.Line, e.Column = atLine, atColumn
	}
	e.Message += ": in " + excerpt(expression, line, column) + c.scalars.cut(path)
	return e
}

// expressions gives those of a rule by the fields that problems name.
func (r *Rule) expressions() map[string]string {
	all := map[string]string{
		"match":   r.Match,
		"node.id": r.Node.ID, "node.cluster": r.Node.Cluster,
		"node.locality.region": r.Node.Locality.Region, "node.locality.zone": r.Node.Locality.Zone,
		"node.locality.sub_zone": r.Node.Locality.SubZone,
	}
	for i, part := range r.Scope {
		all[fmt.Sprintf("scope[%d]", i)] = part
	}
	for key, value := range r.Node.Metadata {
		all["node.metadata."+key] = value
	}
	return all
}

// inside gives a place of an expression, or the end of its text for one that is behind that.
func inside(expression string, line, column int) (atLine, atColumn int) {
	lines := strings.Split(strings.TrimRight(expression, " \t\n"), "\n")
	end := utf8.RuneCountInString(lines[len(lines)-1]) + 1
	if line > len(lines) || line == len(lines) && column > end {
		return len(lines), end
	}
	return line, column
}

// excerpt gives what stands around a place inside an expression, in one line.
func excerpt(expression string, line, column int) string {
	const most = 60
	text := []rune(strings.Split(expression, "\n")[line-1])
	from := max(0, min(column-1-most/2, len(text)-most))
	to := min(len(text), from+most)
	shown := strings.TrimSpace(string(text[from:to]))
	if from > 0 {
		shown = "…" + shown
	}
	if to < len(text) {
		shown += "…"
	}
	return shown
}

// rulePath gives the path of the key that a problem is about.
func rulePath(p rules.Problem) string {
	rule := fmt.Sprintf("aggregation.rules[%d]", p.Rule)
	if key, ok := strings.CutPrefix(p.Field, "node.metadata."); ok {
		return keyPath(rule+".node.metadata", key)
	}
	if p.Field == "" {
		return rule
	}
	return rule + "." + p.Field
}

// RuleNames are the names of the aggregation rules, in order.
func (c *Config) RuleNames() []string {
	names := make([]string, len(c.Aggregation.Rules))
	for i, r := range c.Aggregation.Rules {
		names[i] = r.Name
	}
	return names
}
