package rules_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

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

// AGG-1: a type is decided by name only if the name makes a difference.
func TestDecideByName(t *testing.T) {
	const elsewhere = `type == rds ? "" : name` // what a node looks at the scope has to, too
	for _, tc := range []struct {
		name   string
		rule   rules.Rule
		byName map[string]bool
	}{
		{"match", rules.Rule{Match: `type == rds && name.startsWith("a")`}, map[string]bool{routeURL: true, clusterURL: false}},
		{"match the other way round", rules.Rule{Match: `name.startsWith("a") && type == rds`}, map[string]bool{routeURL: true, clusterURL: false}},
		{"match by either", rules.Rule{Match: `type == cds || name == "*"`}, map[string]bool{routeURL: true, clusterURL: false}},
		{"absolute name", rules.Rule{Match: `.type == rds && .name.startsWith("a")`}, map[string]bool{routeURL: true, clusterURL: false}},
		{"match of a loop", rules.Rule{Match: `type == rds && ["a", "b"].exists(p, name.startsWith(p))`}, map[string]bool{routeURL: true, clusterURL: false}},
		{"scope", rules.Rule{Match: `type == rds`, Scope: []string{"node.cluster", "name"}}, map[string]bool{routeURL: true, clusterURL: false}},
		{"scope for one type", rules.Rule{Match: `node.id != ""`, Scope: []string{`type == rds ? name.split("/")[0] : ""`}}, map[string]bool{routeURL: true, clusterURL: false}},
		{"node", rules.Rule{Match: `type == rds`, Scope: []string{elsewhere}, Node: rules.Node{ID: `"shard-" + name`}}, map[string]bool{routeURL: true, clusterURL: false}},
		{"node's metadata", rules.Rule{Match: `type == rds`, Scope: []string{elsewhere}, Node: rules.Node{Metadata: map[string]string{"a": `name`}}}, map[string]bool{routeURL: true, clusterURL: false}},
		{"not at all", rules.Rule{Match: `type == rds`, Scope: []string{`node.metadata.name`}}, map[string]bool{clusterURL: false}},
	} {
		t.Run("AGG-1 "+tc.name, func(t *testing.T) {
			tc.rule.Name = "r"
			set := compile(t, rules.Config{Rules: []rules.Rule{tc.rule, {Name: "rest", Match: "true"}}})
			for typeURL, want := range tc.byName {
				d, byName, err := set.Subject(sidecar(t), keyer.Peer{}).Decide(typeURL)
				if err != nil || byName != want || byName != (d.Scope == "") || d.Failed != nil {
					t.Errorf("AGG-1: Decide(%s) = %+v, %v, %v, want by name %v", typeURL, d, byName, err, want)
				}
			}
		})
	}
}

func TestDecideName(t *testing.T) {
	set := compile(t, rules.Config{Rules: []rules.Rule{
		{Name: "a", Match: `type == rds && name.startsWith("a")`, Scope: []string{"node.cluster"}},
		{Name: "b", Match: `type == rds && name != "c"`, Scope: []string{"name"}},
		{Name: "c", Match: `true`},
	}})
	subject := set.Subject(sidecar(t), keyer.Peer{})
	for name, want := range map[string]string{"a1": `a["web"]`, "a2": `a["web"]`, "b1": `b["b1"]`, "*": `b["*"]`, "": `b[""]`, "c": `c[]`} {
		if d, err := subject.DecideName(routeURL, name); err != nil || d.Scope != want {
			t.Errorf("AGG-1: DecideName(%q) = %+v, %v, want %s", name, d, err, want)
		}
	}
	// Having asked for the type as a whole changes nothing but the work.
	if _, byName, err := subject.Decide(routeURL); err != nil || !byName {
		t.Errorf("AGG-1: by name %v, %v", byName, err)
	}
	for name, want := range map[string]string{"a1": `a["web"]`, "b1": `b["b1"]`, "c": `c[]`} {
		if d, err := subject.DecideName(routeURL, name); err != nil || d.Scope != want {
			t.Errorf("AGG-1: DecideName(%q) = %+v, %v, want %s", name, d, err, want)
		}
	}
	// What is not decided by name may be asked so all the same.
	whole, _, err := subject.Decide(clusterURL)
	if d, nameErr := subject.DecideName(clusterURL, "a1"); err != nil || nameErr != nil || d.Scope != "c[]" || d.Scope != whole.Scope {
		t.Errorf("AGG-1: DecideName = %+v, %v, Decide = %+v, %v", d, nameErr, whole, err)
	}
}

