package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
)

const good = `upstreams:
  - {name: a, default: true, endpoints: [127.0.0.1:1]}
`

const wrong = `server:
  lisen: x
upstreams:
  - name: a
    default: true
    endpoints: [127.0.0.1]
`

const withFiles = `upstreams:
  - name: a
    default: true
    endpoints: [127.0.0.1:1]
    tls: {ca_file: /does/not/exist.pem}
`

const withTests = good + `aggregation:
  rules:
    - {name: sidecars, match: node.id.startsWith("sc-"), scope: [node.cluster]}
  tests:
    - {name: shares, node: {id: sc-1, cluster: shop}, type: cds, rule: sidecars, scope: [shop]}
    - {name: others, node: {id: gw-1}, type: cds, rule: otherwise}
`

const withVerify = good + `access:
  verify:
    - {name: cluster, require: node.cluster != ""}
`

const open = good + `admin: {listen: 0.0.0.0:19100}
`

const warning = "warning: FILE:3:17: admin.listen: everybody who reaches 0.0.0.0:19100 sees what all clients have, and can hold, release and roll back what they get: expected a loopback address or a unix socket, or admin.tls with client_ca_file or spiffe, or admin.tokens_file\n"

const withFailingTest = withTests + `    - {name: wrong, node: {id: gw-1}, type: cds, rule: sidecars}
`

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name, content string
		args          []string
		code          int
		stdout        string
		stderr        string
	}{
		{"good", good, nil, 0, "FILE: valid, 1 upstream, listening on 127.0.0.1:18100\n" + secretsDenied, ""},
		{"good with a flag", good, []string{"--listen=:99"}, 0, "FILE: valid, 1 upstream, listening on :99\n" + secretsDenied,
			"warning: --listen: server.listen: everybody on the way to :99 can read what clients get, and change it: expected tls, with client_ca_file or spiffe\n"},
		{"ACC-7 warnings", open, nil, 0, "FILE: valid, 1 upstream, listening on 127.0.0.1:18100\n" + secretsDenied, warning},
		{"ACC-7 warnings and --strict", open, []string{"--strict"}, cli.ExitFailure, "FILE: valid, 1 upstream, listening on 127.0.0.1:18100\n" + secretsDenied, warning + `error: 1 warning with --strict
hint: docs/security.md says what each key protects from
`},
		{"--strict without warnings", good, []string{"--strict"}, 0, "FILE: valid, 1 upstream, listening on 127.0.0.1:18100\n" + secretsDenied, ""},
		{"wrong", wrong, nil, cli.ExitFailure, "", `FILE:2:3: server.lisen: unknown key, did you mean "listen"?
FILE:6:17: upstreams[0].endpoints[0]: expected host:port, got "127.0.0.1"
hint: HINT
`},
		{"a wrong flag", good, []string{"--listen=x"}, cli.ExitFailure, "", `--listen: server.listen: expected host:port, :port or unix:///path, got "x"
hint: HINT
`},
		{"files", withFiles, nil, cli.ExitFailure, "", `FILE:5:20: upstreams[0].tls.ca_file: reading /does/not/exist.pem: no such file or directory
hint: --files=false leaves out the files, for a configuration of another machine; relative names follow the working directory; the tests of the rules were not run
`},
		{"without files", withFiles, []string{"--files=false"}, 0, "FILE: valid, 1 upstream, listening on 127.0.0.1:18100\n" + secretsDenied, ""},
		{"ACC-5 verify", withVerify, nil, 0, "FILE: valid, 1 upstream, listening on 127.0.0.1:18100, 1 verify rule\n" + secretsDenied, ""},
		{"ACC-5 a verify rule that cannot work", strings.Replace(withVerify, "cluster !=", "clustr !=", 1), nil, cli.ExitFailure, "", `FILE:5:37: access.verify[0].require: undefined field "clustr", did you mean "cluster"?: in node.clustr != ""
hint: HINT
`},
		{"tests", withTests, nil, 0, "FILE: valid, 1 upstream, listening on 127.0.0.1:18100, 1 aggregation rule, 2 rule tests passed\n" + secretsDenied, ""},
		{"a test that fails", withFailingTest, nil, cli.ExitFailure, "", `FILE:9:7: aggregation.tests[2] "wrong": expected rule "sidecars", got "otherwise": "sidecars" does not match: node.id.startsWith("sc-") is false: node.id is "gw-1"
hint: 2 of 3 rule tests passed; xdsrelay explain shows the reasons for a decision
`},
		{"without tests", withFailingTest, []string{"--tests=false"}, 0, "FILE: valid, 1 upstream, listening on 127.0.0.1:18100, 1 aggregation rule\n" + secretsDenied, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := write(t, "x.yaml", tt.content)
			want := result{tt.code, strings.ReplaceAll(tt.stdout, "FILE", file), strings.NewReplacer("FILE", file, "HINT", keysHint+"; the tests of the rules were not run").Replace(tt.stderr)}
			got := xdsrelay(t, append([]string{"validate", "--config", file}, tt.args...)...)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateJSON(t *testing.T) {
	for name, tt := range map[string]struct {
		content string
		code    int
		want    validity
	}{
		"good": {good, 0, validity{Valid: true, Errors: []problem{}, Tests: []ruleTest{}}},
		"ACC-7 warnings": {open, 0, validity{Valid: true, Errors: []problem{}, Tests: []ruleTest{}, Warnings: []problem{{
			Line: 3, Column: 17, Path: "admin.listen", Message: strings.TrimSuffix(strings.SplitN(warning, ": ", 4)[3], "\n"),
		}}}},
		"wrong": {wrong, cli.ExitFailure, validity{Tests: []ruleTest{}, Errors: []problem{
			{Line: 2, Column: 3, Path: "server.lisen", Message: `unknown key, did you mean "listen"?`},
			{Line: 6, Column: 17, Path: "upstreams[0].endpoints[0]", Message: `expected host:port, got "127.0.0.1"`},
		}}},
		"files": {withFiles, cli.ExitFailure, validity{Tests: []ruleTest{}, Errors: []problem{
			{Line: 5, Column: 20, Path: "upstreams[0].tls.ca_file", Message: "reading /does/not/exist.pem: no such file or directory"},
		}}},
		"tests": {withFailingTest, cli.ExitFailure, validity{Errors: []problem{}, Tests: []ruleTest{
			{Name: "shares", Line: 7, Column: 7, Path: "aggregation.tests[0]", Passed: true},
			{Name: "others", Line: 8, Column: 7, Path: "aggregation.tests[1]", Passed: true},
			{Name: "wrong", Line: 9, Column: 7, Path: "aggregation.tests[2]", Failure: &problem{
				Line: 9, Column: 7, Path: `aggregation.tests[2] "wrong"`,
				Message: `expected rule "sidecars", got "otherwise": "sidecars" does not match: node.id.startsWith("sc-") is false: node.id is "gw-1"`,
			}},
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, "x.yaml", tt.content)
			tt.want.File = file
			for i := range tt.want.Errors {
				tt.want.Errors[i].File = file
			}
			for i := range tt.want.Warnings {
				tt.want.Warnings[i].File = file
			}
			if tt.want.Warnings == nil {
				tt.want.Warnings = []problem{}
			}
			for i := range tt.want.Tests {
				tt.want.Tests[i].File = file
				if tt.want.Tests[i].Failure != nil {
					tt.want.Tests[i].Failure.File = file
				}
			}
			got := xdsrelay(t, "validate", "--config", file, "-o", "json")
			var v validity
			if err := json.Unmarshal([]byte(got.stdout), &v); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, v); diff != "" || got.code != tt.code || got.stderr != "" {
				t.Errorf("exit code %d, standard error %q (-want +got):\n%s", got.code, got.stderr, diff)
			}
		})
	}
}

// TestValidateTestFiles: a file of tests beside the configuration that is not valid is
// told of as the configuration itself would be.
func TestValidateTestFiles(t *testing.T) {
	file := write(t, "x.yaml", withTests)
	tests := filepath.Join(filepath.Dir(file), "x_test.yaml")
	for text, want := range map[string]result{
		"tests:\n  - {name: a, node: {id: sc-2}, type: cds, rule: sidecars}\n": {
			0, file + ": valid, 1 upstream, listening on 127.0.0.1:18100, 1 aggregation rule, 3 rule tests passed\n" + secretsDenied, "",
		},
		"tests:\n  - {name: a, node: {id: sc-2}, type: cds, rule: otherwise}\n": {
			cli.ExitFailure, "", tests + `:2:5: tests[0] "a": expected rule "otherwise", got "sidecars": "sidecars" matches: node.id.startsWith("sc-") is true: node.id is "sc-2"
hint: 2 of 3 rule tests passed; xdsrelay explain shows the reasons for a decision
`,
		},
		"test: []\n": {cli.ExitFailure, "", tests + `:1:1: test: unknown key, did you mean "tests"?
hint: ` + keysHint + "\n"},
	} {
		if err := os.WriteFile(tests, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := xdsrelay(t, "validate", "--config", file)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// TestValidateRecipes_AGG4 validates the examples as their first lines say.
func TestValidateRecipes_AGG4(t *testing.T) {
	files, err := filepath.Glob("../../examples/control-planes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		args := []string{"validate", "--config", file}
		written := "xdsrelay validate --config examples/control-planes/" + filepath.Base(file)
		if strings.Contains(string(content), "_file: ") {
			args = append(args, "--files=false") // their TLS files are on no machine
			written += " --files=false"
		}
		if !strings.Contains(string(content), "#   "+written+"\n") {
			t.Errorf("%s does not say how it is tried: %s", file, written)
		}
		// Some listen where others can reach them, so that they can be tried.
		got := xdsrelay(t, args...)
		for line := range strings.Lines(got.stderr) {
			if got.code != 0 || !strings.HasPrefix(line, "warning: "+file) {
				t.Errorf("%s: exit code %d: %s", file, got.code, line)
			}
		}
	}
}

// secretsDenied is what validate says of a configuration without access rules (ACC-4).
const secretsDenied = "secrets (sds) are denied to all clients: no rule of access.rules has secrets: true\n"

func TestValidate_ACC2_ACC4(t *testing.T) {
	allowing := good + `
access:
  rules: [{name: own, match: type == sds && name.startsWith(node.cluster), effect: allow, secrets: true}]
  tests:
    - {name: a secret of its own, node: {cluster: web}, type: sds, resource: web/tls, effect: allow, rule: own}
    - {name: a foreign secret, node: {cluster: web}, type: sds, resource: shop/tls, effect: deny, rule: otherwise}
`
	file := write(t, "allowing.yaml", allowing)
	r := xdsrelay(t, "validate", "--config", file)
	if want := file + ": valid, 1 upstream, listening on 127.0.0.1:18100, 1 access rule, 2 rule tests passed\n"; r.code != 0 || r.stdout != want {
		t.Errorf("got %d, %q %q, want %q", r.code, r.stdout, r.stderr, want)
	}
	// Tests of clients of a listener with rules of its own go by these.
	listener := strings.Replace(allowing, "\naccess:\n", `
server: {listeners: [{name: l, listen: 127.0.0.1:18102, access: {verify: [{name: v, require: node.id != ""}]}}]}
access:
`, 1) + "    - {name: by the listener, listener: l, type: sds, resource: web/tls, effect: deny, rule: otherwise}\n"
	file = write(t, "listener.yaml", listener)
	r = xdsrelay(t, "validate", "--config", file)
	if want := file + ": valid, 1 upstream, listening on 127.0.0.1:18100, 1 access rule, 1 verify rule, 3 rule tests passed\n" +
		"secrets (sds) are denied to clients of the listeners l: none of their access rules has secrets: true\n"; r.code != 0 || r.stdout != want {
		t.Errorf("got %d, %q %q, want %q", r.code, r.stdout, r.stderr, want)
	}
	r = xdsrelay(t, "validate", "--config", write(t, "wrong.yaml", strings.Replace(allowing, "effect: deny", "effect: allow", 1)))
	if want := `wrong.yaml:8:7: access.tests[1] "a foreign secret": expected allow, got deny by "otherwise"`; r.code != 1 || !strings.Contains(r.stderr, want) {
		t.Errorf("got %d, %q, want %q", r.code, r.stderr, want)
	}
	r = xdsrelay(t, "validate", "--config", write(t, "broken.yaml", strings.Replace(allowing, "name.startsWith", "nome.startsWith", 1)))
	if want := "access.rules[0].match"; r.code != 1 || !strings.Contains(r.stderr, want) || !strings.Contains(r.stderr, ":5:45:") {
		t.Errorf("got %d, %q, want %q", r.code, r.stderr, want)
	}
}

// What commands read in the environment in place of a flag is no key of a relay.
func TestVariablesOfCommands(t *testing.T) {
	t.Setenv("XDSRELAY_ADMIN_TOKEN_FILE", "token")
	t.Setenv("XDSRELAY_ADMIN", "127.0.0.1:1")
	file, node := write(t, "x.yaml", good), write(t, "node.yaml", "id: x\n")
	for _, args := range [][]string{{"validate", "--config", file}, {"explain", "--config", file, "--node", node}} {
		if got := xdsrelay(t, args...); got.code != 0 || got.stderr != "" {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

// A configuration comes from an argument, several, the environment or standard input.
func TestValidateSources(t *testing.T) {
	file, bad := write(t, "x.yaml", good), write(t, "bad.yaml", wrong)
	valid := ": valid, 1 upstream, listening on 127.0.0.1:18100\n" + secretsDenied
	if got := xdsrelay(t, "validate", file, file); got.code != 0 || got.stdout != file+valid+file+valid {
		t.Errorf("two files: %+v", got)
	}
	got := xdsrelay(t, "validate", "missing.yaml", bad, file)
	if got.code != cli.ExitUsage || got.stdout != file+valid || !strings.Contains(got.stderr, bad+":2:3: ") || !strings.Contains(got.stderr, "open missing.yaml") {
		t.Errorf("one of three: %+v", got)
	}
	t.Setenv("XDSRELAY_CONFIG", file)
	if got := xdsrelay(t, "validate"); got.code != 0 || got.stdout != file+valid {
		t.Errorf("the variable: %+v", got)
	}
	for text, want := range map[string]result{
		good:  {0, "-" + valid, ""},
		wrong: {cli.ExitFailure, "", "stdin:2:3: server.lisen: "},
	} {
		var stdout, stderr bytes.Buffer
		root := rootCommand()
		root.SetIn(strings.NewReader(text))
		code := cli.Run(t.Context(), root, []string{"validate", "-"}, &stdout, &stderr)
		if code != want.code || stdout.String() != want.stdout || !strings.HasPrefix(stderr.String(), want.stderr) {
			t.Errorf("standard input: %d, %s, %s", code, &stdout, &stderr)
		}
	}
}
