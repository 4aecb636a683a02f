package config

import (
	"math"
	"reflect"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// maxExact is the integer below which every integer has a value of its own in a
// google.protobuf.Value, whose numbers are doubles.
const maxExact = 1 << 53

// metadata reads a free map. Keys keep their case.
func (d *decoder) metadata(n *yaml.Node, path string) Metadata {
	m := make(Metadata)
	for key, value := range d.entries(n, path) {
		at := keyPath(path, key.Value)
		d.locate(key, value, at)
		m[key.Value] = d.free(value, at)
	}
	return m
}

// expressions reads a free map of strings.
func (d *decoder) expressions(n *yaml.Node, path string) Expressions {
	m := make(Expressions)
	for key, value := range d.entries(n, path) {
		at := keyPath(path, key.Value)
		d.locate(key, value, at)
		var text string
		d.value(value, reflect.ValueOf(&text).Elem(), at)
		m[key.Value] = text
	}
	return m
}

// free reads a value of any kind that a google.protobuf.Value can hold.
func (d *decoder) free(n *yaml.Node, path string) any {
	switch n.Kind {
	case yaml.MappingNode:
		return map[string]any(d.metadata(n, path))
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, m := range n.Content {
			list[i] = d.free(m, path+"["+strconv.Itoa(i)+"]")
		}
		return list
	}
	switch scalarTag(n) {
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return b
		}
	case "!!int", "!!float":
		return d.number(n, path)
	case "!!str", "!!timestamp": // a date is not a type of JSON: it stays as it is written
		return n.Value
	}
	d.fail(n, path, "expected a JSON value, got %s", describe(n))
	return nil
}

// number reads a number as the double that it becomes on the wire and refuses
// one that would arrive as another number.
func (d *decoder) number(n *yaml.Node, path string) float64 {
	var f float64
	switch err := n.Decode(&f); {
	case err != nil, math.IsNaN(f), math.IsInf(f, 0):
		d.fail(n, path, "expected a JSON number, got %s", describe(n))
	case n.ShortTag() == "!!int" && math.Abs(f) >= maxExact:
		d.fail(n, path, "expected an integer of up to 53 bits, because longer integers lose digits, got %s%s", describe(n), quotes(n))
	}
	return f
}
