package config

import (
	"iter"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// pairs gives the keys and values of a mapping.
func pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}

// scalarTag gives the tag of a scalar and "" for anything else: a mapping may
// be tagged !!str too.
func scalarTag(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.ShortTag()
}

// quotes is a hint for what would be a string if it were quoted.
func quotes(n *yaml.Node) string {
	switch scalarTag(n) {
	case "!!bool", "!!int", "!!float", "!!timestamp":
		return ": put it in quotes"
	default:
		return ""
	}
}

// describe names what stands at n for a message that says what was expected instead.
func describe(n *yaml.Node) string {
	tag := n.ShortTag()
	switch {
	case n.Kind == yaml.MappingNode && tag == "!!map":
		return "a mapping"
	case n.Kind == yaml.SequenceNode && tag == "!!seq":
		return "a list"
	}
	switch scalarTag(n) {
	case "!!null":
		return "nothing"
	case "!!str":
		return strconv.Quote(n.Value)
	case "!!bool":
		return "the boolean " + n.Value
	case "!!int", "!!float":
		return "the number " + n.Value
	case "!!timestamp":
		return "the date " + n.Value
	default:
		return "a value tagged " + tag
	}
}
