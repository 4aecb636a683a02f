package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Change is one key of which two configurations say something else. Elements of lists
// that have names are found by them: upstreams[primary].endpoints.
type Change struct {
	Path     string
	Old, New string // as the file would have it, in one line; empty: there is none
}

// String gives the change for a log.
func (c Change) String() string {
	switch {
	case c.Old == "":
		return fmt.Sprintf("%s: %s added", c.Path, c.New)
	case c.New == "":
		return fmt.Sprintf("%s: %s removed", c.Path, c.Old)
	}
	return fmt.Sprintf("%s: %s → %s", c.Path, c.Old, c.New)
}

// Diff lists the keys of which two configurations say something else, in the order of
// the schema. It knows the keys by the types alone, so that none can be forgotten.
func Diff(before, after *Config) []Change {
	var d differ
	d.compare("", reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem())
	return d.changes
}

// differ gathers changes.
type differ struct{ changes []Change }

// note adds a change of a value that is not looked into.
func (d *differ) note(path, before, after string) {
	d.changes = append(d.changes, Change{path, before, after})
}

// compare compares what stands at a path.
func (d *differ) compare(path string, before, after reflect.Value) {
	t := before.Type()
	switch {
	case t.Kind() == reflect.Pointer:
		d.optional(path, before, after)
	case t == reflect.TypeFor[RuleNode]() && (isFirst(before) || isFirst(after)):
		if !same(before, after) {
			d.note(path, flat(before), flat(after))
		}
	case t.Kind() == reflect.Struct && !isText(t):
		for _, f := range fieldsOf(t) {
			d.compare(child(path, f.key), before.Field(f.index), after.Field(f.index))
		}
	case t.Kind() == reflect.Slice && named(t.Elem()):
		d.list(path, before, after)
	default:
		if !same(before, after) {
			d.note(path, flat(before), flat(after))
		}
	}
}

// isFirst reports whether a rule's node is that of a scope's first client.
func isFirst(v reflect.Value) bool { n, _ := reflect.TypeAssert[RuleNode](v); return n.First }

// same compares values. That there is none is not the same as an empty one everywhere.
func same(a, b reflect.Value) bool { return reflect.DeepEqual(a.Interface(), b.Interface()) }

// optional compares sections that may be missing.
func (d *differ) optional(path string, before, after reflect.Value) {
	switch {
	case before.IsNil() && after.IsNil():
	case before.IsNil() || after.IsNil():
		d.note(path, flat(before), flat(after))
	default:
		d.compare(path, before.Elem(), after.Elem())
	}
}

// named reports whether elements of a list have names, by which they are the same.
func named(t reflect.Type) bool { return t.Kind() == reflect.Struct && nameOf(t) >= 0 }

// nameOf is the field that holds the name of an element, -1 if there is none.
func nameOf(t reflect.Type) int {
	for _, f := range fieldsOf(t) {
		if f.key == "name" && t.Field(f.index).Type.Kind() == reflect.String {
			return f.index
		}
	}
	return -1
}

// list compares lists of elements with names: what is gone, what is new, what is
// different, and whether those that stay stand in another order.
func (d *differ) list(path string, before, after reflect.Value) {
	was, is := byName(before), byName(after)
	if len(was) != before.Len() || len(is) != after.Len() { // names that are not unique say nothing
		if !same(before, after) {
			d.note(path, flat(before), flat(after))
		}
		return
	}
	var stayedWas, stayedIs []string
	for i := range before.Len() {
		name := elementName(before.Index(i))
		if _, stays := is[name]; !stays {
			d.note(path, name, "")
			continue
		}
		stayedWas = append(stayedWas, name)
	}
	for i := range after.Len() {
		name := elementName(after.Index(i))
		element, stayed := was[name]
		if !stayed {
			d.note(path, "", name)
			continue
		}
		stayedIs = append(stayedIs, name)
		d.compare(fmt.Sprintf("%s[%s]", path, name), element, after.Index(i))
	}
	if !slices.Equal(stayedWas, stayedIs) {
		d.note(path, "["+strings.Join(stayedWas, ", ")+"]", "["+strings.Join(stayedIs, ", ")+"]")
	}
}

func elementName(v reflect.Value) string { return v.Field(nameOf(v.Type())).String() }

func byName(list reflect.Value) map[string]reflect.Value {
	all := make(map[string]reflect.Value, list.Len())
	for i := range list.Len() {
		all[elementName(list.Index(i))] = list.Index(i)
	}
	return all
}

// maxShown bounds a value in a change, in bytes.
const maxShown = 200

// flat shows a value in one line, as the file would have it.
func flat(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if v.IsNil() {
			return ""
		}
	default:
	}
	text := flow(v)
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "…"
	}
	return text
}

// flow is a value in YAML's flow style.
func flow(v reflect.Value) string {
	switch {
	case v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface:
		if v.IsNil() {
			return "null"
		}
		return flow(v.Elem())
	case isText(v.Type()):
		return fmt.Sprint(v.Interface())
	case v.Type() == reflect.TypeFor[Headers]():
		v = reflect.ValueOf(v.Interface().(Headers).shown())
	case v.Type() == reflect.TypeFor[Endpoints]():
		v = reflect.ValueOf(v.Interface().(Endpoints).shown())
	case isFirst(v):
		return firstNode
	}
	switch v.Kind() {
	case reflect.String:
		if s := v.String(); s == "" || strings.ContainsAny(s, " \t\n,[]{}\"'#") {
			return fmt.Sprintf("%q", s)
		}
	case reflect.Slice:
		return gather("[", "]", v.Len(), func(i int) string { return flow(v.Index(i)) })
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		return gather("{", "}", len(keys), func(i int) string { return keys[i].String() + ": " + flow(v.MapIndex(keys[i])) })
	case reflect.Struct:
		fields := slices.DeleteFunc(fieldsOf(v.Type()), func(f field) bool { return v.Field(f.index).IsZero() })
		return gather("{", "}", len(fields), func(i int) string {
			return fields[i].key + ": " + flow(v.Field(fields[i].index))
		})
	default:
	}
	return fmt.Sprint(v.Interface())
}

func gather(open, end string, n int, part func(int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = part(i)
	}
	return open + strings.Join(parts, ", ") + end
}
