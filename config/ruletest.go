package config

import (
	"encoding/json"
	"errors"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.yaml.in/yaml/v3"

	"github.com/xdsrelay/xdsrelay/internal/files"
)

// RuleTest says what the aggregation rules are expected to come to for one client: rules
// are reviewed like code. At least one of the fields from Rule on has to be given; only
// those that are given are compared.
type RuleTest struct {
	Name     string   `yaml:"name"`
	Node     TestNode `yaml:"node,omitempty"`
	Peer     TestPeer `yaml:"peer,omitempty"`
	Listener string   `yaml:"listener,omitempty"` // empty: "default"
	Type     string   `yaml:"type"`               // a short name or a type URL
	Resource string   `yaml:"resource,omitempty"` // empty: the type as a whole

	Rule     string `yaml:"rule,omitempty"`     // the rule that decides, or [rules.Otherwise]
	Scope    Values `yaml:"scope,omitempty"`    // the values of the scope's parts
	Upstream string `yaml:"upstream,omitempty"` // that is asked, also where it is the default one
	Refused  *bool  `yaml:"refused,omitempty"`  // the client is turned away
	Fails    *bool  `yaml:"fails,omitempty"`    // the rule fails when it is evaluated, which isolates the client (AGG-2)
}

// TestNode is the node that a client presents: a map[string]any with the fields of
// envoy.config.core.v3.Node in its JSON form, or a string, the name of a file with it in
// YAML or JSON, relative to the configuration's folder; nil: the client presents none.
type TestNode any

// Values are values of any kind that JSON has, as those of [Metadata]. Unlike nil, the
// empty list says that there is none.
type Values []any

// IsZero keeps the empty list in the YAML form.
func (v Values) IsZero() bool { return v == nil }

// testNode reads a mapping with a node's fields, or a file's name.
func (d *decoder) testNode(n *yaml.Node, path string) TestNode {
	switch {
	case scalarTag(n) == "!!str" && n.Value != "":
		return n.Value
	case n.Kind != yaml.MappingNode || n.ShortTag() != "!!map":
		d.fail(n, path, "expected a mapping with the fields of a node, or a file's name, got %s", describe(n))
		return nil
	}
	// The place of what is wrong is known only here.
	if _, err := files.NodeFromYAML(n); err != nil {
		if bad, ok := errors.AsType[*files.PlaceError](err); ok && bad.Line > 0 {
			n = &yaml.Node{Line: bad.Line, Column: bad.Column}
		}
		d.fail(n, path, "%s", nodeMessage(err))
		return nil
	}
	return map[string]any(d.metadata(n, path))
}

// values reads a list of values of any kind.
func (d *decoder) values(n *yaml.Node, path string) Values {
	if n.Kind != yaml.SequenceNode || n.ShortTag() != "!!seq" {
		d.fail(n, path, "expected a list, got %s", describe(n))
		return nil
	}
	list := make(Values, len(n.Content))
	for i, m := range n.Content {
		list[i] = d.free(m, fmt.Sprintf("%s[%d]", path, i))
	}
	return list
}

// nodeOf makes a node of the fields of a test.
func nodeOf(fields map[string]any) (*corev3.Node, error) {
	data, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	return files.ParseNode(data)
}
