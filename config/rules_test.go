package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// TestAGG1_rulesCompileOnce: what was compiled to check it is what is used, unless
// somebody changed the configuration meanwhile.
func TestAGG1_rulesCompileOnce(t *testing.T) {
	c := mustParse(t, withRules)
	first, err := c.Rules()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.Rules(); err != nil || again != first {
		t.Errorf("compiled again: %v", err)
	}
	copied := *c
	copied.Aggregation.Rules = slices.Clone(c.Aggregation.Rules)
	copied.Aggregation.Rules[0].Match = "type == eds"
	if changed, err := copied.Rules(); err != nil || changed == first {
		t.Errorf("not compiled again: %v", err)
	}
	copied = *c
	copied.Aggregation.Otherwise = Share
	if changed, err := copied.Rules(); err != nil || changed == first || changed.Policy() != rules.Share {
		t.Errorf("not compiled again: %v", err)
	}
}

// TestAGG1_rulesOfAConfiguration: everything that a rule says arrives.
func TestAGG1_rulesOfAConfiguration(t *testing.T) {
	c := mustParse(t, minimal+`  - {name: edge, authorities: [edge], endpoints: ["127.0.0.1:5679"]}
aggregation:
  rules:
    - name: all
      match: upstream == "primary"
      scope: [peer.spiffe]
      upstream: edge
      node:
        id: '"relay"'
        cluster: upstream
        locality: {region: '"r"', zone: '"z"', sub_zone: '"s"'}
        metadata: {}
`)
	set, err := c.Rules()
	if err != nil {
		t.Fatal(err)
	}
	d, _, err := set.Subject(nil, keyer.Peer{SPIFFE: "spiffe://td/a"}).Decide("type.googleapis.com/envoy.config.cluster.v3.Cluster")
	if err != nil || d.Failed != nil {
		t.Fatal(err, d.Failed)
	}
	l := d.Node.GetLocality()
	got := []any{d.Rule, d.Parts[0], d.Upstream, d.Node.GetId(), d.Node.GetCluster(), l.GetRegion(), l.GetZone(), l.GetSubZone(), len(d.Node.GetMetadata().GetFields())}
	if want := []any{"all", "spiffe://td/a", "edge", "relay", "primary", "r", "z", "s", 0}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestAGG4_rulesByHand checks what no file can hold, and errors without a file.
func TestAGG4_rulesByHand(t *testing.T) {
	c := mustParse(t, minimal)
	c.from, c.scalars = nil, nil
	c.Aggregation.Rules = []Rule{
		{Name: "a", Match: "type ==\ncdss", Node: RuleNode{Metadata: Expressions{"a.b": "node.x"}}},
		{Name: "b", Match: "type == eds", Scope: []string{"1 +"}, Upstream: "edge"},
	}
	want := []string{
		`aggregation.rules[0].match: unknown variable "cdss", did you mean "cds"?: in cdss`,
		`aggregation.rules[0].node.metadata."a.b": undefined field "x"`,
		"aggregation.rules[1].scope[0]: the expression ends too early: in 1 +",
	}
	set, err := c.Rules()
	if set != nil || err == nil {
		t.Fatalf("%v, %v", set, err)
	}
	invalid := c.Validate()
	if invalid == nil {
		t.Fatal("no error")
	}
	for _, want := range want {
		if !strings.Contains(err.Error(), want) || !strings.Contains(invalid.Error(), want) {
			t.Errorf("no %q in:\n%v\nor:\n%v", want, err, invalid)
		}
	}
	for _, want := range []string{
		"aggregation.rules[0].scope: missing: expected a list of expressions",
		`aggregation.rules[1].upstream: unknown upstream "edge", expected one of: primary`,
	} {
		if !strings.Contains(invalid.Error(), want) {
			t.Errorf("no %q in:\n%v", want, invalid)
		}
	}
	c.Aggregation.Rules = nil
	c.Aggregation.Otherwise = "perhaps"
	if _, err := c.Rules(); err == nil || !strings.Contains(err.Error(), "aggregation.otherwise: ") {
		t.Errorf("error %v", err)
	}
}

// TestTooManyRules: the first that is too many has a place, too.
func TestTooManyRules(t *testing.T) {
	var b strings.Builder
	b.WriteString(minimal + "aggregation:\n  rules:\n")
	for range 5000 {
		b.WriteString("    - {name: a, match: type == cds, scope: []}\n")
	}
	_, err := Parse("f", []byte(b.String()))
	if err == nil || !strings.HasPrefix(err.Error(), "f:1008:7: aggregation.rules[1000]: there are 5000 rules, at most ") {
		t.Errorf("error %.300v", err)
	}
}

// TestYAMLKeepsEmptyOnes: an empty map and an empty list mean something else than none.
func TestYAMLKeepsEmptyOnes(t *testing.T) {
	c := mustParse(t, minimal+`
aggregation:
  rules:
    - {name: a, match: type == cds, scope: [], node: {metadata: {}}}
  tests:
    - {name: none, type: cds, scope: []}
`)
	data, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again := mustParse(t, string(data))
	if r := again.Aggregation.Rules[0]; r.Scope == nil || r.Node.Metadata == nil {
		t.Errorf("%+v of\n%s", r, data)
	}
	if s := again.Aggregation.Tests[0].Scope; s == nil {
		t.Errorf("no scope is expected in\n%s", data)
	}
}

func TestExcerpt(t *testing.T) {
	long := strings.Repeat("a", 50) + "X" + strings.Repeat("b", 50)
	for _, tt := range []struct {
		expression   string
		line, column int
		want         string
	}{
		{"a == b", 1, 1, "a == b"},
		{"a ==\n  b ==\nc", 2, 3, "b =="},
		{"a ==\n\n", 3, 1, "a =="},
		{"a", 9, 9, "a"},
		{long, 1, 51, "…" + strings.Repeat("a", 30) + "X" + strings.Repeat("b", 29) + "…"},
		{long, 1, 1, strings.Repeat("a", 50) + "X" + strings.Repeat("b", 9) + "…"},
		{long, 1, 101, "…" + strings.Repeat("a", 9) + "X" + strings.Repeat("b", 50)},
	} {
		line, column := inside(tt.expression, tt.line, tt.column)
		if got := excerpt(tt.expression, line, column); got != tt.want {
			t.Errorf("%q at %d:%d: %q, want %q", tt.expression, tt.line, tt.column, got, tt.want)
		}
	}
}
