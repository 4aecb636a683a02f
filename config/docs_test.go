package config

import (
	"encoding"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestDocumentation compares the tables of docs/configuration.md with the types
// and the defaults: every key has a row with its type and default, and every
// row a key.
func TestDocumentation(t *testing.T) {
	rows := documentedRows(t)
	upstream := DefaultUpstream()
	all := append(
		leaves(reflect.ValueOf(Default()), reflect.TypeFor[*Config](), ""),
		leaves(reflect.ValueOf(&upstream), reflect.TypeFor[*Upstream](), "upstreams[]")...)
	all = append(all, leaves(reflect.ValueOf(new(Rule)), reflect.TypeFor[*Rule](), "aggregation.rules[]")...)
	all = append(all, leaves(reflect.ValueOf(new(RuleTest)), reflect.TypeFor[*RuleTest](), "aggregation.tests[]")...)
	all = append(all, leaves(reflect.ValueOf(new(VerifyRule)), reflect.TypeFor[*VerifyRule](), "access.verify[]")...)
	all = append(all, leaves(reflect.ValueOf(new(AccessRule)), reflect.TypeFor[*AccessRule](), "access.rules[]")...)
	all = append(all, leaves(reflect.ValueOf(new(AccessTest)), reflect.TypeFor[*AccessTest](), "access.tests[]")...)
	listener := DefaultListener()
	listener.Access = new(DefaultListenerAccess())
	all = append(all, leaves(reflect.ValueOf(&listener), reflect.TypeFor[*Listener](), "server.listeners[]")...)
	all = append(all, leaves(reflect.ValueOf(new(PassRule)), reflect.TypeFor[*PassRule](), "passthrough[]")...)
	all = append(all, leaves(reflect.ValueOf(new(Issuer)), reflect.TypeFor[*Issuer](), "server.identity.jwt[]")...)
	lists := []string{
		"upstreams", "server.listeners", "server.identity.jwt", "server.listeners[].identity.jwt", "server.listeners[].access.rules",
		"server.listeners[].access.verify", "aggregation.rules", "aggregation.tests",
		"access.rules", "access.verify", "access.tests", "passthrough",
	}
	seen := make(map[string]bool)
	for _, l := range all {
		if slices.Contains(lists, l.path) {
			continue
		}
		key := rowOf(rows, l.path)
		cells := rows[key]
		seen[key] = true
		if len(cells) != 4 {
			t.Errorf("%s has no row of key, type, default and meaning", l.path)
			continue
		}
		if got := strings.TrimSpace(cells[1]); got != documentedType(l.typ) {
			t.Errorf("%s: type %q, want %q", l.path, got, documentedType(l.typ))
		}
		if got := strings.TrimSpace(cells[2]); got != documentedDefault(l) {
			t.Errorf("%s: default %q, want %q", l.path, got, documentedDefault(l))
		}
		if len(strings.TrimSpace(cells[3])) < 20 {
			t.Errorf("%s: no meaning", l.path)
		}
	}
	for key := range rows {
		if !seen[key] {
			t.Errorf("%s has a row but is no key", key)
		}
	}
	data, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range flagKeys() {
		if !strings.Contains(string(data), "| `--"+f.name+"` | `"+f.path+"` |") {
			t.Errorf("--%s has no row", f.name)
		}
	}
}

// rowOf gives the key whose row is about a path: its own, or that of a section with the same keys.
func rowOf(rows map[string][]string, path string) string {
	if rows[path] != nil {
		return path
	}
	return strings.NewReplacer(
		"server.listeners[].access.", "access.", "server.listeners[].identity.jwt", "server.identity.jwt",
		"server.listeners[].tls.", "server.tls.", "peers.tls.spiffe.", "server.tls.spiffe.",
		"access.tests[].peer.", "aggregation.tests[].peer.",
	).Replace(path)
}

func documentedType(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Duration]():
		return "duration"
	case reflect.TypeFor[Size]():
		return "size"
	case reflect.TypeFor[FileMode]():
		return "file mode"
	case reflect.TypeFor[Shadow]():
		return "bool"
	case reflect.TypeFor[NackWait]():
		return "duration or `auto`"
	case reflect.TypeFor[Memory]():
		return "size or `auto`"
	case reflect.TypeFor[Percent]():
		return "percentage"
	case reflect.TypeFor[Metadata]():
		return "map"
	case reflect.TypeFor[Headers]():
		return "map of strings"
	case reflect.TypeFor[Expressions]():
		return "map of expressions"
	case reflect.TypeFor[TestNode]():
		return "map or string"
	case reflect.TypeFor[Endpoints]():
		return "list of strings and lists"
	case reflect.TypeFor[Values]():
		return "list of values"
	case reflect.TypeFor[[]string]():
		return "list of strings"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "bool"
	case reflect.Int:
		return "integer"
	case reflect.String:
		if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			return "one of"
		}
		return "string"
	default:
		return "a type that the documentation has no name for: " + t.String()
	}
}

func documentedDefault(l leaf) string {
	if !l.value.IsValid() || l.value.IsZero() && l.typ.Kind() != reflect.Bool {
		return "–"
	}
	if list, ok := reflect.TypeAssert[[]string](l.value); ok {
		return "`[" + strings.Join(list, ", ") + "]`"
	}
	return fmt.Sprintf("`%v`", l.value.Interface())
}

// TestDocumentationOfRuleTests runs the tests of docs/configuration.md with the rules that
// stand before them.
func TestDocumentationOfRuleTests(t *testing.T) {
	data, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(begin string) string {
		_, text, found := strings.Cut(string(data), "```yaml\n"+begin+"\n")
		if !found {
			t.Fatalf("no block that begins with %s", begin)
		}
		text, _, _ = strings.Cut(text, "```")
		return begin + "\n" + text
	}
	dir := t.TempDir()
	write(t, dir+"/x.yaml", minimal+block("aggregation:"))
	write(t, dir+"/x_test.yaml", block("tests:"))
	write(t, dir+"/nodes/gateway.yaml", "id: gw-eu-1\n")
	c, err := Load(dir+"/x.yaml", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	results, err := c.TestRules()
	if err != nil || len(results) != 3 {
		t.Fatalf("%v, %v", results, err)
	}
	for _, r := range results {
		if r.Failure != nil {
			t.Error(r.Failure)
		}
	}
}
