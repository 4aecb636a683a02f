package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const withRules = minimal + `  - {name: edge, authorities: [edge], endpoints: ["127.0.0.1:5679"]}
aggregation:
  rules:
    - name: sidecars
      match: node.metadata.role == "sidecar" && type in [lds, cds]
      scope: [node.cluster, node.locality.zone, size(node.id)]
    - name: gateways
      match: node.id.startsWith("gw-")
      scope: ['node.id.split("-")[1]', node.metadata.list]
      upstream: edge
    - name: shards
      match: peer.spiffe != "" && name.startsWith("shard/")
      scope: []
  otherwise: refuse
`

// TestAGG4_ruleTests runs tests that pass and tests that do not, and asks what is said of
// the latter.
func TestAGG4_ruleTests(t *testing.T) {
	const sidecar = "node: {id: a, cluster: c, locality: {zone: z}, metadata: {role: sidecar}}, "
	const gateway = "node: {id: gw-eu, metadata: {role: gateway, list: [1, {a: b}, null]}}, "
	const other = "node: {id: a, metadata: {role: other}}, peer: {spiffe: spiffe://td/a}, "
	for _, tt := range []struct{ name, test, want string }{
		{"all of it", sidecar + "type: cds, rule: sidecars, scope: [c, z, 1], upstream: primary, refused: false, fails: false", ""},
		{"a type URL", sidecar + "type: type.googleapis.com/envoy.config.cluster.v3.Cluster, rule: sidecars", ""},
		{"no rule named", sidecar + "type: lds, scope: [c, z, 1.0]", ""},
		{"values of every kind", gateway + `type: eds, scope: [eu, [1, {a: b}, null]], upstream: edge`, ""},
		{"a name", other + "type: eds, resource: shard/1, rule: shards, scope: []", ""},
		{"another name", other + `type: eds, resource: "*", refused: true, rule: otherwise`, ""},
		{"AGG-2 no node", "type: cds, fails: true, rule: sidecars", ""},
		{"AGG-2 missing metadata", "node: {id: a}, type: cds, fails: true", ""},

		{
			"another rule", sidecar + "type: cds, rule: gateways",
			`expected rule "gateways", got "sidecars": "gateways" is not reached; "sidecars" matches: `,
		},
		{
			"a rule that does not match", gateway + "type: cds, rule: sidecars",
			`expected rule "sidecars", got "gateways": "sidecars" does not match: node.metadata.role == "sidecar" is false: node.metadata.role is "gateway"; "gateways" matches: `,
		},
		{"no rule", sidecar + "type: cds, rule: otherwise", `expected rule "otherwise", got "sidecars": "sidecars" matches: `},
		{
			"another scope", sidecar + "type: cds, scope: [c, y, 1]",
			`expected scope ["c","y",1], got ["c","z",1]: scope[1]: node.locality.zone is "z"`,
		},
		{"fewer parts", sidecar + "type: cds, scope: [c]", `expected scope ["c"], got ["c","z",1]`},
		{"no parts", sidecar + "type: cds, scope: []", `expected scope [], got ["c","z",1]`},
		{"another type of value", sidecar + `type: cds, scope: [c, z, "1"]`, `expected scope ["c","z","1"], got ["c","z",1]: scope[2]: size(node.id) is 1`},
		{"another upstream", gateway + "type: eds, upstream: primary", `expected upstream "primary", got "edge"`},
		{"refused", other + `type: eds, resource: x, rule: shards`, `expected rule "shards", got a refusal by "otherwise": "shards" does not match: `},
		{"refused, with a scope expected", other + `type: eds, resource: x, scope: []`, `expected scope [], got a refusal by "otherwise"`},
		{"refused, with an upstream expected", other + `type: eds, resource: x, upstream: edge`, `expected upstream "edge", got a refusal by "otherwise"`},
		{"refused, not to be", other + `type: eds, resource: x, refused: false`, `expected the client not to be refused, got a refusal by "otherwise"`},
		{"AGG-2 a failure where clients are refused", "type: cds, fails: true, refused: true", ""},
		{"refused, to fail", other + `type: eds, resource: x, fails: true`, `expected a rule to fail, got a refusal by "otherwise"`},
		{"refused, not to fail", other + `type: eds, resource: x, fails: false`, `expected no rule to fail, got a refusal by "otherwise"`},
		{"not refused", sidecar + "type: cds, refused: true", `expected the client to be refused, got "sidecars": "sidecars" matches: `},
		{"no failure", sidecar + "type: cds, fails: true", `expected a rule to fail, got "sidecars": "sidecars" matches: `},
		{
			"AGG-2 a failure", "node: {id: a}, type: cds, rule: sidecars",
			`expected rule "sidecars", got a refusal, because a rule fails: aggregation rule "sidecars" fails: match: node.metadata.role == "sidecar" && type in [lds, cds]: `,
		},
		{"AGG-2 a failure, not to be", "type: cds, fails: false", `expected no rule to fail, got a refusal, because a rule fails: `},
		{"name by name", other + "type: eds, rule: shards", `the rules look at the name: add resource, with a name or "*"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := mustParse(t, withRules+"  tests:\n    - {name: tested, "+tt.test+"}\n")
			c.file = ""
			results, err := c.TestRules()
			if err != nil || len(results) != 1 {
				t.Fatalf("%+v, %v", results, err)
			}
			got := results[0]
			if diff := cmp.Diff(TestResult{Name: "tested", File: "test.yaml", Line: 21, Column: 7, Path: "aggregation.tests[0]", Failure: got.Failure}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			message := ""
			if got.Failure != nil {
				message = got.Failure.Error()
			}
			if want := `test.yaml:21:7: aggregation.tests[0] "tested": ` + tt.want; tt.want == "" && message != "" || tt.want != "" && !strings.HasPrefix(message, want) {
				t.Errorf("%s\nwant %s", message, tt.want)
			}
		})
	}
}

// TestAGG4_testFiles: files of tests beside the configuration are read, and nodes from
// files relative to it.
func TestAGG4_testFiles(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "x_test.yaml") // not one of its own files of tests
	for name, text := range map[string]string{
		"x_test.yaml": withRules + "  tests:\n    - {name: inline, node: nodes/a.yaml, type: cds, rule: sidecars}\n",
		"a_test.yaml": "tests:\n  - {name: first, node: nodes/b.json, type: cds, rule: gateways}\n" +
			"  - {name: second, node: nodes/none.yaml, type: eds, refused: true}\n" +
			"  - {name: third, node: nodes/bad.yaml, type: eds, refused: true}\n",
		"b_test.yml":        "tests:\n  - name: fourth\n    node: " + filepath.Join(dir, "nodes/a.yaml") + "\n    type: cds\n    rule: gateways\n",
		"c_test.yaml":       "",
		"tests.yaml":        "no: tests",
		"nodes/a.yaml":      "id: a\ncluster: c\nmetadata: {role: sidecar}\n",
		"nodes/b.json":      `{"id": "gw-eu", "metadata": {"list": []}}`,
		"nodes/bad.yaml":    "id: a\nlocality: {zoon: z}\n",
		"nodes/c_test.yaml": "not: looked at",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder_test.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := Load(config, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	results, err := c.TestRules()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range results {
		line := strings.TrimPrefix(r.File, dir+"/") + " " + r.Path + " " + r.Name
		if r.Failure != nil {
			text, _, _ := strings.Cut(r.Failure.Error(), ": \"sidecars\" matches")
			line += ": " + strings.ReplaceAll(text, dir+"/", "")
		}
		got = append(got, line)
	}
	want := []string{
		"x_test.yaml aggregation.tests[0] inline",
		"a_test.yaml tests[0] first: a_test.yaml:2:5: tests[0] \"first\": expected rule \"gateways\", got a refusal, because a rule fails: aggregation rule \"sidecars\" fails: ",
		"a_test.yaml tests[1] second: a_test.yaml:3:26: tests[1].node: reading nodes/none.yaml: no such file or directory",
		`a_test.yaml tests[2] third: nodes/bad.yaml:2:12: unknown field "zoon" (the node of tests[2])`,
		`b_test.yml tests[0] fourth: b_test.yml:2:5: tests[0] "fourth": expected rule "gateways", got "sidecars": "gateways" is not reached; "sidecars" matches`,
	}
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("%s\nwant %s", got[i], want[i])
		}
	}
}

// TestAGG4_badTestFiles: files of tests are read as strictly as the configuration.
func TestAGG4_badTestFiles(t *testing.T) {
	for text, want := range map[string]string{
		"test: []\n":                         `1:1: test: unknown key, did you mean "tests"?`,
		"tests: [\n":                         "1: did not find expected node content",
		"tests:\n  - {name: a, type: cds}\n": "2:5: tests[0]: the test expects nothing: add rule, scope, upstream, refused or fails",
		"tests:\n  - {name: a, type: cds, rule: sidecar}\n":                           `2:32: tests[0].rule: unknown rule "sidecar", did you mean "sidecars"?`,
		"tests:\n  - {name: a, type: cds, rule: otherwise, node: {id: a, zone: b}}\n": `2:57: tests[0].node: unknown field "zone"`,
		"upstreams: []\n": `1:1: upstreams: unknown key, expected one of: tests`,
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "x.yaml"), withRules)
		write(t, filepath.Join(dir, "a_test.yaml"), text)
		c, err := Load(filepath.Join(dir, "x.yaml"), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		results, err := c.TestRules()
		if results != nil || err == nil || err.Error() != filepath.Join(dir, "a_test.yaml")+":"+want {
			t.Errorf("%q: %v, %v, want %s", text, results, err, want)
		}
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Errorf("%T holds no *Error", err)
		}
	}
}

// TestAGG4_testsByHand checks what no file can hold.
func TestAGG4_testsByHand(t *testing.T) {
	c := mustParse(t, withRules)
	c.Aggregation.Tests = []RuleTest{
		{Name: "a", Type: "cds", Node: 7, Rule: "sidecars"},
		{Name: "b", Type: "cds", Node: map[string]any{"name": "x"}, Rule: "sidecars"},
		{Name: "c", Type: "cds", Node: "", Rule: "sidecars"},
		{Name: "d", Type: "cds", Node: map[string]any{"odd": func() {}}, Rule: "sidecars"},
	}
	err := c.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"aggregation.tests[0].node: expected a mapping with the fields of a node, or a file's name, got a int",
		`aggregation.tests[1].node: unknown field "name"`,
		"aggregation.tests[2].node: missing or empty",
		"aggregation.tests[3].node: json: unsupported type: func()",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
}

// write makes a file and its folder.
func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
