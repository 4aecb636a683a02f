package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// AGG-4: what is wrong with an expression, where, and what to write.
func TestAGG4Expressions(t *testing.T) {
	for _, tc := range []struct {
		match        string
		line, column int
		message      string
	}{
		// Names.
		{`node.clustr == "a"`, 1, 6, `undefined field "clustr", did you mean "cluster"?`},
		{`node.locality.subZone == "a"`, 1, 15, `undefined field "subZone", did you mean "sub_zone"?`},
		{`node.extensions.exists(e, e.nme == "a")`, 1, 29, `undefined field "nme"`},
		{`peer.spifee == "x"`, 1, 6, `undefined field "spifee", did you mean "spiffe"?`},
		{`envoy.config.core.v3.Node{idd: "a"} == node`, 1, 30, `undefined field "idd"`},
		{`node_id == "x"`, 1, 1, `unknown variable "node_id", did you mean "node.id"?`},
		{`cluster == "x"`, 1, 1, `unknown variable "cluster", did you mean "node.cluster"?`},
		{`zone == "x"`, 1, 1, `unknown variable "zone", did you mean "node.locality.zone"?`},
		{`type_url == cds`, 1, 1, `unknown variable "type_url", did you mean "type"?`},
		{`typ == cds`, 1, 1, `unknown variable "typ", did you mean "type"?`},
		{`type in [cds, xds]`, 1, 15, `unknown variable "xds", did you mean "cds"?`},
		{`node.metadata.role == sidecar`, 1, 23, `unknown variable "sidecar": text needs quotes, "sidecar"`},
		{`node.id == gw-1`, 1, 12, `unknown variable "gw": text needs quotes, "gw"`},
		{"node.cluster == \"é\" &&\n  node.id == x", 2, 14, `unknown variable "x": text needs quotes, "x"`},
		{`node.cluster == "é" && nde.id == "x"`, 1, 24, `unknown variable "nde", did you mean "node"?`},
		{`node.id.startswith("gw")`, 1, 9, `unknown function "startswith", did you mean "startsWith"?`},
		{`node.id.lower() == "gw"`, 1, 9, `unknown function "lower", did you mean "lowerAscii"?`},
		{`not (node.id == "a")`, 1, 1, `unknown function "not": it is written !`},
		{`Node{id: "a"} == node`, 1, 1, `unknown message type "Node"`},
		{`timestamp("2020-01-01T00:00:00Z") == null`, 1, 1, `unknown function "timestamp": rules cannot use time`},
		// Types.
		{`node.id == 5`, 1, 9, `"==" does not accept a string and a whole number`},
		{`node.metadata == "x"`, 1, 15, `"==" does not accept a map(string, dyn) and a string`},
		{`node.id != null`, 1, 9, `"!=" does not accept a string and null: a field that is not set is "", 0 or empty, not null`},
		{`type in cds`, 1, 6, `"in" does not accept a string and a string: the right side must be a list or a map`},
		{`node.metadata.?role == "a"`, 1, 21, `"==" does not accept an optional_type(dyn) and a string: give a default with .orValue("")`},
		{`node.metadata.a.zone-name == "a"`, 1, 21, `"-" does not accept a value of any type and a string: a key with a dash is written node.metadata.a["zone-name"]`},
		{`node.metadata.zone-id == "a"`, 1, 20, `unknown variable "id": a key with a dash is written node.metadata["zone-id"]`},
		{`node.id.matches(5)`, 1, 9, `matches does not take string.(int), but (string, string) or string.(string)`},
		{`node.id && true`, 1, 1, `this is a string, it must be a bool`},
		{`node.id == "a" || "b"`, 1, 19, `this is a string, it must be a bool`},
		{`node.id.foo`, 1, 8, `a string has no fields`},
		{`node.id.exists(x, x == "a")`, 1, 1, `this is a string, but a loop needs a list or a map`},
		{`has(node.metadata["a"])`, 1, 18, `has() takes a field, as in has(node.metadata.role); for a key in quotes use "role" in node.metadata`},
		{`node.metadata.?on`, 0, 0, `node.metadata.?on may have no value: give a default with .orValue(false)`},
		{`node.id`, 0, 0, `node.id is a string, it must be true or false (bool)`},
		// Syntax: the first thing that is wrong.
		{`node.metadata.role = "sidecar"`, 1, 20, `"=" is not an operator: use == to compare`},
		{`node.id =~ "^gw"`, 1, 9, `"=~" is not an operator: use node.id.matches("…") for a regular expression`},
		{`node.id == "a" and type == cds`, 1, 16, `unexpected "and": it is written &&`},
		{`node.id == "a" & type == cds`, 1, 16, `"&" is not an operator: it is written &&`},
		{`node.id == 'a`, 1, 12, `a string without an end`},
		{`node.id == "\q"`, 1, 12, `a string with an invalid escape, or without an end: write a backslash as \\, or the string as r"…"`},
		{`node.id == “a”`, 1, 12, `“ is not a quote: use " or '`},
		{`node.id == "a";`, 1, 15, `unexpected ";"`},
		{`node.id ==`, 1, 11, `the expression ends too early`},
		{`node.id == "a" ? true`, 1, 22, `the expression ends too early: "?" needs a ":", as in condition ? this : that`},
		{`node.metadata["a" == "b"`, 1, 25, `"]" is missing at the end`},
		{`if node.id == "a"`, 1, 1, `"if" is a reserved word of CEL`},
		{`node.client_features.exists(x, x == "a" &&)`, 1, 43, `unexpected ")"`},
		{strings.Repeat("(", 101) + "true" + strings.Repeat(")", 101), 0, 0, `nested deeper than 100 levels`},
		{`node.client_features.all(a, [1].all(b, [1].all(c, a == "x")))`, 1, 47, `more than 2 nested all, exists, map or filter`},
		// What cannot be meant.
		{`type == "cds"`, 1, 9, `type is a type URL, never "cds": use cds without quotes`},
		{`"LDS" == type`, 1, 1, `type is a type URL, never "LDS": use lds without quotes`},
		{`type in [cds, "envoy.config.listener.v3.Listener"]`, 1, 15, `type is a type URL, never "envoy.config.listener.v3.Listener": use lds without quotes`},
		{`type != "Foo"`, 1, 9, `type is a type URL, such as "type.googleapis.com/Foo", never "Foo"`},
		{`name == "xdstp://a/b"`, 1, 9, `rules never see an xdstp name: all clients share xdstp names`},
		{`type == "type.googleapis.com/envoy.config.cluster.v3.Clusterr"`, 1, 9, `type is never "type.googleapis.com/envoy.config.cluster.v3.Clusterr": use cds without quotes for "type.googleapis.com/envoy.config.cluster.v3.Cluster"`},
		{`xdstp.authority == node.cluster`, 1, 1, `"xdstp" is for access rules only: all clients share xdstp names`},
		{`node.client_features.exists(xdstp, xdstp == "a") || xdstp.id == "a"`, 1, 53, `"xdstp" is for access rules only: all clients share xdstp names`},
		{`node.client_features.exists(xdstp, .xdstp.id == "a")`, 1, 37, `"xdstp" is for access rules only: all clients share xdstp names`},
		{`xdstp.context.exists(xdstp, xdstp == node.id)`, 1, 1, `"xdstp" is for access rules only: all clients share xdstp names`},
		{`node.locality == null`, 1, 18, `node.locality is never null: use has(node.locality) to test whether it is set`},
		{`null != node.user_agent_build_version`, 1, 1, `node.user_agent_build_version is never null: use has(node.user_agent_build_version) to test whether it is set`},
		{`peer == null || node.id == ""`, 1, 9, `peer is never null`},
		{`"a" == "b"`, 0, 0, `"a" == "b" does not depend on the client: it is the same for all clients`},
		{`cds != lds`, 0, 0, `cds != lds does not depend on the client: it is the same for all clients`},
		{`node.metadata.fields["a"].string_value == "x"`, 1, 26, `string_value does not exist in expressions: use metadata directly, as in node.metadata.role`},
		{`node.client_features.exists(name, name == "x")`, 1, 28, `"name" is already a variable, use another name for the loop variable`},
		// Regular expressions, formats, replacements.
		{`node.id.matches("^(gw")`, 1, 17, "missing closing ): `^(gw`"},
		{`node.id.matches(node.cluster)`, 1, 21, `a regular expression must be a literal in quotes`},
		{`regex.replace(node.id, "[", "") == "a"`, 1, 24, "missing closing ]: `[`"},
		{`regex.replace(node.id, "(a)", r"\2") == "a"`, 1, 31, `\2: the regular expression has no such group`},
		{`regex.replace(node.id, "(a)", r"\x") == "a"`, 1, 31, `behind \ there has to be the number of a group or another \: "\\x"`},
		{`regex.replace(node.id, "(a)", "$1") == "a"`, 1, 31, `"$1" would be inserted literally: a group is written \1, in quotes as in r"\1"`},
		{`regex.extract(node.id, "(a)(b)").orValue("") == "a"`, 1, 24, `2 groups in a regular expression that takes one part: (?:…) groups without taking`},
		{`node.id.replace("-[0-9]+$", "") == "gw"`, 1, 17, `replace looks for text, not for a regular expression: use regex.replace(text, "-[0-9]+$", with)`},
		{`node.id.replace("a", node.cluster) == "gw"`, 1, 26, `the replacement must be a literal in quotes`},
		{`node.id.split("").join(node.cluster) == "gw"`, 1, 28, `a separator must be a literal in quotes`},
		{`node.metadata.f.format([1]) == "a"`, 1, 14, `a format must be a literal in quotes`},
		// As a whole.
		{``, 0, 0, `missing: match selects the clients and types of the rule; true selects all`},
		{" \n ", 0, 0, `missing: match selects the clients and types of the rule; true selects all`},
		{`node.id == "` + strings.Repeat("a", 8192) + `"`, 0, 0, `8205 bytes long, an expression has at most 8192`},
	} {
		t.Run("AGG-4 "+shortened(tc.match), func(t *testing.T) {
			set, problems := rules.Compile(rules.Config{Rules: []rules.Rule{{Name: "r", Match: tc.match}}})
			want := []rules.Problem{{Field: "match", Line: tc.line, Column: tc.column, Message: tc.message}}
			if diff := cmp.Diff(want, problems); diff != "" || set != nil {
				t.Errorf("AGG-4: problems (-want +got):\n%s", diff)
			}
		})
	}
}