// AGG-1: whether the type was asked for as a whole before makes no difference to a name.
func TestAGG1PropertyDecideName(t *testing.T) {
	matches := []string{
		`name == "a"`, `name.startsWith("a") && type == rds`, `type == eds`, `node.metadata.missing == "x" && name == "b"`,
		`type == rds || name == "ab"`, `node.metadata.missing == "x"`, `name == "b" ? type == rds : node.cluster == "x"`, `name != "c"`, `true`,
	}
	rapid.Check(t, func(t *rapid.T) {
		var list []rules.Rule
		for i, match := range rapid.SliceOfDistinct(rapid.SampledFrom(matches), rapid.ID[string]).Draw(t, "matches") {
			scope := rapid.SampledFrom([][]string{nil, {"name"}, {"node.cluster"}, {`type == rds ? name : ""`}}).Draw(t, "scope")
			list = append(list, rules.Rule{Name: fmt.Sprint("r", i), Match: match, Scope: scope})
		}
		set, problems := rules.Compile(rules.Config{Rules: slices.DeleteFunc(list, func(r rules.Rule) bool {
			return r.Match == "true" && r.Name != list[len(list)-1].Name
		})})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		typeURL, name := rapid.SampledFrom([]string{clusterURL, routeURL}).Draw(t, "type"), rapid.SampledFrom([]string{"a", "ab", "b", "c", "*"}).Draw(t, "name")
		node := &corev3.Node{Cluster: "web"}
		subject := set.Subject(node, keyer.Peer{})
		whole, byName, err := subject.Decide(typeURL)
		after, afterErr := subject.DecideName(typeURL, name)
		fresh, freshErr := set.Subject(node, keyer.Peer{}).DecideName(typeURL, name)
		if err != nil || afterErr != nil || freshErr != nil {
			t.Fatal(err, afterErr, freshErr)
		}
		if after.Scope != fresh.Scope || after.Rule != fresh.Rule {
			t.Fatalf("AGG-1: %s/%s: %+v after Decide, %+v without", typeURL, name, after, fresh)
		}
		if !byName && (whole.Scope != fresh.Scope || whole.Rule != fresh.Rule) {
			t.Fatalf("AGG-1: %s/%s: %+v for the type, %+v for the name", typeURL, name, whole, fresh)
		}
	})
}

// AGG-2: the first rule that matches decides, with its upstream; a failing one only has its
// upstream if it was known to match.
func TestAGG2Order(t *testing.T) {
	list := func(otherwise rules.Policy) *rules.Set {
		return compile(t, rules.Config{Otherwise: otherwise, Rules: []rules.Rule{
			{Name: "first", Match: `type == cds && node.cluster == "web"`, Upstream: "u1"},
			{Name: "fails", Match: `type == cds && node.metadata.missing == "x"`, Upstream: "u2"},
			{Name: "part-fails", Match: `type == rds`, Scope: []string{`node.metadata.missing`}, Upstream: "u3"},
			{Name: "node-fails", Match: `type == eds`, Node: rules.Node{ID: `node.metadata.missing`}, Upstream: "u4"},
		}})
	}
	set, refusing := list(rules.Share), list(rules.Refuse)
	const endpointURL = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	for _, tc := range []struct {
		cluster, typeURL, rule, upstream string
		failed                           bool
	}{
		{"web", clusterURL, "first", "u1", false},
		{"other", clusterURL, "fails", "", true},
		{"web", routeURL, "part-fails", "u3", true},
		{"web", endpointURL, "node-fails", "u4", true},
	} {
		node := sidecar(t)
		node.Cluster = tc.cluster
		d, _, err := set.Subject(node, keyer.Peer{}).Decide(tc.typeURL)
		if err != nil || d.Rule != tc.rule || d.Upstream != tc.upstream || (d.Failed != nil) != tc.failed || (d.Basis == "") != tc.failed || d.Client != node || d.Whole != tc.failed {
			t.Errorf("AGG-2: Decide = %+v, %v, want rule %s and upstream %q", d, err, tc.rule, tc.upstream)
		}
		failed, ok := errors.AsType[*rules.FailedError](d.Failed)
		if ok != tc.failed || ok && failed.Rule != tc.rule {
			t.Errorf("AGG-2: failed: %#v", d.Failed)
		}
		// Where clients are refused that no rule matches, those are whom a rule fails for.
		d, _, err = refusing.Subject(node, keyer.Peer{}).Decide(tc.typeURL)
		refused, ok := errors.AsType[*rules.RefusedError](err)
		_, because := errors.AsType[*rules.FailedError](err)
		if ok != tc.failed || because != tc.failed || (tc.failed && (refused.Rule != tc.rule || d.Scope != "")) {
			t.Errorf("AGG-2: Decide = %+v, %v, want a refusal by %s: %t", d, err, tc.rule, tc.failed)
		}
	}
	if d, _, err := refusing.Subject(sidecar(t), keyer.Peer{}).Decide("type.googleapis.com/unheard.of"); err == nil || d.Scope != "" {
		t.Errorf("AGG-2: Decide = %+v, %v, want a refusal", d, err)
	}
	// A failing rule's client that cannot be isolated either is refused by that rule.
	_, _, err := set.Subject(&corev3.Node{Id: "\xff"}, keyer.Peer{}).Decide(routeURL)
	if refused, ok := errors.AsType[*rules.RefusedError](err); !ok || refused.Rule != "part-fails" || refused.Cause == nil {
		t.Errorf("AGG-2: %v", err)
	}
}

