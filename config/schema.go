package config

import (
	"encoding"
	"reflect"
	"strings"
)

// The schema is the Go types themselves: a struct is a section whose keys are
// the fields' yaml tags, everything else is described by its type. Decoding,
// the environment and the test of docs/configuration.md all go by it.

// field is one key of a section.
type field struct {
	key   string
	index int
}

// fieldsOf lists the keys of a section in the order of the type.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		if tag, ok := t.Field(i).Tag.Lookup("yaml"); ok {
			if key, _, _ := strings.Cut(tag, ","); key != "-" {
				fields = append(fields, field{key, i})
			}
		}
	}
	return fields
}

// leaf is a key that holds a value and not a section.
type leaf struct {
	path  string
	typ   reflect.Type
	value reflect.Value // invalid where the section that holds it is nil
}

// single says whether one string can set the leaf. A list or a free map has no
// form in which it could be given on a command line.
func (l leaf) single() bool {
	return isText(l.typ) || l.typ.Kind() != reflect.Slice && l.typ.Kind() != reflect.Map
}

// leaves lists what lies under the section v, whose own path is path.
func leaves(v reflect.Value, t reflect.Type, path string) []leaf {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
		if v.IsValid() {
			v = v.Elem() // invalid again if nil
		}
	}
	if t.Kind() != reflect.Struct || isText(t) {
		return []leaf{{path, t, v}}
	}
	var all []leaf
	for _, f := range fieldsOf(t) {
		var member reflect.Value
		if v.IsValid() {
			member = v.Field(f.index)
		}
		all = append(all, leaves(member, t.Field(f.index).Type, child(path, f.key))...)
	}
	return all
}

// isText says whether a value of type t is read from one scalar's text.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// child joins a section's path and a key.
func child(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
