package config_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/keyer"
)

const rulesGuide = "../docs/rules.md"

// TestRulesGuide_AGG1_AGG2_AGG3 executes every example of docs/rules.md.
func TestRulesGuide_AGG1_AGG2_AGG3(t *testing.T) {
	for _, e := range ruleDocument(t, rulesGuide) {
		t.Run(exampleName(e), func(t *testing.T) { e.check(t) })
	}
}

// TestRulesOfExamples_AGG1 runs the tests in examples/rules.yaml.
func TestRulesOfExamples_AGG1(t *testing.T) {
	c, err := config.Load("../examples/rules.yaml", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	passTests(t, c, 7)
}

// TestRulesGuideExpressions_AGG2 evaluates the expressions of docs/rules.md for the client that
// stands before them.
func TestRulesGuideExpressions_AGG2(t *testing.T) {
	document := readDocument(t, rulesGuide)
	_, block, _ := strings.Cut(document, "```yaml\nnode:")
	block, _, _ = strings.Cut(block, "```")
	var client struct {
		Node map[string]any
		Peer keyer.Peer
	}
	if err := yaml.Unmarshal([]byte("node:"+block), &client); err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(client.Node)
	if err != nil {
		t.Fatal(err)
	}
	node := new(corev3.Node)
	if err := protojson.Unmarshal(encoded, node); err != nil {
		t.Fatal(err)
	}
	rows := tableAfter(document, "| expression | gives |")
	if len(rows) < 20 {
		t.Fatalf("%d expressions", len(rows))
	}
	for _, row := range rows {
		e := ruleExample{ours: scopeOf(strings.Trim(row[0], "`"))}
		c := ruleClient{node: node, peer: client.Peer, typ: "type.googleapis.com/envoy.config.listener.v3.Listener"}
		got, _, d := c.ask(t, e.set(t))
		if want, fails := strings.CutPrefix(row[1], "fails: `"); fails {
			if d.Failed == nil || !strings.HasSuffix(d.Failed.Error(), ": "+strings.TrimSuffix(want, "`")) {
				t.Errorf("AGG-2: %s gives %s, %v, want %s", row[0], got.scope, d.Failed, want)
			}
			continue
		}
		if want := compact(t, "["+strings.Trim(row[1], "`")+"]"); got.scope != want || d.Failed != nil {
			t.Errorf("%s gives %s, want %s (%v)", row[0], got.scope, want, d.Failed)
		}
	}
}

// scopeOf is a configuration with one rule, whose scope is one expression.
func scopeOf(expression string) string {
	quoted := "'" + strings.ReplaceAll(expression, "'", "''") + "'"
	return "aggregation:\n  rules:\n    - name: one\n      match: 'true'\n      scope: [" + quoted + "]\n"
}

// TestRulesGuideRefused_AGG4 holds what docs/rules.md says that is refused when rules are
// loaded (AGG-4).
func TestRulesGuideRefused_AGG4(t *testing.T) {
	rows := tableAfter(readDocument(t, rulesGuide), "| expression | message |")
	if len(rows) < 5 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		_, err := config.Parse("xdsrelay.yaml", []byte(anUpstream+scopeOf(strings.Trim(row[0], "`"))))
		if want := strings.Trim(row[1], "`"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", row[0], err, want)
		}
	}
}

// TestRulesGuideYAML_AGG4 holds what docs/rules.md says of YAML: what must not be written so is
// an error (AGG-4), and what it says instead is not.
func TestRulesGuideYAML_AGG4(t *testing.T) {
	rows := tableAfter(readDocument(t, rulesGuide), "| wrong | reason | right |")
	if len(rows) < 5 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		for column, valid := range map[int]bool{0: false, 2: true} {
			line := strings.Trim(row[column], "`")
			other := "scope: []"
			if strings.HasPrefix(line, "scope") {
				other = "match: 'true'"
			}
			text := anUpstream +
				"aggregation:\n  rules:\n    - name: one\n      " + other + "\n      " + line + "\n"
			if _, err := config.Parse("xdsrelay.yaml", []byte(text)); (err == nil) != valid {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

func readDocument(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// tableAfter gives the cells of the table that begins like that, row by row.
func tableAfter(document, beginning string) [][]string {
	_, table, _ := strings.Cut(document, "\n"+beginning)
	var rows [][]string
	for i, line := range strings.Split(table, "\n") {
		switch {
		case i < 2: // the rest of the heading, and the line below it
		case strings.HasPrefix(line, "|"):
			rows = append(rows, tableCells(line))
		default:
			return rows
		}
	}
	return rows
}

// TestRuleDocumentsNameMetrics holds the metrics that the documents name against
// docs/metrics.md.
func TestRuleDocumentsNameMetrics(t *testing.T) {
	known := readDocument(t, "../docs/metrics.md")
	metric := regexp.MustCompile(`xdsrelay_[a-z_]+`)
	for _, file := range []string{rulesGuide, migrating} {
		for _, name := range metric.FindAllString(readDocument(t, file), -1) {
			if !strings.Contains(known, "| `"+name+"` |") {
				t.Errorf("%s names %s, which is no metric", file, name)
			}
		}
	}
}