// AGG-4: rules may use the fields of all messages that a node holds, also of those that
// other files define: the version of an Envoy, its addresses.
func TestAGG4FieldsOfFields(t *testing.T) {
	for _, match := range []string{
		`node.user_agent_build_version.version.major_number == 1u`,
		`node.extensions.exists(e, e.version.version.patch == 2u)`,
		`node.listening_addresses.exists(a, a.socket_address.port_value == 80u)`,
		`node.listening_addresses.exists(a, a.envoy_internal_address.endpoint_id == "a")`,
		`node.dynamic_parameters["a"].params["b"] == "c"`,
	} {
		if _, problems := rules.Compile(rules.Config{Rules: []rules.Rule{{Name: "r", Match: match, Scope: []string{}}}}); problems != nil {
			t.Errorf("AGG-4: %s: %+v", match, problems)
		}
	}
}

// shortened keeps the names of tests short.
func shortened(s string) string { return fmt.Sprintf("%.40q", s) }

// AGG-4: all that is wrong is told at once, in the order of the rules.
func TestAGG4Rules(t *testing.T) {
	for _, tc := range []struct {
		name  string
		rules []rules.Rule
		want  []rules.Problem
	}{
		{"no rules", nil, nil},
		{"names", []rules.Rule{
			{Match: `node.id == "a"`},
			{Name: "otherwise", Match: `node.id == "b"`},
			{Name: "a b", Match: `node.id == "c"`},
			{Name: "r", Match: `node.id == "d"`},
			{Name: "r", Match: `node.id == "e"`},
			{Name: strings.Repeat("r", 65), Match: `node.id == "f"`},
			{Name: "R.1_a-b", Match: `node.id == "g"`},
		}, []rules.Problem{
			{Rule: 0, Field: "name", Message: `missing: scopes, logs and metrics call a rule by its name`},
			{Rule: 1, Field: "name", Message: `"otherwise" is the decision without a matching rule; use another name for the rule`},
			{Rule: 2, Field: "name", Message: `"a b": a name has letters, digits and any of -_. only`},
			{Rule: 4, Field: "name", Message: `"r" is already the name of the rule [3]`},
			{Rule: 5, Field: "name", Message: `65 characters long, at most 64 are allowed`},
		}},
		{"parts", []rules.Rule{
			{Name: "r", Match: "true", Scope: []string{`node.id`, `"node.cluster"`, `cds`, ``, `node.foo`, `type`, `upstream`}},
		}, []rules.Problem{
			{Field: "scope[1]", Message: `"node.cluster" does not depend on the client: it is the same for all clients; without the quotes, node.cluster is an expression`},
			{Field: "scope[2]", Message: `cds does not depend on the client: it is the same for all clients`},
			{Field: "scope[3]", Message: `empty: expected an expression`},
			{Field: "scope[4]", Line: 1, Column: 6, Message: `undefined field "foo"`},
		}},
		{"too many parts", []rules.Rule{
			{Name: "r", Match: "true", Scope: make([]string, 33)},
		}, []rules.Problem{{Field: "scope", Message: `there are 33 parts, at most 32 are allowed`}}},
		{"node", []rules.Rule{
			{Name: "r", Match: "true", Node: rules.Node{
				ID: `relay`, Cluster: `5`, Locality: rules.Locality{Region: `node.id + 1`, Zone: `node.metadata[?"zone"]`, SubZone: `node.locality`},
				Metadata: map[string]string{"b": ``, "a": `node.`, "c": `{"x": [node.id, node.metadata]}`},
			}},
		}, []rules.Problem{
			{Field: "node.id", Line: 1, Column: 1, Message: `unknown variable "relay": text needs its own quotes, '"relay"'`},
			{Field: "node.cluster", Message: `5 is a whole number, it must be a string`},
			{Field: "node.locality.region", Line: 1, Column: 9, Message: `"+" does not accept a string and a whole number`},
			{Field: "node.locality.zone", Message: `node.metadata[?"zone"] may have no value: give a default with .orValue("")`},
			{Field: "node.locality.sub_zone", Message: `node.locality is an envoy.config.core.v3.Locality, it must be a string`},
			{Field: "node.metadata.a", Line: 1, Column: 6, Message: `the expression ends too early`},
			{Field: "node.metadata.b", Message: `empty: expected an expression`},
		}},
		{"optional text", []rules.Rule{
			{Name: "r", Match: "true", Node: rules.Node{ID: `regex.extract(node.id, "^[a-z]+")`}},
		}, []rules.Problem{
			{Field: "node.id", Message: `regex.extract(node.id, "^[a-z]+") may have no value: give a default with .orValue("")`},
		}},
		{"metadata that is not JSON", []rules.Rule{
			{Name: "r", Match: "true", Node: rules.Node{Metadata: map[string]string{
				"a": `type(node.id)`, "b": `[{1: node.id}]`, "c": `{node.id: node.metadata}`, "d": `node.metadata.?x`, "e": `node.locality`,
			}}},
		}, []rules.Problem{
			{Field: "node.metadata.a", Message: `type(node.id) is a type(string), but metadata can hold only JSON values`},
			{Field: "node.metadata.b", Message: `[{1: node.id}] is a list(map(int, string)), but metadata can hold only JSON values`},
		}},
		{"a node that changes within a scope", []rules.Rule{
			{Name: "a", Match: "node.id == ''", Scope: []string{"node.id"}, Node: rules.Node{ID: `"x-" + name`, Cluster: "type"}},
			{Name: "b", Match: "true", Scope: []string{`name.split("/")[0]`, "type"}, Node: rules.Node{ID: `"x-" + name`, Cluster: "type"}},
		}, []rules.Problem{
			{Field: "node.id", Message: `"x-" + name looks at name, but no part of the scope does: the first value would decide for the whole scope`},
			{Field: "node.cluster", Message: `type looks at type, but no part of the scope does: the first value would decide for the whole scope`},
		}},
		{"never reached", []rules.Rule{
			{Name: "a", Match: `type == cds`},
			{Name: "off", Match: `false`},
			{Name: "b", Match: `(type==cds)`},
			{Name: "c", Match: `true`},
			{Name: "d", Match: `node.id == "x"`},
			{Name: "off-too", Match: `false`},
		}, []rules.Problem{
			{Rule: 2, Field: "match", Message: `never reached: the earlier rule "a" has the same match`},
			{Rule: 4, Field: "match", Message: `never reached: the earlier rule "c" matches everything`},
		}},
		{"too many", make([]rules.Rule, 1001), []rules.Problem{{Rule: 1000, Message: `there are 1001 rules, at most 1000 are allowed`}}},
	} {
		t.Run("AGG-4 "+tc.name, func(t *testing.T) {
			set, problems := rules.Compile(rules.Config{Rules: tc.rules})
			if diff := cmp.Diff(tc.want, problems); diff != "" || (set == nil) != (len(tc.want) > 0) {
				t.Errorf("AGG-4: problems (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzCompile: whatever is written where an expression belongs, the problems have places
// inside of it, and what compiles can be evaluated and explained.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{`node.id == "a"`, `has(node.metadata.a.b)`, "node.x.y ==\n\"é\"", `type in [cds, "a"]`, `regex.replace(node.id, "(a)", "\\1")`, `[1].map(x, x)`, `node.metadata.?a.orValue(1)`} {
		f.Add(seed)
	}
	node := sidecar(f)
	f.Fuzz(func(t *testing.T, source string) {
		// The first rule sees to it that there are problems.
		set, problems := rules.Compile(rules.Config{Rules: []rules.Rule{{Name: "r", Match: "wrong"}, {Name: "s", Match: source, Scope: []string{source}}}})
		if set != nil || len(problems) == 0 {
			t.Fatalf("AGG-4: set %v, problems %v", set, problems)
		}
		lines := strings.Split(source, "\n")
		for _, p := range problems {
			switch {
			case p.Message == "" || strings.ContainsAny(p.Message, "\n"):
				t.Errorf("AGG-4: message %q", p.Message)
			case p.Rule == 1 && p.Line > 0 && (p.Line > len(lines) || p.Column < 1 || p.Column > len([]rune(lines[p.Line-1]))+1):
				t.Errorf("AGG-4: %d:%d is not in %q: %s", p.Line, p.Column, source, p.Message)
			}
		}
		set, _ = rules.Compile(rules.Config{Rules: []rules.Rule{{Name: "r", Match: "node.id != ''", Scope: []string{source}}}})
		if set == nil {
			return
		}
		explainAll(t, set, node)
	})
}