func TestDecideFails(t *testing.T) {
	nasty := sidecar(t)
	nasty.Metadata.Fields["nasty"] = structpb.NewStringValue("a\nb\x00forged=line")
	for _, tc := range []struct {
		name, want string
		rule       rules.Rule
		node       *corev3.Node
	}{
		{"AGG-2 missing key", `aggregation rule "r" fails: match: node.metadata.rolle == "x": no such key: rolle`, rules.Rule{Match: `node.metadata.rolle == "x"`}, sidecar(t)},
		{"AGG-2 not a bool", `aggregation rule "r" fails: match: node.metadata.role: the value is a string, not a bool`, rules.Rule{Match: `node.metadata.role`}, sidecar(t)},
		{"AGG-2 part", `aggregation rule "r" fails: scope[1]: node.metadata.x: no such key: x`, rules.Rule{Match: `true`, Scope: []string{"node.id", "node.metadata.x"}}, sidecar(t)},
		{"AGG-2 node field", `aggregation rule "r" fails: node.id: node.metadata.shard: the value is a number, not a string`, rules.Rule{Match: `true`, Node: rules.Node{ID: "node.metadata.shard"}}, sidecar(t)},
		{"AGG-2 client's text in the error", `aggregation rule "r" fails: match: {"a": true}[node.metadata.nasty]: no such key: a b forged=line`, rules.Rule{Match: "{\"a\":\n\ttrue}[node.metadata.nasty]"}, nasty},
		{"STR-1 no node", `aggregation rule "r" fails: match: node.id == "x": the client sent no node`, rules.Rule{Match: `node.id == "x"`}, nil},
		{"STR-1 has without a node", `aggregation rule "r" fails: match: has(node.locality): the client sent no node`, rules.Rule{Match: `has(node.locality)`}, nil},
		{"STR-1 part without a node", `aggregation rule "r" fails: scope[0]: node: the client sent no node`, rules.Rule{Match: `true`, Scope: []string{"node"}}, nil},
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

// xdstp is a variable of access rules only. A loop of another rule may call one of its own so: that is no
// name that the rule looks at.
func TestLoopsOverXDSTP_AGG4(t *testing.T) {
	for _, match := range []string{
		`node.client_features.exists(xdstp, xdstp == "a")`,
		`cel.bind(xdstp, node.client_features, "a" in xdstp)`,
		`node.client_features.filter(xdstp, xdstp == "a").exists(xdstp, xdstp == "a")`,
	} {
		set := compile(t, rules.Config{Rules: []rules.Rule{{Name: "r", Match: match}}})
		verifier, problems := rules.CompileVerify([]rules.Requirement{{Name: "r", Require: match}})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		for feature, is := range map[string]bool{"a": true, "b": false} {
			node := &corev3.Node{ClientFeatures: []string{feature}}
			if d, byName, err := set.Subject(node, keyer.Peer{}).Decide(routeURL); err != nil || byName || (d.Rule == "r") != is {
				t.Errorf("AGG-4: %s: %q: rule %q, by name %t, %v", match, feature, d.Rule, byName, err)
			}
			if err := verifier.Verify(node, keyer.Peer{}); (err == nil) != is {
				t.Errorf("ACC-5: %s: %q: %v", match, feature, err)
			}
		}
	}
	match := `node.client_features.exists(xdstp, xdstp == "a")`
	if _, problems := rules.CompileAccess(rules.AccessConfig{Rules: []rules.AccessRule{{Name: "r", Match: match}}}); len(problems) != 1 || problems[0].Column != 28 {
		t.Errorf("ACC-4: an access rule with a loop over xdstp: %+v", problems)
	}
}
