package config

import (
	"encoding"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decoder reads a YAML tree into Go values and notes, in the same walk, where
// each value was given and everything that is wrong.
type decoder struct {
	file   string
	from   origins
	texts  *scalars
	errs   []*Error
	blamed []string // paths that errs concern, misspelt ones as they were meant
}

// decode reads the file's data into a pointer to what holds the defaults.
func (d *decoder) decode(data []byte, into any) {
	d.from[""] = origin{d.file, 1, 1}
	d.texts = newScalars(data)
	root, bad := parseTree(d.file, data)
	if bad != nil {
		d.errs, d.blamed = append(d.errs, bad), append(d.blamed, bad.Path)
		return
	}
	d.value(root, reflect.ValueOf(into).Elem(), "")
}

// fail notes an error at the node n.
func (d *decoder) fail(n *yaml.Node, path, format string, args ...any) {
	d.errs = append(d.errs, &Error{d.file, n.Line, n.Column, path, fmt.Sprintf(format, args...)})
	d.blamed = append(d.blamed, path)
}

// value reads n into v according to v's type.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
		begin(v)
	}
	switch target := v.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		d.text(n, target, path)
		return
	case *Endpoints:
		*target = d.endpoints(n, path)
		return
	case *Metadata:
		*target = d.metadata(n, path)
		return
	case *Headers:
		*target = d.headers(n, path)
		return
	case *Expressions:
		*target = d.expressions(n, path)
		return
	case *TestNode:
		*target = d.testNode(n, path)
		return
	case *Values:
		*target = d.values(n, path)
		return
	case *RuleNode:
		if d.firstNode(n, target, path) {
			return
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		d.section(n, v, path)
	case reflect.Slice:
		d.list(n, v, path)
	default:
		d.scalar(n, v, path)
	}
}

// firstNode is the word that stands for the node of a scope's first client.
const firstNode = "first"

// firstNode reads a rule's node that is a word, and reports whether it is one.
func (d *decoder) firstNode(n *yaml.Node, into *RuleNode, path string) bool {
	if n.Kind != yaml.ScalarNode || scalarTag(n) != "!!str" {
		return false
	}
	if into.First = n.Value == firstNode; !into.First {
		d.fail(n, path, "expected %s, or a mapping with id, cluster, locality and metadata, got %s", firstNode, describe(n))
	}
	return true
}

// section reads a mapping whose keys are v's fields.
func (d *decoder) section(n *yaml.Node, v reflect.Value, path string) {
	fields := fieldsOf(v.Type())
	known := make([]string, len(fields))
	index := make(map[string]int, len(fields))
	for i, f := range fields {
		known[i], index[f.key] = f.key, f.index
	}
	for key, value := range d.entries(n, path) {
		at := child(path, key.Value)
		i, ok := index[key.Value]
		if !ok && isRemoved(at) {
			d.fail(key, at, removedMessage)
			continue
		}
		if !ok && path == "" && strings.HasPrefix(key.Value, "x-") {
			continue // for anchors
		}
		if !ok {
			message, meant := unknown(key.Value, known)
			d.fail(key, keyPath(path, key.Value), "%s%s", message, notKey(path, key.Value))
			if meant != "" {
				d.blamed = append(d.blamed, child(path, meant))
			}
			continue
		}
		d.locate(key, value, at)
		d.value(value, v.Field(i), at)
	}
}

// begin gives a value the defaults of its type.
func begin(v reflect.Value) {
	if d, ok := reflect.TypeAssert[interface{ setDefaults() }](v.Addr()); ok {
		d.setDefaults()
	}
}

// list reads a sequence; each element begins with its type's defaults.
func (d *decoder) list(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode || n.ShortTag() != "!!seq" {
		d.fail(n, path, "expected a list, got %s%s", describe(n), notList(n, path))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, m := range n.Content {
		at, element := path+"["+strconv.Itoa(i)+"]", v.Index(i)
		begin(element)
		d.from[at] = origin{d.file, m.Line, m.Column}
		d.value(m, element, at)
	}
}

// text reads a scalar whose type knows its own text form. Whether the scalar is
// quoted makes no difference to it: a size may be a plain number.
func (d *decoder) text(n *yaml.Node, target encoding.TextUnmarshaler, path string) {
	var text string
	tag := scalarTag(n)
	plain := tag == "!!str" || tag == "!!int" || tag == "!!float" || tag == "!!bool" || tag == "!!timestamp"
	if plain {
		text = n.Value
	}
	err := target.UnmarshalText([]byte(text))
	if mismatch, ok := errors.AsType[*mismatchError](err); ok && !plain {
		err = &mismatchError{want: mismatch.want, got: describe(n)}
	}
	if err != nil {
		d.fail(n, path, "%v", err)
	}
}

// scalar reads a string, a bool or an integer.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.String:
		if scalarTag(n) != "!!str" {
			d.fail(n, path, "expected a string, got %s%s", describe(n), notString(n, path))
			return
		}
		v.SetString(n.Value)
		d.texts.nodes[path] = n
	case reflect.Bool:
		var b bool
		// YAML 1.1's "yes" and "on" are strings here, though Decode would take them.
		if scalarTag(n) != "!!bool" || n.Decode(&b) != nil {
			d.fail(n, path, "expected true or false, got %s", describe(n))
			return
		}
		v.SetBool(b)
	case reflect.Int:
		var i int
		if scalarTag(n) != "!!int" || n.Decode(&i) != nil {
			d.fail(n, path, "expected an integer, got %s", describe(n))
			return
		}
		v.SetInt(int64(i))
	default:
		panic("config: no reader for a key of type " + v.Type().String()) // the schema's fault, not the file's
	}
}

// entries gives the keys and values of a mapping, reporting what is no mapping,
// keys that are not plain strings and keys that are given again.
func (d *decoder) entries(n *yaml.Node, path string) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		if n.Kind != yaml.MappingNode || n.ShortTag() != "!!map" {
			d.fail(n, path, "expected a mapping, got %s", describe(n))
			return
		}
		first := make(map[string]int)
		for key, value := range pairs(n) {
			if scalarTag(key) != "!!str" {
				d.fail(key, path, "expected a string as key, got %s%s", describe(key), quotes(key))
				continue
			}
			if line, again := first[key.Value]; again {
				d.fail(key, keyPath(path, key.Value), "given twice, first in line %d", line)
				continue
			}
			first[key.Value] = key.Line
			if !yield(key, value) {
				return
			}
		}
	}
}

// locate notes where path was given: at its value, or at its key where the
// value is a block that begins in a later line.
func (d *decoder) locate(key, value *yaml.Node, path string) {
	at := value
	if value.Line > key.Line {
		at = key
	}
	d.from[path] = origin{d.file, at.Line, at.Column}
}

// wordCharacters are those that need no quotes in a path.
const wordCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// keyPath is child for a key that may hold anything.
func keyPath(path, key string) string {
	if key == "" || strings.Trim(key, wordCharacters) != "" {
		key = strconv.Quote(key)
	}
	return child(path, key)
}
