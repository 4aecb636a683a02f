package rules_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// AGG-5: the terms that decided are shown with what they came to, and no others.
func TestExplainWhy(t *testing.T) {
	for _, tc := range []struct{ name, match, result, why string }{
		{"comparison", `node.metadata.role == "gateway"`, rules.DoesNotMatch, `node.metadata.role == "gateway" is false: node.metadata.role is "sidecar"`},
		{"first false operand", `node.id.startsWith("gw") && type == eds && node.cluster == "x"`, rules.DoesNotMatch, `type == eds is false: type is cds`},
		{"all operands", `node.cluster == "web" && type in [lds, cds]`, rules.Matches, `node.cluster == "web" is true: node.cluster is "web"; type in [lds, cds] is true: type is cds`},
		{"no operand", `node.cluster == "a" || node.cluster == "b"`, rules.DoesNotMatch, `node.cluster == "a" is false: node.cluster is "web"; node.cluster == "b" is false: node.cluster is "web"`},
		{"one operand", `node.cluster == "a" || node.cluster == "web"`, rules.Matches, `node.cluster == "web" is true: node.cluster is "web"`},
		{"not", `!(node.cluster == "web")`, rules.DoesNotMatch, `!(node.cluster == "web") is false: node.cluster is "web"`},
		{"not a function", `node.cluster == "web" && !node.id.startsWith("gw")`, rules.DoesNotMatch, `!node.id.startsWith("gw") is false: node.id is "gw-web-17"`},
		{"not one of two", `!(node.cluster == "web" || node.id == "a")`, rules.DoesNotMatch, `node.cluster == "web" is true: node.cluster is "web"`},
		{"choice", `type == cds ? node.cluster == "x" : true`, rules.DoesNotMatch, `type == cds is true: type is cds; node.cluster == "x" is false: node.cluster is "web"`},
		{"function", `regex.replace(node.id, "-[0-9]+$", "") == "gw"`, rules.DoesNotMatch, `regex.replace(node.id, "-[0-9]+$", "") == "gw" is false: regex.replace(node.id, "-[0-9]+$", "") is "gw-web", node.id is "gw-web-17"`},
		{"presence", `has(node.metadata.zone)`, rules.DoesNotMatch, `has(node.metadata.zone) is false`},
		{"key", `"zone" in node.metadata.labels`, rules.DoesNotMatch, `"zone" in node.metadata.labels is false: node.metadata.labels is {"app":"web"}`},
		{"optional", `node.metadata[?"zone"].orValue("") == "a"`, rules.DoesNotMatch, `node.metadata[?"zone"].orValue("") == "a" is false: node.metadata[?"zone"].orValue("") is "", node.metadata[?"zone"] is optional.none()`},
		{"loop", `peer.dns.exists(d, d.endsWith(".test"))`, rules.DoesNotMatch, `peer.dns.exists(d, d.endsWith(".test")) is false: peer.dns is ["web.example"]`},
		{"literal", `true`, rules.Matches, `true is true`},
		{"failure", `node.metadata.zone == "a"`, rules.Fails, `match: node.metadata.zone == "a": no such key: zone`},
		{"failure by a type", `node.metadata.shard.matches("a")`, rules.Fails, `match: node.metadata.shard.matches("a"): a value has a type that this operation does not accept`},
		{"failure by two types", `node.metadata.role + node.metadata.shard == "a"`, rules.Fails, `match: node.metadata.role + node.metadata.shard == "a": a value has a type that this operation does not accept`},
		{"name", `type == cds && name == "a"`, rules.DependsOnName, `type == cds && name == "a"`},
		{"name that does not count", `name == "a" && type == eds`, rules.DoesNotMatch, `type == eds is false: type is cds`},
	} {
		t.Run("AGG-5 "+tc.name, func(t *testing.T) {
			set := compile(t, rules.Config{Rules: []rules.Rule{{Name: "r", Match: tc.match}}})
			e := set.Subject(sidecar(t), keyer.Peer{DNS: []string{"web.example"}}).Explain(clusterURL, nil)
			want := []rules.RuleResult{{Rule: "r", Result: tc.result, Why: tc.why}}
			if diff := cmp.Diff(want, e.Rules); diff != "" {
				t.Errorf("AGG-5: rules (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	set := compile(t, rules.Config{Rules: []rules.Rule{
		{Name: "eds", Match: `type == eds`, Scope: []string{"node.id"}},
		{Name: "shards", Match: `name.startsWith("a")`, Scope: []string{"name", "node.cluster"}},
		{
			Name: "all", Match: `true`, Upstream: "other", Scope: []string{"node.cluster", "node.metadata.shard"},
			Node: rules.Node{ID: `"relay-" + node.cluster`},
		},
		{Name: "not", Match: `false`},
	}})
	subject := set.Subject(sidecar(t), keyer.Peer{})
	got, err := json.Marshal(subject.Explain(clusterURL, nil))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"rules":[` +
		`{"rule":"eds","result":"does not match","why":"type == eds is false: type is cds"},` +
		`{"rule":"shards","result":"depends on the name","why":"name.startsWith(\"a\")"},` +
		`{"rule":"all","result":"matches","why":"true is true","scope":[` +
		`{"field":"scope[0]","expression":"node.cluster","value":"web","text":"\"web\""},` +
		`{"field":"scope[1]","expression":"node.metadata.shard","value":3,"text":"3"}],"node":[` +
		`{"field":"node.id","expression":"\"relay-\" + node.cluster","value":"relay-web","text":"\"relay-web\""}]},` +
		`{"rule":"not","result":"not reached"}],"by_name":true,"per_name":5}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("AGG-5: explanation (-want +got):\n%s", diff)
	}

	e := subject.Explain(clusterURL, new("b"))
	if e.ByName || e.PerName != 0 || e.Decision.Scope != `all["web",3]` || e.Decision.Upstream != "other" || e.Refused != nil {
		t.Errorf("AGG-5: explanation for a name: %+v", e)
	}
	if got := e.Decision.Node; got.GetId() != "relay-web" || got.GetCluster() != "web" || e.Decision.Basis == "" {
		t.Errorf("AGG-3: node %v on basis %q", got, e.Decision.Basis)
	}
}

