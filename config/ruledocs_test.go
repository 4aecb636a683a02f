package config_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// ruleExample is an example in a document: a configuration, what xds-relay has for it if
// anything, and a table of clients with what becomes of them.
type ruleExample struct {
	heading string
	line    int // of the table
	ours    string
	theirs  string
	columns []string
	clients []ruleClient
}

// ruleClient is a row: what a client asks for, and what the document says becomes of it.
type ruleClient struct {
	cells map[string]string
	node  *corev3.Node
	peer  keyer.Peer
	typ   string
	name  string // "" where the row has none
}

// ruleDocument reads the examples of a document: each table that begins with a column
// "client" goes with the YAML blocks before it. Blocks of YAML that no table follows are
// an error: nothing in these documents is untested.
func ruleDocument(t *testing.T, file string) []ruleExample {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var (
		found    []ruleExample
		next     ruleExample
		block    *strings.Builder
		language string
	)
	for i, line := range strings.Split(string(data), "\n") {
		switch fence := strings.HasPrefix(line, "```"); {
		case block != nil && fence:
			if language == "yaml" && !next.take(block.String()) {
				t.Errorf("%s:%d: no table of clients before another block", file, i+1)
			}
			block = nil
		case block != nil:
			block.WriteString(line + "\n")
		case fence:
			block, language = new(strings.Builder), strings.TrimPrefix(line, "```")
		case strings.HasPrefix(line, "#"):
			if next.ours != "" || next.theirs != "" {
				t.Errorf("%s: %q has an example without a table of clients", file, next.heading)
			}
			next = ruleExample{heading: strings.TrimLeft(line, "# ")}
		case strings.HasPrefix(line, "| client |"):
			next.columns, next.line = tableCells(line), i+1
			next.clients = nil
		case strings.HasPrefix(line, "|---"):
		case strings.HasPrefix(line, "|") && next.columns != nil:
			next.clients = append(next.clients, readClient(t, file, i+1, next.columns, tableCells(line)))
		case next.clients != nil:
			found = append(found, next)
			next = ruleExample{heading: next.heading}
		}
	}
	if next.ours != "" || next.theirs != "" {
		t.Errorf("%s ends with an example without a table of clients", file)
	}
	return found
}

// take files a block by what is in it, and reports whether there is no other of its kind
// yet.
func (e *ruleExample) take(block string) bool {
	side := &e.ours
	switch {
	case strings.HasPrefix(block, "fragments:"):
		side = &e.theirs
	case strings.HasPrefix(block, "node:"):
		return true // the client of expressions
	}
	free := *side == ""
	*side = block
	return free
}

func tableCells(line string) []string {
	const bar = "\x00"
	line = strings.ReplaceAll(strings.TrimSpace(line), `\|`, bar)
	cells := strings.Split(strings.Trim(line, "|"), "|")
	for i, cell := range cells {
		cells[i] = strings.ReplaceAll(strings.TrimSpace(cell), bar, "|")
	}
	return cells
}

func readClient(t *testing.T, file string, line int, columns, cells []string) ruleClient {
	t.Helper()
	if len(cells) != len(columns) {
		t.Fatalf("%s:%d: %d cells for %d columns", file, line, len(cells), len(columns))
	}
	c := ruleClient{cells: make(map[string]string), node: new(corev3.Node)}
	for i, column := range columns {
		if cells[i] != "–" {
			c.cells[column] = strings.Trim(cells[i], "`")
		}
	}
	if c.cells["client"] == "" {
		c.node = nil
	} else {
		readFlow(t, file, line, c.cells["client"], c.node)
	}
	if peer := c.cells["peer"]; peer != "" {
		if err := yaml.Unmarshal([]byte(peer), &c.peer); err != nil {
			t.Fatalf("%s:%d: %v", file, line, err)
		}
	}
	c.typ, c.name = c.cells["type"], c.cells["name"]
	if url, ok := keyer.TypeURL(c.typ); ok {
		c.typ = url
	}
	return c
}

// readFlow reads a node as it stands in a table.
func readFlow(t *testing.T, file string, line int, text string, node *corev3.Node) {
	t.Helper()
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatalf("%s:%d: %v", file, line, err)
	}
	encoded, err := json.Marshal(fields)
	if err == nil {
		err = protojson.Unmarshal(encoded, node)
	}
	if err != nil {
		t.Fatalf("%s:%d: %v", file, line, err)
	}
}

// anUpstream is what most examples leave out of a configuration.
const anUpstream = "upstreams: [{name: primary, default: true, endpoints: [127.0.0.1:5678]}]\n"

