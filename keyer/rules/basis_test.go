package rules_test

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// AGG-2, AGG-3: a scope has another basis exactly if a client may be in it by other rules,
// or another node be built for it.
func TestAGG2Basis(t *testing.T) {
	of := func(upstream string, list ...rules.Rule) string {
		set := compile(t, rules.Config{Upstream: upstream, Otherwise: rules.Share, Rules: list})
		d, _, err := set.Subject(sidecar(t), keyer.Peer{}).Decide(clusterURL)
		if err != nil || d.Failed != nil {
			t.Fatalf("Decide = %+v, %v", d, err)
		}
		return d.Basis
	}
	const nobody, other, own = `node.id == "a"`, `node.id == "b"`, `node.cluster == "web"`
	r := rules.Rule{Name: "r", Match: own, Scope: []string{"node.cluster"}}
	built := func(n rules.Node) rules.Rule { return rules.Rule{Name: "r", Match: own, Scope: r.Scope, Node: n} }
	before := func(match string) rules.Rule {
		return rules.Rule{Name: "before", Match: match, Scope: []string{"node.id"}}
	}
	for name, equal := range map[string][2]string{
		"what follows":           {of("a", r), of("a", r, rules.Rule{Name: "last", Match: "true"})},
		"what is switched off":   {of("a", r), of("a", before("false"), r)},
		"the scope of others":    {of("a", before(nobody), r), of("a", rules.Rule{Name: "before", Match: nobody}, r)},
		"a default unlooked at":  {of("a", r), of("b", r)},
		"the upstream of a rule": {of("a", r), of("a", rules.Rule{Name: "r", Match: own, Scope: r.Scope, Upstream: "b"})},
	} {
		if equal[0] != equal[1] {
			t.Errorf("AGG-2: %s changes the basis", name)
		}
	}
	seen := map[string]int{}
	for i, got := range []string{
		of("a"),
		of("a", before(nobody)),
		of("a", r),
		of("a", before(nobody), r),
		of("a", before(other), r),
		of("a", rules.Rule{Name: "r", Match: `node.cluster != "api"`, Scope: r.Scope}),
		of("a", rules.Rule{Name: "r", Match: own, Scope: []string{"node.cluster", "node.id"}}),
		of("a", rules.Rule{Name: "r", Match: own, Scope: []string{"upstream"}}),
		of("b", rules.Rule{Name: "r", Match: own, Scope: []string{"upstream"}}),
		of("a", built(rules.Node{ID: "node.cluster"})),
		of("a", built(rules.Node{Cluster: "node.cluster"})),
		of("a", built(rules.Node{ID: "node.id"})),
		of("a", built(rules.Node{ID: "upstream"})),
		of("b", built(rules.Node{ID: "upstream"})),
		of("a", built(rules.Node{Metadata: map[string]string{}})),
		of("a", built(rules.Node{Metadata: map[string]string{"a": "node.cluster"}})),
		of("a", built(rules.Node{Metadata: map[string]string{"b": "node.cluster"}})),
	} {
		if other, ok := seen[got]; ok {
			t.Errorf("AGG-2: %d and %d have the basis %q", other, i, got)
		}
		seen[got] = i
	}
}
