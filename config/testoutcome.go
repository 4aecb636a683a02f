package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// compare gives what is not as a test expects, "" if all of it is.
func (t *RuleTest) compare(c *Config, client *rules.Subject) string {
	got := outcomeOf(t, client)
	if got.byName {
		return "the rules look at the name: add resource, with a name or \"*\""
	}
	rule := got.why(t.Rule)
	for _, check := range []struct {
		differs        bool
		want, got, why string
	}{
		{t.Refused != nil && *t.Refused != got.refused, refusal(!got.refused), got.String(), rule},
		{t.Refused == nil && got.refused && !got.failed, t.wanted(), got.String(), rule},
		{t.Fails != nil && *t.Fails != got.failed, failing(!got.failed), got.String(), rule},
		{t.Fails == nil && got.failed && (t.Refused == nil || !*t.Refused), t.wanted(), got.String(), rule},
		{t.Rule != "" && t.Rule != got.Rule, fmt.Sprintf("rule %q", t.Rule), fmt.Sprintf("%q", got.Rule), rule},
		{t.Scope != nil && !got.hasScope(), "scope " + show(t.Scope), got.String(), rule},
		{t.Scope != nil && show(t.Scope) != show(got.Parts), "scope " + show(t.Scope), show(got.Parts), got.parts(t.Scope)},
		{t.Upstream != "" && t.Upstream != got.upstream(c), fmt.Sprintf("upstream %q", t.Upstream), fmt.Sprintf("%q", got.upstream(c)), ""},
	} {
		if check.differs {
			return fmt.Sprintf("expected %s, got %s%s", check.want, check.got, check.why)
		}
	}
	return ""
}

// wanted names what a test expects of a client that the rules decide on.
func (t *RuleTest) wanted() string {
	switch {
	case t.Rule != "":
		return fmt.Sprintf("rule %q", t.Rule)
	case t.Scope != nil:
		return "scope " + show(t.Scope)
	case t.Upstream != "":
		return fmt.Sprintf("upstream %q", t.Upstream)
	case t.Refused != nil:
		return refusal(*t.Refused)
	default:
		return failing(*t.Fails)
	}
}

func refusal(yes bool) string {
	if yes {
		return "the client to be refused"
	}
	return "the client not to be refused"
}

func failing(yes bool) string {
	if yes {
		return "a rule to fail"
	}
	return "no rule to fail"
}

// outcome is what the rules came to.
type outcome struct {
	rules.Decision

	byName, refused, failed bool
	explained               []rules.RuleResult
}

func outcomeOf(t *RuleTest, client *rules.Subject) outcome {
	typeURL := resolveType(t.Type)
	var o outcome
	var err error
	var name *string
	if t.Resource == "" {
		o.Decision, o.byName, err = client.Decide(typeURL)
	} else {
		name = &t.Resource
		o.Decision, err = client.DecideName(typeURL, t.Resource)
	}
	o.failed = o.Failed != nil
	if err != nil {
		o.refused = true
		if refused, ok := errors.AsType[*rules.RefusedError](err); ok {
			o.Rule = refused.Rule
		}
		if failed, ok := errors.AsType[*rules.FailedError](err); ok {
			o.failed, o.Failed = true, failed
		}
	}
	o.explained = client.Explain(typeURL, name).Rules
	return o
}

// hasScope says whether the scope is that of a rule.
func (o *outcome) hasScope() bool { return !o.refused && !o.failed && o.Rule != rules.Otherwise }

// upstream names the upstream that is asked.
func (o *outcome) upstream(c *Config) string {
	if o.Upstream == "" {
		return c.defaultUpstream()
	}
	return o.Upstream
}

// String says what became of the client.
func (o *outcome) String() string {
	switch {
	case o.refused && o.failed:
		return fmt.Sprintf("a refusal, because a rule fails: %v", o.Failed)
	case o.refused:
		return fmt.Sprintf("a refusal by %q", o.Rule)
	case o.failed:
		return fmt.Sprintf("an isolated client: %v", o.Failed)
	default:
		return fmt.Sprintf("%q", o.Rule)
	}
}

// why tells of the rules that matter to somebody who expected one: that, and the one that
// decided.
func (o *outcome) why(expected string) string {
	var parts []string
	for _, r := range o.explained {
		switch {
		case !slices.Contains([]string{expected, o.Rule}, r.Rule), o.failed && r.Rule == o.Rule:
		case r.Result == rules.NotReached:
			parts = slices.Insert(parts, 0, fmt.Sprintf("%q is not reached", r.Rule))
		default:
			parts = append(parts, fmt.Sprintf("%q %s: %s", r.Rule, r.Result, r.Why))
		}
	}
	return behindColon(parts)
}

// parts tells of the parts of the scope that are not as expected.
func (o *outcome) parts(expected []any) string {
	var parts []string
	for _, r := range o.explained {
		if r.Rule != o.Rule || len(r.Scope) != len(expected) || len(o.Parts) != len(expected) {
			continue
		}
		for i, part := range r.Scope {
			if show(expected[i:i+1]) != show(o.Parts[i:i+1]) {
				parts = append(parts, fmt.Sprintf("%s: %s is %s", part.Field, part.Expression, part.Text))
			}
		}
	}
	return behindColon(parts)
}

func behindColon(parts []string) string {
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, "; ")
}

// show gives values as JSON, which is how they are compared, too.
func show(values []any) string {
	if values == nil {
		values = []any{}
	}
	data, err := json.Marshal(values)
	if err != nil {
		return fmt.Sprint(values)
	}
	return string(data)
}
