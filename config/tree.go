package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// maxNodes bounds the tree after aliases were followed: a few lines of aliases
// of aliases can stand for billions of nodes.
const maxNodes = 100_000

// maxDepth bounds how deep it goes; nothing in a configuration is meant to.
const maxDepth = 100

// parseTree reads the one document of a file into a tree without aliases and
// merge keys, in which every node still knows where it was written. A file
// without a document gives an empty mapping.
func parseTree(name string, data []byte) (*yaml.Node, *Error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1, Column: 1}, nil
	}
	if err != nil {
		return nil, syntaxError(name, data, err)
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, &Error{File: name, Line: second.Line, Column: second.Column, Message: "expected one document, got a second"}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxError(name, data, err)
	}
	root := document.Content[0]
	if scalarTag(root) == "!!null" {
		return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1, Column: 1}, nil
	}
	x := expander{name: name, left: maxNodes}
	root, bad := x.expand(root, 0)
	if bad != nil {
		return nil, bad
	}
	return root, nil
}

// expander copies a tree, putting what aliases stand for in their places.
type expander struct {
	name string
	left int // nodes that may still be made
}

func (x *expander) expand(n *yaml.Node, depth int) (*yaml.Node, *Error) {
	x.left--
	// An alias inside of what it stands for is caught by the depth.
	if x.left < 0 || depth > maxDepth {
		return nil, x.errorAt(n, "too large or too deep after its aliases are expanded: more than %d nodes or %d levels", maxNodes, maxDepth)
	}
	if n.Kind == yaml.AliasNode {
		return x.expand(n.Alias, depth+1)
	}
	c := *n
	c.Content = make([]*yaml.Node, len(n.Content))
	for i, m := range n.Content {
		var bad *Error
		if c.Content[i], bad = x.expand(m, depth+1); bad != nil {
			return nil, bad
		}
	}
	if c.Kind == yaml.MappingNode {
		return x.merge(&c)
	}
	return &c, nil
}

// merge carries out the merge keys ("<<: *defaults") of an expanded mapping:
// its own keys win over merged ones, and earlier merged ones over later ones.
func (x *expander) merge(n *yaml.Node) (*yaml.Node, *Error) {
	var own, merged []*yaml.Node
	for key, value := range pairs(n) {
		if key.Tag != "!!merge" {
			own = append(own, key, value)
			continue
		}
		sources := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			sources = value.Content
		}
		for _, source := range sources {
			if source.Kind != yaml.MappingNode {
				return nil, x.errorAt(source, "<< expects a mapping or a list of mappings, got %s", describe(source))
			}
			merged = append(merged, source.Content...)
		}
	}
	taken := make(map[string]bool, len(own)/2)
	for i := 0; i < len(own); i += 2 {
		taken[own[i].Value] = true
	}
	for i := 0; i < len(merged); i += 2 {
		if key := merged[i].Value; !taken[key] {
			taken[key] = true
			own = append(own, merged[i], merged[i+1])
		}
	}
	n.Content = own
	return n, nil
}

func (x *expander) errorAt(n *yaml.Node, format string, args ...any) *Error {
	return &Error{File: x.name, Line: n.Line, Column: n.Column, Message: fmt.Sprintf(format, args...)}
}