// set compiles the example's own side, and runs the tests in it.
func (e *ruleExample) set(t *testing.T) *rules.Set {
	t.Helper()
	text := e.ours
	if !strings.Contains(text, "upstreams:") {
		text += anUpstream
	}
	c, err := config.Parse(e.heading, []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	passTests(t, c, len(c.Aggregation.Tests))
	set, err := c.Rules()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// passTests runs the configuration's tests of its rules, of which there are to be at
// least so many.
func passTests(t *testing.T, c *config.Config, least int) {
	t.Helper()
	results, err := c.TestRules()
	if err != nil {
		t.Fatal(err)
	}
	if len(results) < least {
		t.Errorf("%d tests, want at least %d", len(results), least)
	}
	for _, r := range results {
		if r.Failure != nil {
			t.Error(r.Failure)
		}
	}
}

// outcome is what became of a client, as the tables have it.
type outcome struct{ rule, scope string }

// ask gives what becomes of the client, and the identity of what it is served: equal for
// two clients that are served the same thing.
func (c *ruleClient) ask(t *testing.T, set *rules.Set) (got outcome, identity string, d rules.Decision) {
	t.Helper()
	subject := set.Subject(c.node, c.peer)
	d, byName, err := subject.Decide(c.typ)
	if byName {
		name := c.name
		if name == "" {
			name = "*"
		}
		d, err = subject.DecideName(c.typ, name)
	}
	if err != nil {
		return outcome{scope: "refused"}, "", d
	}
	got = outcome{rule: d.Rule}
	switch {
	case d.Failed != nil:
		got.rule += " fails"
		got.scope = "isolated"
	case d.Rule == rules.Otherwise:
		got.scope, _, _ = strings.Cut(d.Scope, "-")
	default:
		parts, err := json.Marshal(d.Parts)
		if err != nil {
			t.Fatal(err)
		}
		got.scope = string(parts)
		if d.Parts == nil {
			got.scope = "[]"
		}
	}
	identity = d.Scope + "\n" + c.typ
	// A name is an entry of its own in its scope. Where the scope is worked out from the
	// name, that is what a key of xds-relay is worked out from too.
	if !byName {
		identity += "\n" + c.name
	}
	return got, identity, d
}

// check runs the clients through the rules.
func (e *ruleExample) check(t *testing.T) (identities []string) {
	t.Helper()
	set := e.set(t)
	for _, c := range e.clients {
		got, identity, d := c.ask(t, set)
		identities = append(identities, identity)
		want := outcome{rule: c.cells["rule"], scope: compact(t, c.cells["scope"])}
		if got != want {
			t.Errorf("%s %s %s: rule %q, scope %s, want %q, %s (failed: %v)", c.cells["client"], c.cells["type"], c.name,
				got.rule, got.scope, want.rule, want.scope, d.Failed)
		}
		if slices.Contains(e.columns, "upstream") && d.Upstream != c.cells["upstream"] {
			t.Errorf("%s: upstream %q, want %q", c.cells["client"], d.Upstream, c.cells["upstream"])
		}
		if slices.Contains(e.columns, "node upstream") {
			want := new(corev3.Node)
			readFlow(t, e.heading, e.line, c.cells["node upstream"], want)
			if diff := cmp.Diff(want, rules.UpstreamNode(&d, &corev3.Node{Id: "relay", Cluster: "relays"}, "relay~1"), protocmp.Transform()); diff != "" {
				t.Errorf("%s: node upstream (-want +got):\n%s", c.cells["client"], diff)
			}
		}
	}
	return identities
}

// compact takes the spaces out of a list of parts, and leaves words.
func compact(t *testing.T, scope string) string {
	t.Helper()
	if !strings.HasPrefix(scope, "[") {
		return scope
	}
	var parts []any
	if err := json.Unmarshal([]byte(scope), &parts); err != nil {
		t.Fatalf("scope %s: %v", scope, err)
	}
	b, err := json.Marshal(parts)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func exampleName(e ruleExample) string { return fmt.Sprintf("%s:%d", e.heading, e.line) }

// The rules of docs/security.md give a client the secrets of its own cluster, and those of nobody else in any form.
func TestSecurityDocument_ACC4(t *testing.T) {
	_, block, found := strings.Cut(readDocument(t, "../docs/security.md"), "```yaml\naccess:\n  otherwise: deny\n")
	if !found {
		t.Fatal("docs/security.md has no rules of access")
	}
	block, _, _ = strings.Cut(block, "```")
	var text strings.Builder
	text.WriteString("upstreams: [{name: a, default: true, endpoints: [\"127.0.0.1:1\"]}]\naccess:\n  otherwise: deny\n" + block + "  tests:\n")
	for i, url := range []string{
		"sds", "type.googleapis.com/envoy.api.v2.auth.Secret", "example.org/envoy.api.v2.auth.Secret",
		"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.SecretCollection", "x/envoy.extensions.transport_sockets.tls.v3.Secret",
	} {
		for resource, rule := range map[string]string{"secrets/shop/tls": "own-secrets, effect: allow", "secrets/web/tls": "no-other-secrets, effect: deny", "'*'": "no-other-secrets, effect: deny"} {
			fmt.Fprintf(&text, "    - {name: %d %s, node: {cluster: shop}, type: %s, resource: %s, rule: %s}\n", i, strings.Trim(resource, "'"), url, resource, rule)
		}
	}
	text.WriteString("    - {name: a cluster, node: {cluster: shop}, type: cds, resource: a, rule: everything-else, effect: allow}\n")
	file := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	passTests(t, c, 16)
	for _, w := range c.Warnings() {
		if strings.Contains(w.Error(), "gives no secrets") {
			t.Error(w)
		}
	}
}
