package relay

import (
	"slices"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
)

// The client whose node a session shows may belong elsewhere by other rules: those that
// stay are asked for under a node of their own.
func TestReload_firstNode_AGG2(t *testing.T) {
	const isFirst = `node.id == "first"`
	all := config.Rule{Name: "all", Match: "true", Scope: []string{}}
	canaries := config.Rule{Name: "canaries", Match: isFirst, Scope: []string{}}
	for _, tt := range []struct {
		name          string
		before, after []config.Rule
	}{
		{"a rule before", []config.Rule{all}, []config.Rule{canaries, all}},
		{"a rule before otherwise", nil, []config.Rule{canaries}},
		{"another match", []config.Rule{all}, []config.Rule{{Name: "all", Match: "!(" + isFirst + ")", Scope: []string{}}}},
		{
			"another scope",
			[]config.Rule{{Name: "all", Match: "true", Scope: []string{`node.id == "" ? "a" : "b"`}}},
			[]config.Rule{{Name: "all", Match: "true", Scope: []string{isFirst + ` ? "a" : "b"`}}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newPlaneServer(t, contents{"x": "1"})
			cfg := configOf(upstreamAt("a", a.address))
			cfg.Aggregation.Rules, cfg.Aggregation.Otherwise = tt.before, config.Share
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
			if opened := <-a.opened; opened.Node.GetId() != "first" || len(a.opened) > 0 {
				t.Fatalf("the node is %q, and of %d more", opened.Node.GetId(), len(a.opened))
			}
			r.reload(func(c *config.Config) { c.Aggregation.Rules = tt.after })
			shown := []string{(<-a.opened).Node.GetId(), (<-a.opened).Node.GetId()}
			if slices.Sort(shown); !slices.Equal(shown, []string{"first", "second"}) {
				t.Errorf("AGG-2: the nodes are %q", shown)
			}
			r.check()
		})
	}
}
