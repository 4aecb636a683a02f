package relay

import (
	"slices"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
)

// AGG-3: a scope is shown as a node of the relay's own, whoever came first: with an id for
// each scope, and what the scope names of its clients. An isolated client is shown as it is.
func TestNodes_AGG3(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1"})
	cfg := configOf(upstreamAt("a", a.address))
	cfg.Node.ID, cfg.Aggregation.Otherwise = "relay", config.Isolate
	cfg.Aggregation.Rules = []config.Rule{
		{Name: "ids", Match: `node.id == "s3"`, Scope: []string{}, Node: config.RuleNode{ID: `"known"`}},
		{Name: "shared", Match: `node.id.startsWith("s")`, Scope: []string{`node.id == "s2"`}},
	}
	r := run(t, cfg)
	shown := func(node string) string {
		t.Helper()
		c := r.join(node)
		c.holds(contents{"x": "1"})
		defer c.lost()
		return a.opens().Node
	}
	one, two, three, alone := shown("s1"), shown("s2"), shown("s3"), shown("alone")
	if !strings.HasPrefix(one, "relay~"+thisReplica()+"~") || !strings.HasPrefix(two, "relay~") || one == two {
		t.Errorf("AGG-3: the nodes of two scopes are %q and %q", one, two)
	}
	if three != "known" || alone != "alone" {
		t.Errorf("AGG-3: the nodes are %q and %q", three, alone)
	}
	// Another node of the relay's own is shown at once, in the scopes that show it.
	r.reload(func(c *config.Config) { c.Node.ID = "another" })
	again := []string{a.opens().Node, a.opens().Node}
	want := []string{strings.Replace(one, "relay", "another", 1), strings.Replace(two, "relay", "another", 1)}
	slices.Sort(again)
	if slices.Sort(want); !slices.Equal(again, want) || a.more() > 0 {
		t.Errorf("AGG-3: after a reload the nodes are %q, want %q, and %d more", again, want, a.more())
	}
	r.check()
}

// The client whose node a session shows may belong elsewhere by other rules: those that
// stay are asked for under a node of their own.
func TestReload_firstNode_AGG2(t *testing.T) {
	const isFirst = `node.id == "first"`
	first := config.RuleNode{First: true}
	all := config.Rule{Name: "all", Match: "true", Scope: []string{}, Node: first}
	canaries := config.Rule{Name: "canaries", Match: isFirst, Scope: []string{}, Node: first}
	for _, tt := range []struct {
		name          string
		before, after []config.Rule
	}{
		{"a rule before", []config.Rule{all}, []config.Rule{canaries, all}},
		{"another match", []config.Rule{all}, []config.Rule{{Name: "all", Match: "!(" + isFirst + ")", Scope: []string{}, Node: first}}},
		{
			"another scope",
			[]config.Rule{{Name: "all", Match: "true", Scope: []string{`node.id == "" ? "a" : "b"`}, Node: first}},
			[]config.Rule{{Name: "all", Match: "true", Scope: []string{isFirst + ` ? "a" : "b"`}, Node: first}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newPlaneServer(t, contents{"x": "1"})
			cfg := configOf(upstreamAt("a", a.address))
			cfg.Aggregation.Rules, cfg.Aggregation.Otherwise = tt.before, config.Isolate
			r := run(t, cfg)
			for _, node := range []string{"first", "second"} {
				c := r.join(node)
				c.holds(contents{"x": "1"})
				defer func() {
					if got := c.lost(); got != "" {
						t.Errorf("RES-11: %s lost %s", node, got)
					}
				}()
			}
			if opened := a.opens(); opened.Node != "first" || a.more() > 0 {
				t.Fatalf("the node is %q, and of %d more", opened.Node, a.more())
			}
			r.reload(func(c *config.Config) { c.Aggregation.Rules = tt.after })
			shown := []string{a.opens().Node, a.opens().Node}
			if slices.Sort(shown); !slices.Equal(shown, []string{"first", "second"}) {
				t.Errorf("AGG-2: the nodes are %q", shown)
			}
			r.check()
		})
	}
}
