package config

import (
	"fmt"

	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// AccessTest says what the access rules are expected to decide for one client and one name.
type AccessTest struct {
	Name     string   `yaml:"name"`
	Node     TestNode `yaml:"node,omitempty"`
	Peer     TestPeer `yaml:"peer,omitempty"`
	Listener string   `yaml:"listener,omitempty"` // empty: "default"
	Type     string   `yaml:"type"`               // a short name or a type URL
	Resource string   `yaml:"resource"`           // a name, a glob, or "*"

	Effect Effect `yaml:"effect"`         // the decision
	Rule   string `yaml:"rule,omitempty"` // the rule that decides, or [rules.Otherwise]; empty: any
}

// accessTests checks what can be said of the tests without running them.
func (k *checker) accessTests(c *Config) {
	for i, t := range c.Access.Tests {
		path := fmt.Sprintf("access.tests[%d]", i)
		k.required(path+".name", t.Name)
		k.testNode(path+".node", t.Node)
		k.testPeer(path+".peer", &t.Peer)
		k.testListener(c, path+".listener", t.Listener)
		k.required(path+".resource", t.Resource)
		if t.Type == "" {
			k.fail(path+".type", "missing or empty")
		} else {
			k.typeURL(path+".type", t.Type)
		}
		if keyer.IsXDSTP(t.Resource) {
			if _, err := keyer.Parse(t.Resource); err != nil {
				k.fail(path+".resource", "%v", err)
			}
		}
		if t.Effect != Allow && t.Effect != Deny {
			k.fail(path+".effect", "expected one of allow, deny, got %q", t.Effect)
		}
		if t.Rule != "" {
			k.among(path+".rule", "rule", t.Rule, c.deciders(t.Listener))
		}
	}
}

// deciders are the names of what may decide about the clients of a listener.
func (c *Config) deciders(listener string) []string {
	names := []string{rules.Otherwise}
	for _, r := range c.sectionOf(listener).rules {
		if r.Name != "" {
			names = append(names, r.Name)
		}
	}
	return names
}

// runAccess runs the tests of the access rules.
func (c *Config) runAccess() ([]TestResult, error) {
	if len(c.Access.Tests) == 0 {
		return nil, nil
	}
	access, err := c.AccessSets()
	if err != nil {
		return nil, err
	}
	results := make([]TestResult, 0, len(c.Access.Tests))
	for i := range c.Access.Tests {
		t, path := &c.Access.Tests[i], fmt.Sprintf("access.tests[%d]", i)
		at := c.from.find(path)
		r := TestResult{Name: t.Name, File: at.file, Line: at.line, Column: at.column, Path: path}
		node, bad := nodeFor(c, c.from, path, t.Node)
		if r.Failure = bad; bad == nil {
			if message := t.compare(access.Of(t.Listener).Rules.Subject(node, t.Peer.identity(t.Listener))); message != "" {
				r.Failure = &Error{at.file, at.line, at.column, fmt.Sprintf("%s %q", path, t.Name), message}
			}
		}
		results = append(results, r)
	}
	return results, nil
}

// compare gives what is not as the test expects, "" if all of it is. The name is judged as one that
// a client subscribes to: with its alternatives.
func (t *AccessTest) compare(client *rules.AccessSubject) string {
	d, name := client.Subscription(resolveType(t.Type), t.Resource)
	got := Deny
	if d.Allowed {
		got = Allow
	}
	because := fmt.Sprintf("%s by %q", got, d.Rule)
	if name != t.Resource {
		because += " of " + name
	}
	if d.Failed != "" {
		because += ", which fails: " + d.Failed
	}
	switch {
	case got != t.Effect:
		return fmt.Sprintf("expected %s, got %s", t.Effect, because)
	case t.Rule != "" && d.Rule != t.Rule:
		return fmt.Sprintf("expected rule %q, got %s", t.Rule, because)
	}
	return ""
}