// AGG-2: a node field of the wrong type fails in the explanation as it does in the
// decision, and a refusal is told.
func TestExplainFails(t *testing.T) {
	set := compile(t, rules.Config{Rules: []rules.Rule{{Name: "r", Match: "true", Scope: []string{"node.cluster"}, Node: rules.Node{ID: "node.metadata.shard"}}}})
	e := set.Subject(sidecar(t), keyer.Peer{}).Explain(clusterURL, nil)
	if e.Rules[0].Result != rules.Fails || e.Rules[0].Why != "node.id: node.metadata.shard: the value is a number, not a string" || e.Decision.Failed == nil {
		t.Errorf("AGG-5: %+v", e)
	}
	set = compile(t, rules.Config{Otherwise: rules.Refuse})
	if e := set.Subject(sidecar(t), keyer.Peer{}).Explain(clusterURL, nil); e.Refused == nil || len(e.Rules) != 0 {
		t.Errorf("AGG-5: %+v", e)
	}
}

// AGG-5: what metadata can hold, and what not, is the same in the explanation and in the
// decision: a control plane that is polled is shown JSON.
func TestExplainMetadata(t *testing.T) {
	for value, want := range map[string]string{
		`node.metadata.shard`:                    "",
		`node.metadata.deep`:                     "",
		`{"a": [node.metadata.shard / 0.0]}`:     "metadata can hold only JSON values: no infinite number and no NaN",
		`[0.0 * node.metadata.shard / 0.0]`:      "metadata can hold only JSON values: no infinite number and no NaN",
		`node.metadata.shard > 0.0 ? b"a" : b""`: "",
	} {
		node := sidecar(t)
		deep := structpb.NewStringValue("x")
		for range 100 {
			deep = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{deep}})
		}
		node.Metadata.Fields["deep"] = deep
		set := compile(t, rules.Config{Rules: []rules.Rule{{Name: "r", Match: "true", Node: rules.Node{Metadata: map[string]string{"a": value}}}}})
		e := set.Subject(node, keyer.Peer{}).Explain(clusterURL, nil)
		if got := e.Rules[0].Result == rules.Fails; got != (e.Decision.Failed != nil) || got != (want != "") || !strings.Contains(e.Rules[0].Why, want) {
			t.Errorf("AGG-5: %s: %+v, decided %v", value, e.Rules[0], e.Decision.Failed)
		}
	}
}

