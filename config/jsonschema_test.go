package config

import (
	"encoding"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var updateSchema = flag.Bool("update", false, "write schema.json anew")

// TestJSONSchema_OPS6 holds schema.json to the types, the defaults and docs/configuration.md.
func TestJSONSchema_OPS6(t *testing.T) {
	root := schemaMaker{documentedRows(t)}.section(reflect.ValueOf(Default()).Elem(), "")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"], root["title"] = SchemaURL, "Configuration of xdsrelay"
	root["patternProperties"] = schema{"^x-": schema{"description": "A place for anchors."}}
	text, err := json.MarshalIndent(root, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *updateSchema {
		if err := os.WriteFile("schema.json", text, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if JSONSchema() != string(text) {
		t.Error("schema.json is not what the types, the defaults and docs/configuration.md say: go test ./config -run JSONSchema -update")
	}
}

// TestJSONSchemaTakes_OPS6 holds examples, and a file with every key, to the schema, and has it find
// misspelt keys and values of a wrong type.
func TestJSONSchemaTakes_OPS6(t *testing.T) {
	var root schema
	if err := json.Unmarshal([]byte(JSONSchema()), &root); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	more, err := filepath.Glob("../examples/control-planes/*.yaml")
	if err != nil || len(more) == 0 {
		t.Fatal(more, err)
	}
	files = append(files, more...)
	for _, file := range append(files, "testdata/every_key.yaml") {
		tree := readTree(t, file)
		for _, wrong := range wrong(root, tree, "") {
			t.Errorf("%s: %s", file, wrong)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if first := "# yaml-language-server: $schema=" + SchemaURL + "\n"; slices.Contains(files, file) && !strings.HasPrefix(string(text), first) {
			t.Errorf("%s does not begin with %s", file, first)
		}
	}
	every := readTree(t, "testdata/every_key.yaml")
	for path, spoil := range everyMapping(every, "") {
		spoil["misspelt"] = 1
		want := child(path, "misspelt") + ": unknown key"
		if strings.HasPrefix(path, "aggregation.rules[0].node") {
			want = "aggregation.rules[0].node: none of the forms"
		}
		if found := strings.Join(wrong(root, every, ""), "\n"); free(path) != (found == "") || found != "" && found != want {
			t.Errorf("found %q, want %q", found, want)
		}
		delete(spoil, "misspelt")
	}
	for text, want := range map[string]string{
		"server: {drain: 5}":                        "server.drain: not a value of type string",
		"server: {drain: fast}":                     "server.drain: does not match",
		"aggregation: {otherwise: shared}":          "aggregation.otherwise: not one of",
		"upstreams: {}":                             "upstreams: not a value of type array",
		"limits: {connections: many}":               "limits.connections: not a value of type integer",
		"upstreams: [{guard: {removed: a lot}}]":    "upstreams[0].guard.removed: does not match",
		"upstreams: [{api_type: REST, poll: {}}]":   "",
		"upstreams: [{keepalive: {time: 0}}]":       "",
		"cache: {max_bytes: 1GiB}":                  "",
		"limits: {memory: auto, share: 12.5%}":      "",
		"aggregation: {rules: [{node: first}]}":     "",
		"aggregation: {rules: [{node: {id: a}}]}":   "",
		"aggregation: {rules: [{node: {ip: a}}]}":   "aggregation.rules[0].node: none of the forms",
		"x-tls: &tls {ca_file: a}\nserver: {tls: }": "server.tls: not a value of type object",
	} {
		var tree any
		if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
			t.Fatal(err)
		}
		if found := strings.Join(wrong(root, tree, ""), "\n"); !strings.HasPrefix(found, want) || (found == "") != (want == "") {
			t.Errorf("%s: found %q, want %q", text, found, want)
		}
	}
}

// free reports whether a mapping may have keys of any name.
func free(path string) bool {
	return regexp.MustCompile(`metadata|tests\[\d]\.node|\.token$`).MatchString(path)
}

func readTree(t *testing.T, file string) (tree any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// everyMapping gives the mappings under tree by their paths.
func everyMapping(tree any, path string) map[string]map[string]any {
	all := make(map[string]map[string]any)
	switch v := tree.(type) {
	case map[string]any:
		all[path] = v
		for key, member := range v {
			maps.Copy(all, everyMapping(member, child(path, key)))
		}
	case []any:
		for i, member := range v {
			maps.Copy(all, everyMapping(member, fmt.Sprintf("%s[%d]", path, i)))
		}
	}
	return all
}

// documentedRows gives the rows of the tables of docs/configuration.md by their keys.
func documentedRows(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string][]string)
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if key := strings.Trim(cells[0], " `"); strings.HasPrefix(line, "| `") && !strings.HasPrefix(key, "--") {
			if _, twice := rows[key]; twice {
				t.Errorf("%s has two rows", key)
			}
			rows[key] = cells
		}
	}
	return rows
}

type schema = map[string]any

// schemaMaker makes the schema of types. rows are those of docs/configuration.md.
type schemaMaker struct{ rows map[string][]string }

// section is the schema of a struct with its defaults.
func (m schemaMaker) section(v reflect.Value, path string) schema {
	properties := make(schema)
	for _, f := range fieldsOf(v.Type()) {
		properties[f.key] = m.value(v.Field(f.index), child(path, f.key))
	}
	return schema{"type": "object", "properties": properties, "additionalProperties": false}
}

// value is the schema of a value that is the default.
func (m schemaMaker) value(v reflect.Value, path string) schema {
	if v.Kind() == reflect.Pointer {
		v = reflect.New(v.Type().Elem()).Elem()
		begin(v)
	}
	s := m.form(v, path)
	if row := m.rows[rowOf(m.rows, path)]; row != nil {
		s["description"] = plainText(row[3])
		if value := strings.Trim(row[2], " `"); value != "–" {
			s["default"] = defaultOf(v, value)
		}
	}
	return s
}

// defaultOf is a documented default as the file has it.
func defaultOf(v reflect.Value, text string) any {
	if k := v.Kind(); k == reflect.Bool || k == reflect.Int && !isText(v.Type()) {
		return v.Interface()
	}
	if list, ok := reflect.TypeAssert[[]string](v); ok {
		return list
	}
	return text
}

const (
	durationPattern = `^([0-9.]+(ns|us|µs|ms|s|m|h))+$|^0$`
	sizePattern     = `^[0-9.]+([KMGT]i?)?B?$`
)

// form is the schema of a type.
func (m schemaMaker) form(v reflect.Value, path string) schema {
	numberOr := func(pattern string, types ...string) schema {
		return schema{"type": append([]string{"string"}, types...), "pattern": pattern}
	}
	switch v.Type() {
	case reflect.TypeFor[Duration]():
		s := numberOr(durationPattern)
		return schema{"anyOf": []any{s, schema{"const": 0}}}
	case reflect.TypeFor[NackWait]():
		s := numberOr(durationPattern + "|^auto$")
		return schema{"anyOf": []any{s, schema{"const": 0}}}
	case reflect.TypeFor[Size]():
		return numberOr(sizePattern, "integer")
	case reflect.TypeFor[Memory]():
		return numberOr(sizePattern+"|^auto$", "integer")
	case reflect.TypeFor[Percent]():
		return numberOr(`^[0-9.]+%?$`, "number")
	case reflect.TypeFor[Shadow]():
		return schema{"type": "boolean"}
	case reflect.TypeFor[FileMode]():
		return numberOr(`^0?[0-7]{3}$`, "integer")
	case reflect.TypeFor[Metadata](), reflect.TypeFor[Expressions](), reflect.TypeFor[Headers]():
		return schema{"type": "object"}
	case reflect.TypeFor[TestNode]():
		return schema{"type": []string{"object", "string"}}
	case reflect.TypeFor[Endpoints]():
		text := schema{"type": "string"}
		return schema{"type": "array", "items": schema{"anyOf": []any{text, schema{"type": "array", "items": text}}}}
	case reflect.TypeFor[Values]():
		return schema{"type": "array"}
	case reflect.TypeFor[RuleNode]():
		return schema{"anyOf": []any{schema{"const": firstNode}, m.section(v, path)}}
	}
	if choice, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr()); ok {
		return schema{"enum": choices(choice)}
	}
	switch v.Kind() {
	case reflect.Struct:
		return m.section(v, path)
	case reflect.Slice:
		element := reflect.New(v.Type().Elem()).Elem()
		begin(element)
		return schema{"type": "array", "items": m.value(element, path+"[]")}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int:
		return schema{"type": "integer"}
	case reflect.String:
		return schema{"type": "string"}
	default:
		panic("a type that the schema has no form for: " + v.Type().String())
	}
}

// choices are the words that a type takes, which it names if it gets another one.
func choices(of encoding.TextUnmarshaler) []string {
	_, words, found := strings.Cut(of.UnmarshalText([]byte("?")).Error(), "one of ")
	words, _, got := strings.Cut(words, ", got")
	if !found || !got {
		panic(fmt.Sprintf("%T does not say what it takes", of))
	}
	return strings.Split(words, ", ")
}

var link = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)

