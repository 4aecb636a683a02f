package rules_test

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

const routeURL = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"

func compile(t testing.TB, cfg rules.Config) *rules.Set {
	t.Helper()
	set, problems := rules.Compile(cfg)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return set
}

// sidecar is a client as in the guide.
func sidecar(t testing.TB) *corev3.Node {
	t.Helper()
	metadata, err := structpb.NewStruct(map[string]any{"role": "sidecar", "shard": 3, "labels": map[string]any{"app": "web"}, "ports": []any{80, 443}})
	if err != nil {
		t.Fatal(err)
	}
	return &corev3.Node{
		Id: "gw-web-17", Cluster: "web", Metadata: metadata,
		Locality: &corev3.Locality{Region: "eu-1", Zone: "eu-1a"},
	}
}

func TestDecide(t *testing.T) {
	peer := keyer.Peer{SPIFFE: "spiffe://td/web", DNS: []string{"web.example"}}
	for _, tc := range []struct {
		name  string
		match string
		scope []string
		want  string
	}{
		{"AGG-1 metadata, cluster and locality", `node.metadata.role == "sidecar" && type in [lds, cds]`, []string{"node.cluster", "node.locality.zone"}, `r["web","eu-1a"]`},
		{"AGG-1 no parts", `node.id.matches("^gw-")`, nil, `r[]`},
		{"AGG-1 regular expression", `true`, []string{`regex.replace(node.id, "-[0-9]+$", "")`}, `r["gw-web"]`},
		{"AGG-1 number of metadata", `node.metadata.shard == 3`, []string{"node.metadata.shard", "node.metadata.ports[0]"}, `r[3,80]`},
		{"AGG-1 identity", `peer.spiffe.startsWith("spiffe://td/")`, []string{"peer.spiffe", "peer.dns"}, `r["spiffe://td/web",["web.example"]]`},
		{"AGG-1 whole identity", `true`, []string{"peer"}, `r[xdsrelay.Peer{"spiffe://td/web","",["web.example"],[],[],[]}]`},
		{"AGG-1 whole locality", `true`, []string{"node.locality"}, `r[envoy.config.core.v3.Locality{region:"eu-1",zone:"eu-1a"}]`},
		{"AGG-1 metadata as a map", `true`, []string{"node.metadata.labels"}, `r[{"app":"web"}]`},
		{"AGG-1 type and upstream", `upstream == "primary"`, []string{"type == cds", "upstream", "node.cluster"}, `r[true,"primary","web"]`},
		{"AGG-1 optional", `true`, []string{`node.metadata[?"missing"].orValue("none")`, `node.metadata[?"missing"]`}, `r["none",optional.none()]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			set := compile(t, rules.Config{Upstream: "primary", Rules: []rules.Rule{{Name: "r", Match: tc.match, Scope: tc.scope}}})
			d, byName, err := set.Subject(sidecar(t), peer).Decide(clusterURL)
			if err != nil || byName || d.Failed != nil {
				t.Fatalf("Decide = %+v, %v, %v", d, byName, err)
			}
			if d.Scope != tc.want || d.Rule != "r" || len(d.Parts) != len(tc.scope) {
				t.Errorf("scope %s by %q with %v, want %s", d.Scope, d.Rule, d.Parts, tc.want)
			}
		})
	}
}

func TestDecideByName(t *testing.T) {
	set := compile(t, rules.Config{Rules: []rules.Rule{
		{Name: "a", Match: `type == rds && name.startsWith("a")`, Scope: []string{"node.cluster"}},
		{Name: "b", Match: `type == rds`, Scope: []string{"name"}},
		{Name: "c", Match: `true`},
	}})
	subject := set.Subject(sidecar(t), keyer.Peer{})
	if d, byName, err := subject.Decide(clusterURL); err != nil || byName || d.Scope != "c[]" {
		t.Errorf("Decide = %+v, %v, %v", d, byName, err)
	}
	if d, byName, err := subject.Decide(routeURL); err != nil || !byName || d.Scope != "" {
		t.Errorf("Decide = %+v, %v, %v", d, byName, err)
	}
	for name, want := range map[string]string{"a1": `a["web"]`, "b1": `b["b1"]`, "*": `b["*"]`} {
		if d, err := subject.DecideName(routeURL, name); err != nil || d.Scope != want {
			t.Errorf("DecideName(%q) = %+v, %v, want %s", name, d, err, want)
		}
	}
}

func TestDecideFails(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		rule       rules.Rule
		node       *corev3.Node
	}{
		{"AGG-2 missing key", `aggregation rule "r" fails: match: node.metadata.rolle == "x": no such key: rolle`, rules.Rule{Match: `node.metadata.rolle == "x"`}, sidecar(t)},
		{"AGG-2 not a bool", `aggregation rule "r" fails: match: node.metadata.role: the value is a string, not a bool`, rules.Rule{Match: `node.metadata.role`}, sidecar(t)},
		{"AGG-2 part", `aggregation rule "r" fails: scope[1]: node.metadata.x: no such key: x`, rules.Rule{Match: `true`, Scope: []string{"node.id", "node.metadata.x"}}, sidecar(t)},
		{"AGG-2 node field", `aggregation rule "r" fails: node.id: node.metadata.shard: the value is a number, not a string`, rules.Rule{Match: `true`, Node: rules.Node{ID: "node.metadata.shard"}}, sidecar(t)},
		{"STR-1 no node", `aggregation rule "r" fails: match: node.id == "x": the client gave no node`, rules.Rule{Match: `node.id == "x"`}, nil},
		{"STR-1 has without a node", `aggregation rule "r" fails: match: has(node.locality): the client gave no node`, rules.Rule{Match: `has(node.locality)`}, nil},
		{"STR-1 part without a node", `aggregation rule "r" fails: scope[0]: node: the client gave no node`, rules.Rule{Match: `true`, Scope: []string{"node"}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.rule.Name = "r"
			set := compile(t, rules.Config{Otherwise: rules.Share, Rules: []rules.Rule{tc.rule}})
			d, _, err := set.Subject(tc.node, keyer.Peer{}).Decide(clusterURL)
			if err != nil || d.Failed == nil {
				t.Fatalf("Decide = %+v, %v", d, err)
			}
			if d.Failed.Error() != tc.want {
				t.Errorf("failed: %v\nwant    %s", d.Failed, tc.want)
			}
			if alone, _ := ask(t, rules.Isolate, tc.node, keyer.Peer{}); d.Scope != alone.Scope || d.Rule != "r" || d.Node != tc.node {
				t.Errorf("decision %+v, want scope %s", d, alone.Scope)
			}
		})
	}
}