func TestUnmentioned(t *testing.T) {
	set := compile(t, rules.Config{Otherwise: rules.Share, Rules: []rules.Rule{
		{Name: "first", Match: `node.user_agent_name == "envoy"`},
		{
			Name: "second", Match: `has(node.metadata.role) && node.metadata[?"zone"].orValue("") != "" && "k" in node.metadata.labels`,
			Scope: []string{"node.cluster", "node.locality.zone"}, Node: rules.Node{ID: `"x"`, Locality: rules.Locality{Region: `"r"`}},
		},
		{Name: "third", Match: `node.metadata.size() > 100`},
	}})
	a := sidecar(t)
	b := sidecar(t)
	if got := set.Unmentioned("second", a, b); len(got) != 0 {
		t.Errorf("AGG-1: equal nodes differ in %q", got)
	}
	if got := set.Unmentioned("first", nil, nil); len(got) != 0 {
		t.Errorf("AGG-1: two clients without a node differ in %q", got)
	}
	if got := set.Unmentioned("first", nil, &corev3.Node{Cluster: "a", Metadata: a.GetMetadata()}); len(got) < 2 || got[0] != "cluster" {
		t.Errorf("AGG-1: a node and none differ in %q", got)
	}
	if got := set.Unmentioned("first", &corev3.Node{Id: "a"}, &corev3.Node{Id: "b"}); len(got) != 0 {
		t.Errorf("AGG-1: IDs, which are to differ, are in %q", got)
	}
	metadata := sidecar(t).GetMetadata()
	delete(metadata.GetFields(), "shard")
	metadata.Fields["role"] = metadata.GetFields()["labels"]
	metadata.Fields["labels"] = sidecar(t).GetMetadata().GetFields()["ports"]
	b = &corev3.Node{
		Id: "other", Cluster: "other", Metadata: metadata, UserAgentName: "envoy",
		Locality:             &corev3.Locality{Region: "x", Zone: "y", SubZone: "z"},
		UserAgentVersionType: &corev3.Node_UserAgentVersion{UserAgentVersion: "1"},
		ClientFeatures:       []string{"xds.config.supports-resource-ttl"}, // the relay's own business
		Extensions:           []*corev3.Extension{{Name: "x"}},
	}
	for rule, want := range map[string][]string{
		"first":         {"cluster", "extensions", "locality.region", "locality.sub_zone", "locality.zone", "metadata.labels", "metadata.role", "metadata.shard", "user_agent_version"},
		"second":        {"extensions", "locality.sub_zone", "metadata.labels", "metadata.shard", "user_agent_version"},
		"third":         {"cluster", "extensions", "locality.region", "locality.sub_zone", "locality.zone", "user_agent_version"},
		rules.Otherwise: {"cluster", "extensions", "locality.region", "locality.sub_zone", "locality.zone", "user_agent_version"},
	} {
		for _, nodes := range [][2]*corev3.Node{{a, b}, {b, a}} {
			if diff := cmp.Diff(want, set.Unmentioned(rule, nodes[0], nodes[1])); diff != "" {
				t.Errorf("AGG-1: unmentioned by %s (-want +got):\n%s", rule, diff)
			}
		}
	}
}

// explainAll asks for everything there is to ask.
func explainAll(t *testing.T, set *rules.Set, node *corev3.Node) {
	t.Helper()
	subject := set.Subject(node, keyer.Peer{})
	for _, name := range []*string{nil, new("a")} {
		if e := subject.Explain(clusterURL, name); e.Decision.Scope == "" && !e.ByName {
			t.Errorf("AGG-5: %+v", e)
		}
	}
	set.Unmentioned("r", node, &corev3.Node{})
}