// plainText is what a cell says without its marks.
func plainText(cell string) string {
	return strings.TrimSpace(link.ReplaceAllString(strings.ReplaceAll(cell, "`", ""), "$1"))
}

// wrong gives what a schema has against a value. It knows the keywords that schemaMaker writes.
func wrong(s schema, v any, path string) (all []string) {
	say := func(format string, args ...any) { all = append(all, path+": "+fmt.Sprintf(format, args...)) }
	if forms, ok := s["anyOf"].([]any); ok {
		var first []string
		for _, form := range forms {
			found := wrong(form.(schema), v, path)
			if len(found) == 0 {
				return nil
			}
			if first == nil {
				first = found
			}
		}
		if _, ok := v.(map[string]any); ok {
			say("none of the forms")
			return all
		}
		return first
	}
	if c, ok := s["const"]; ok && fmt.Sprint(c) != fmt.Sprint(v) {
		say("not %v", c)
	}
	if words, ok := s["enum"].([]any); ok && !slices.Contains(words, v) {
		say("not one of %v", words)
	}
	types, _ := s["type"].([]any)
	if one, ok := s["type"].(string); ok {
		types = []any{one}
	}
	if types != nil && !slices.ContainsFunc(types, func(t any) bool { return isOf(v, t.(string)) }) {
		say("not a value of type %v", types[0])
		return all
	}
	if text, ok := v.(string); ok && s["pattern"] != nil && !regexp.MustCompile(s["pattern"].(string)).MatchString(text) {
		say("does not match %s", s["pattern"])
	}
	properties, _ := s["properties"].(schema)
	patterns, _ := s["patternProperties"].(schema)
	if members, ok := v.(map[string]any); ok {
		for _, key := range slices.Sorted(maps.Keys(members)) {
			switch p, known := properties[key]; {
			case known:
				all = append(all, wrong(p.(schema), members[key], child(path, key))...)
			case s["additionalProperties"] == false && !(strings.HasPrefix(key, "x-") && patterns["^x-"] != nil):
				all = append(all, child(path, key)+": unknown key")
			}
		}
	}
	if items, ok := s["items"].(schema); ok {
		for i, element := range v.([]any) {
			all = append(all, wrong(items, element, fmt.Sprintf("%s[%d]", path, i))...)
		}
	}
	return all
}

func isOf(v any, typ string) bool {
	switch v.(type) {
	case string:
		return typ == "string"
	case bool:
		return typ == "boolean"
	case int:
		return typ == "integer" || typ == "number"
	case float64:
		return typ == "number"
	case []any:
		return typ == "array"
	case map[string]any:
		return typ == "object"
	}
	return false
}
