package config

import (
	"errors"
	"fmt"

	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// tests checks what can be said of tests without running them: a file of a node is not
// looked for.
func (k *checker) tests(c *Config, path string, all []RuleTest) {
	for i := range all {
		k.test(c, fmt.Sprintf("%s[%d]", path, i), &all[i])
	}
}

func (k *checker) test(c *Config, path string, t *RuleTest) {
	k.required(path+".name", t.Name)
	k.testNode(path+".node", t.Node)
	k.testPeer(path+".peer", &t.Peer)
	k.testListener(c, path+".listener", t.Listener)
	if t.Type == "" {
		k.fail(path+".type", "missing or empty")
	} else {
		k.typeURL(path+".type", t.Type)
	}
	switch at := path + ".resource"; {
	case t.Resource == "" && k.given(at):
		k.fail(at, "empty: remove the key for the type as a whole")
	case keyer.IsXDSTP(t.Resource):
		k.fail(at, "rules do not decide about xdstp names: all clients share them")
	}
	k.expectations(c, path, t)
}

func (k *checker) testNode(path string, node TestNode) {
	switch node := node.(type) {
	case nil:
	case string:
		k.required(path, node)
	case map[string]any:
		if _, err := nodeOf(node); err != nil {
			k.fail(path, "%s", nodeMessage(err))
		}
	default:
		k.fail(path, "expected a mapping with the fields of a node, or a file's name, got a %T", node)
	}
}

// nodeMessage leaves out a place in what a node was made from.
func nodeMessage(err error) string {
	if bad, ok := errors.AsType[*files.PlaceError](err); ok {
		return bad.Message
	}
	return err.Error()
}

// expectations checks what a test expects.
func (k *checker) expectations(c *Config, path string, t *RuleTest) {
	if t.Rule == "" && t.Scope == nil && t.Upstream == "" && t.Refused == nil && t.Fails == nil {
		k.fail(path, "the test expects nothing: add rule, scope, upstream, refused or fails")
		return
	}
	if t.Rule != "" {
		names := []string{rules.Otherwise}
		for _, r := range c.Aggregation.Rules {
			names = append(names, r.Name)
		}
		k.among(path+".rule", "rule", t.Rule, names)
	}
	if t.Upstream != "" {
		k.upstreamName(c, path+".upstream", t.Upstream)
	}
	refused, fails := t.Refused != nil && *t.Refused, t.Fails != nil && *t.Fails
	switch {
	case refused && fails && c.Aggregation.Otherwise != Refuse:
		k.fail(path+".fails", "the relay isolates a client whose rule fails; it refuses the client only if aggregation.otherwise is refuse")
	case refused && t.Scope != nil, fails && t.Scope != nil:
		k.fail(path+".scope", "a refused client, or a client whose rule fails, has no scope of a rule")
	case refused && t.Upstream != "":
		k.fail(path+".upstream", "the relay asks no upstream for a refused client")
	case t.Rule == rules.Otherwise && t.Scope != nil:
		k.fail(path+".scope", "if no rule decides, there is no scope of a rule")
	case t.Rule == rules.Otherwise && fails:
		k.fail(path+".fails", "if no rule decides, no rule fails")
	}
}
