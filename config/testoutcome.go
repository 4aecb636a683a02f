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
		return "the rules look at the name, and decide on this type name by name: add resource, a name or \"*\""
	}
	for _, check := range []struct {
		differs   bool
		want, got string
	}{
		{t.Refused != nil && *t.Refused != got.refused, refusal(!got.refused), got.String()},
		{t.Refused == nil && got.refused, t.wanted(), got.String()},
		{t.Fails != nil && *t.Fails != got.failed, failing(!got.failed), got.String()},
		{t.Fails == nil && got.failed, t.wanted(), got.String()},
		{t.Rule != "" && t.Rule != got.Rule, fmt.Sprintf("rule %q", t.Rule), fmt.Sprintf("%q", got.Rule)},
		{t.Scope != nil && !got.hasScope(), "scope " + show(t.Scope), got.String()},
		{t.Scope != nil && show(t.Scope) != show(got.Parts), "scope " + show(t.Scope), show(got.Parts)},
		{t.Upstream != "" && t.Upstream != got.upstream(c), fmt.Sprintf("upstream %q", t.Upstream), fmt.Sprintf("%q", got.upstream(c))},
	} {
		if check.differs {
			return fmt.Sprintf("expected %s, got %s%s", check.want, check.got, got.why(t.Rule))
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
	}
	o.explained = client.Explain(typeURL, name).Rules
	return o
}

// hasScope says whether the scope is that of a rule.
func (o *outcome) hasScope() bool { return !o.refused && !o.failed && o.Rule != rules.Otherwise }

// upstream names the upstream that is asked.
func (o *outcome) upstream(c *Config) string {
	if o.Decision.Upstream == "" {
		return c.defaultUpstream()
	}
	return o.Decision.Upstream
}

// String says what became of the client.
func (o *outcome) String() string {
	switch {
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
		case r.Why == "":
			parts = append(parts, fmt.Sprintf("%q: %s", r.Rule, r.Result))
		default:
			parts = append(parts, fmt.Sprintf("%q %s: %s", r.Rule, r.Result, r.Why))
		}
	}
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
